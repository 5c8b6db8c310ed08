//! Nearfar in a browser: a page, and a worker behind it that owns the core. One wasm serves both; a second one, `web/files`, reads
//! and writes files, and a third, `web/bench`, measures for `?bench=`.
#![cfg(target_arch = "wasm32")]
#![allow(
    unreachable_pub,
    reason = "the component macro makes the properties of a component `pub`"
)]

mod anchor;
mod answer;
mod app;
mod as_json;
#[path = "../files/src/asked.rs"]
mod asked;
mod bench;
mod chart;
mod checkpoints;
mod checks;
mod compare;
mod controls;
mod data;
mod device;
mod diagnostics;
mod dialog;
mod doctor;
mod evaluation;
mod failure;
mod files;
mod focus;
mod forecast;
mod frame;
mod gains;
mod history;
mod kept;
mod keys;
mod knobs;
mod lens;
mod lesson;
mod link;
mod map;
mod neighbours;
mod offer;
mod pictures;
mod plots;
mod preview;
mod protocol;
mod remembered;
mod request;
mod runs;
mod session;
mod shelf;
mod similarities;
mod sizes;
mod source;
mod spawn;
mod state;
mod take_home;
mod terms;
mod theme;
mod threshold;
#[path = "../files/src/wire.rs"]
mod wire;
mod words;
mod worker;

use wasm_bindgen::JsCast as _;

/// Mounts the page, or that of `?bench=`; in a worker, which has no window, starts the worker instead.
fn main() {
    if let Ok(scope) = js_sys::global().dyn_into::<web_sys::DedicatedWorkerGlobalScope>() {
        console_error_panic_hook::set_once();
        return worker::start(&scope);
    }
    failure::watch();
    match bench::asked() {
        Some(asked) => leptos::mount::mount_to_body(|| bench::view(asked)),
        None => leptos::mount::mount_to_body(app::App),
    }
}
