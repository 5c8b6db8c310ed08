//! What the core runs on, why, and how fast that is, in a sentence. Where it is the CPU, also what would bring a GPU to
//! this browser.

use leptos::prelude::*;
use nearfar::{Bytes, Reason};

use crate::protocol::Running;
use crate::state::State;

/// The sentence.
#[component]
pub(crate) fn Device(state: State) -> impl IntoView {
    let text = move || match &*state.device.read() {
        Some(running) => sentence(running),
        None if state.reading.get() > 0 => "..".to_owned(),
        None => {
            "Nothing runs: leave engine=gpu out of the link, and it will be the CPU.".to_owned()
        }
    };
    view! { <p class="device" data-testid="device">{text}</p> }
}

fn sentence(running: &Running) -> String {
    let Running { device, reason, .. } = running;
    let speed = running.self_test.map_or_else(String::new, |tested| {
        format!(" at {} GFLOP/s, measured just now", digits(tested.gflops))
    });
    if device.engine == "cpu" {
        let why = why_cpu(reason, running.webgpu);
        return format!("Running on the CPU{speed}, with the same results as on a GPU: {why}.");
    }
    let (backend, adapter) = (&device.backend, &device.adapter);
    let buffers = Bytes(device.max_buffer_bytes);
    if device.software {
        return format!(
            "Running on {adapter} ({backend}, software: right but slow; buffers up to {buffers}){speed}: \
             engine=gpu in the link asks for it, the CPU would be faster."
        );
    }
    let asked = match reason {
        Reason::AskedFor => ": engine=gpu in the link asks for it",
        _ => "",
    };
    format!("Running on your GPU, {adapter} ({backend}; buffers up to {buffers}){speed}{asked}.")
}

/// A number of two digits or more.
fn digits(number: f64) -> String {
    match number {
        _ if number < 10.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Why it is the CPU.
fn why_cpu(reason: &Reason, webgpu: bool) -> String {
    match reason {
        Reason::AskedFor => "engine=cpu in the link asks for it".to_owned(),
        Reason::OnlySoftware(name) => {
            format!(
                "the only GPU is played by the processor ({name}) and slower; ?engine=gpu would use it"
            )
        }
        Reason::NoDevice(why) => format!("the GPU cannot be used ({why})"),
        Reason::NoGpu | Reason::Hardware => {
            let agent = window().navigator().user_agent().unwrap_or_default();
            no_gpu(&agent, webgpu, window().is_secure_context()).to_owned()
        }
    }
}

/// What would bring a GPU to a browser of this name; `webgpu` where its workers have WebGPU, but no adapter.
fn no_gpu(agent: &str, webgpu: bool, secure: bool) -> &'static str {
    let is = |part| agent.contains(part);
    let linux = is("Linux") && !is("Android");
    let chromium = is("Chrome/");
    if !secure {
        "browsers have WebGPU only where a page comes over https or from this machine"
    } else if is("Firefox/") && (linux || is("Android")) {
        "Firefox has WebGPU here only behind settings; in about:config, set dom.webgpu.enabled and \
         dom.webgpu.workers.enabled to true"
    } else if webgpu && linux && chromium {
        "the browser has WebGPU and offers no GPU (chrome://gpu says why); on Linux a newer driver helps, or the flag \
         --enable-unsafe-webgpu"
    } else if webgpu {
        "the browser has WebGPU and offers no GPU; a newer driver may help"
    } else if is("Firefox/") {
        "Firefox has WebGPU from version 141 on Windows, and from 147 on Macs with Apple silicon"
    } else if is("iPhone") || is("iPad") {
        "WebGPU comes with iOS 26"
    } else if is("Safari/") && !chromium {
        "Safari has WebGPU from version 26 on"
    } else {
        "this browser has no WebGPU; Chrome and Edge have it from version 113 on, Safari from 26, Firefox from 141 on \
         Windows"
    }
}
