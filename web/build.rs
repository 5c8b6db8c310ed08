//! Keeps what wasm-bindgen has to know of a wasm whose names are stripped: which features it was compiled with. And names the code
//! that it is compiled from: a message is read by the same code that wrote it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=--keep-section=target_features");
    let own = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = own
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").exists());
    let root = root.expect("the workspace has a lock file");
    let mut code = DefaultHasher::new();
    for folder in ["src", "web/files/src"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        hash(&root.join(folder), &mut code);
    }
    println!("cargo::rustc-env=NEARFAR_CODE={}", code.finish());
}

/// Hashes all Rust code below a folder.
fn hash(folder: &Path, code: &mut DefaultHasher) {
    let entries = folder.read_dir().expect("it is there");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it is there").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash(&path, code);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            std::fs::read(&path).expect("it is there").hash(code);
        }
    }
}
