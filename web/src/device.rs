//! The device that the core runs on, in a few words; on demand also why, how fast it is and, if it is the CPU, what would bring a
//! GPU to this browser.

use leptos::prelude::*;
use nearfar::{Bytes, Reason, TileShape};

use crate::protocol::Running;
use crate::state::State;
use crate::terms::Explained;

/// The device in a few words, and why on demand.
#[component]
pub(crate) fn Device(state: State) -> impl IntoView {
    let text = Memo::new(
        move |_| match (&*state.no_engine.read(), &*state.device.read()) {
            (Some(_), _) => ["", "No GPU", "."].map(str::to_owned),
            (None, Some(running)) => short(running),
            (None, None) => ["", "..", ""].map(str::to_owned),
        },
    );
    let part = move |at: usize| move || text.read()[at].clone();
    let why = Signal::derive(
        move || match (&*state.no_engine.read(), &*state.device.read()) {
            (Some(message), _) => format!("{message}."),
            (None, Some(running)) => sentence(running),
            (None, None) => String::new(),
        },
    );
    // The browser could have a GPU, and gives none.
    let lacks = move || match (&*state.no_engine.read(), &*state.device.read()) {
        (Some(_), _) => true,
        (None, Some(running)) => matches!(running.reason, Reason::NoGpu | Reason::NoDevice(_)),
        (None, None) => false,
    };
    view! {
        <p class="device">
            // A phone has room for the word between the others.
            <span data-testid="device"><span class="wide">{part(0)}</span>{part(1)}<span class="wide">{part(2)}</span></span>
            <span hidden=move || why.read().is_empty()><Explained name="Why?" text=why testid="device-why"/></span>
            <a
                data-testid="webgpu-report" hidden=move || !lacks() href="https://webgpureport.org" target="_blank" rel="noreferrer"
                title="Shows what this browser says of WebGPU, which gives pages the GPU (opens webgpureport.org)"
            >"Check"</a>
        </p>
    }
}

/// The device in a few words, in three parts: the second says it by itself.
fn short(running: &Running) -> [String; 3] {
    let device = &running.device;
    let said = |before: &str, word: &str, after: &str| [before, word, after].map(str::to_owned);
    match &device.engine[..] {
        "cpu" if running.threads > 1 => {
            let before = format!("Runs on {} threads of the ", running.threads);
            said(&before, "CPU", ".")
        }
        "cpu" => said("Runs on the ", "CPU", "."),
        _ if device.software => said("Runs on a ", "GPU", " that the CPU imitates: slow."),
        _ => said("Runs on your ", "GPU", &format!(" ({}).", device.adapter)),
    }
}

/// Why the core runs on this device, how fast it is, and what would bring a GPU.
fn sentence(running: &Running) -> String {
    let Running { device, reason, .. } = running;
    let speed = running.self_test.map_or_else(String::new, |tested| {
        format!(" Measured just now: {} GFLOP/s.", digits(tested.gflops))
    });
    if device.engine == "cpu" {
        let why = why_cpu(reason, running.webgpu);
        let on = match running.threads {
            1 => "the CPU".to_owned(),
            threads => format!("{threads} threads of the CPU"),
        };
        let slower =
            (running.self_test).map_or_else(String::new, |tested| times_slower(tested.gflops));
        return format!(
            "It runs on {on} because {why}. The results are the same as on a GPU.{speed}{slower}"
        );
    }
    let (backend, adapter) = (&device.backend, &device.adapter);
    let buffers = Bytes(device.max_buffer_bytes);
    let what = format!("{adapter} ({backend}; buffers up to {buffers})");
    let shape = match device.tuned {
        Some(TileShape::Tile) => TILE,
        Some(TileShape::Strip) => STRIP,
        Some(TileShape::Quads) => QUADS,
        None => "",
    };
    if device.software {
        return format!(
            "The link asks for a GPU (engine=gpu), and the only one is software: {what}. Its results are right; without \
             engine=gpu the CPU does the work faster.{speed}"
        );
    }
    match reason {
        Reason::AskedFor => format!("The link asks for a GPU (engine=gpu): {what}.{speed}{shape}"),
        _ => format!("The browser offers this GPU: {what}.{speed}{shape}"),
    }
}

const TILE: &str =
    " A search compares 64 rows with 128 others at a time: the fastest of three ways on this GPU.";
const STRIP: &str =
    " A search compares 8 rows with 1,024 others at a time: the fastest of three ways on this GPU.";

const QUADS: &str = " A search compares 64 rows with 128 others at a time, 64 pairs a lane: the fastest of three ways on this GPU.";

/// GFLOP/s of a usual laptop's GPU, by its maker's figure.
const LAPTOP_GFLOPS: f64 = 2000.0;

/// Sentence on how much slower this CPU may be than a laptop's GPU; empty if that is less than twice.
fn times_slower(gflops: f64) -> String {
    match (LAPTOP_GFLOPS / gflops).round() {
        times if times < 2.0 => String::new(),
        times => format!(
            " The GPU of a usual laptop does about 2,000 by its maker's figure: a large search is up to {times} times slower here. Small \
             steps lose less."
        ),
    }
}

/// A number with one decimal below 10, and none from there on.
fn digits(number: f64) -> String {
    match number {
        _ if number < 10.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Why the core runs on the CPU.
fn why_cpu(reason: &Reason, webgpu: bool) -> String {
    match reason {
        Reason::AskedFor => "the link asks for it (engine=cpu)".to_owned(),
        Reason::OnlySoftware(name) => {
            format!(
                "the only GPU here is software that runs on the CPU itself ({name}), and slower; ?engine=gpu in the link would use it"
            )
        }
        Reason::NoDevice(why) => format!("the GPU cannot be used ({why})"),
        Reason::NoGpu | Reason::Hardware => {
            let agent = window().navigator().user_agent().unwrap_or_default();
            no_gpu(&agent, webgpu, window().is_secure_context()).to_owned()
        }
    }
}

/// Advice that would bring a GPU to a browser of this user agent; `webgpu` if its workers have WebGPU, but no adapter.
fn no_gpu(agent: &str, webgpu: bool, secure: bool) -> &'static str {
    let is = |part| agent.contains(part);
    let linux = is("Linux") && !is("Android");
    let chromium = is("Chrome/");
    if !secure {
        "browsers give a page the GPU (WebGPU) only where it comes over https or from this machine"
    } else if is("Firefox/") && (linux || is("Android")) {
        "Firefox gives pages no GPU here (WebGPU) unless dom.webgpu.enabled and dom.webgpu.workers.enabled are set to true \
         in about:config"
    } else if webgpu && linux && chromium {
        "the browser offers no GPU, though it could (WebGPU); chrome://gpu says why; on Linux a newer driver helps, or \
         starting the browser with --enable-unsafe-webgpu"
    } else if webgpu {
        "the browser offers no GPU, though it could (WebGPU); a newer driver may help"
    } else if is("Firefox/") {
        "this Firefox gives pages no GPU; it does (WebGPU) from version 141 on Windows, and from 147 on Macs with Apple silicon"
    } else if is("iPhone") || is("iPad") {
        "pages get the GPU (WebGPU) from iOS 26 on"
    } else if is("Safari/") && !chromium {
        "Safari gives pages the GPU (WebGPU) from version 26 on"
    } else {
        "this browser gives pages no GPU (WebGPU); Chrome and Edge do from version 113 on, Safari from 26, Firefox from 141 \
         on Windows"
    }
}
