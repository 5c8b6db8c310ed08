//! Keeps what wasm-bindgen has to know of a wasm whose names are stripped: which features it was compiled with.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=--keep-section=target_features");
}
