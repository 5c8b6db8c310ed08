//! Makes the text of shaders that is compiled in: without what only a reader of `shaders/` needs, and for the web with short names.

mod wgsl;

use std::env::var;
use std::fs;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=shaders");
    let written = fs::read_dir("shaders").expect("the folder is there");
    let texts: Vec<(String, String)> = written
        .map(|file| {
            let file = file.expect("readable");
            let text = fs::read_to_string(file.path()).expect("text");
            (
                file.file_name().into_string().expect("UTF-8"),
                wgsl::packed(&text),
            )
        })
        .collect();
    let names = wgsl::short_names(texts.iter().map(|(_, text)| text.as_str()));
    // Where code is fetched; elsewhere a message of a compiler names what `shaders/` does.
    let is_fetched = var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm");
    let out = var("OUT_DIR").expect("cargo gives a folder");
    for (file, text) in &texts {
        let code = if is_fetched {
            wgsl::joined(&wgsl::renamed(text, &names))
        } else {
            text.clone()
        };
        fs::write(Path::new(&out).join(file), code).expect("the folder can be written to");
    }
}
