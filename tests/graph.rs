//! The one way in which modules depend: each uses those above it in `lib.rs`, never one below; only `gpu/` names wgpu.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// The files of the library: path below `src/` and text.
fn sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rust = files(&src)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let below = |path: &PathBuf| {
        path.strip_prefix(&src)
            .expect("below")
            .display()
            .to_string()
    };
    let named = rust.map(|path| (below(&path), fs::read_to_string(&path).expect("text")));
    let others = ["lib.rs", "main.rs", "cli/", "bin/"];
    named
        .filter(|(path, _)| !others.iter().any(|other| path.starts_with(other)))
        .collect()
}

/// The modules in the order of `lib.rs`.
fn order() -> Vec<String> {
    let lib = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs")).expect("text");
    let module = |line: &str| {
        let line = line.trim_start_matches("pub ");
        // One is a package of its own.
        let package = || line.strip_prefix("use nearfar_cpu as ");
        let module = line.strip_prefix("mod ").or_else(package)?;
        Some(module.trim_end_matches(';').to_owned())
    };
    lib.lines().filter_map(module).collect()
}

/// The modules that a file names as `crate::module`.
fn uses(text: &str) -> Vec<String> {
    let after = text.split("crate::").skip(1);
    let names = after.map(|rest| {
        rest.chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '_')
            .collect::<String>()
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// What is wrong with the arrows of one file.
fn backward(order: &[String], path: &str, text: &str) -> Vec<String> {
    let own = path.split(['/', '.']).next().expect("a name");
    let place = |name: &str| order.iter().position(|module| module == name);
    let Some(here) = place(own) else {
        return vec![format!("{own} is not in lib.rs")];
    };
    let back = uses(text)
        .into_iter()
        .filter(|name| place(name).is_none_or(|there| there > here));
    back.map(|name| format!("{path} uses {name}, which stands below it"))
        .collect()
}

#[test]
fn every_module_uses_only_those_above_it() {
    let order = order();
    let sources = sources();
    assert!(sources.len() > 40, "the whole library was read");
    let back: Vec<String> = sources
        .iter()
        .flat_map(|(path, text)| backward(&order, path, text))
        .collect();
    assert!(back.is_empty(), "{back:#?}");
    // The check itself bites.
    assert_eq!(
        backward(&order, "ledger.rs", "use crate::engine::Engine;").len(),
        1
    );
    assert_eq!(
        backward(&order, "gpu/vec.rs", "use crate::kernels::gemm;").len(),
        1
    );
}

#[test]
fn only_the_gpu_module_names_wgpu_and_the_ledger_knows_no_other() {
    for (path, text) in sources() {
        let code: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        assert!(
            path.starts_with("gpu/") || !code.contains("wgpu::"),
            "{path} names wgpu"
        );
        assert!(
            path != "ledger.rs" || !code.contains("crate::"),
            "the ledger imports only std"
        );
    }
}

#[test]
fn the_core_has_no_page_and_the_page_no_wgpu() {
    for (path, text) in sources() {
        assert!(!text.contains("leptos"), "{path}");
    }
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    let manifest = fs::read_to_string(web.join("Cargo.toml")).expect("text");
    assert!(!manifest.contains("wgpu"));
    for path in files(&web.join("src")) {
        assert!(
            !fs::read_to_string(&path).expect("text").contains("wgpu::"),
            "{}",
            path.display()
        );
    }
}
