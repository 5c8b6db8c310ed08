//! Worker of the page `?bench=`, which runs the benchmark; its wasm is fetched by that page alone. Its message is the pairs of the
//! page's query; it answers with `["line", text]` after each size, and at the end with `["report", JSON]` or `["error", text]`.
#![cfg(target_arch = "wasm32")]

use js_sys::Array;
use nearfar::bench::{self, Sweep};
use nearfar::{EngineChoice, EngineKind, kernels};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

const BUDGET_BYTES: u64 = 512 << 20;

fn main() {
    console_error_panic_hook::set_once();
    let scope: DedicatedWorkerGlobalScope = js_sys::global().unchecked_into();
    let asked = scope.clone();
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        let pairs = Array::from(&event.data());
        let pairs = pairs.iter().filter_map(|pair| {
            let pair = Array::from(&pair);
            Some((pair.get(0).as_string()?, pair.get(1).as_string()?))
        });
        let (pairs, scope) = (pairs.collect::<Vec<_>>(), asked.clone());
        spawn_local(async move {
            match measure(&scope, &pairs).await {
                Ok(report) => say(&scope, "report", &report),
                Err(why) => say(&scope, "error", &why),
            }
        });
    });
    scope.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
}

fn say(scope: &DedicatedWorkerGlobalScope, kind: &str, text: &str) {
    let message = Array::of2(&kind.into(), &text.into());
    scope.post_message(&message).ok();
}

/// Runs the sweep with the code of the `bench` binary; returns the report as JSON.
async fn measure(
    scope: &DedicatedWorkerGlobalScope,
    pairs: &[(String, String)],
) -> Result<String, String> {
    let (choice, budget_bytes, sweep) = asked(pairs)?;
    let measured = async {
        let engine = bench::open(&choice, budget_bytes).await?;
        engine.prepare(kernels::used_on(engine.info())).await?;
        let heard = |line: &bench::Line| say(scope, "line", &line.said());
        bench::run(&engine, &sweep, heard).await
    };
    let report = measured
        .await
        .map_err(|error: nearfar::Error| error.to_string())?;
    Ok(serde_json::to_string(&report).expect("a report is plain data"))
}

/// Parses the pairs: choice of engine, memory budget in bytes and sweep of sizes, or why they make no sense.
fn asked(pairs: &[(String, String)]) -> Result<(EngineChoice, u64, Sweep), String> {
    let name = pairs.iter().find(|(key, _)| key == "bench");
    let name = name.map_or("", |(_, name)| name);
    let mut sweep = Sweep::named(name).map_err(|error| error.to_string())?;
    let (mut choice, mut budget_bytes) = (EngineChoice::default(), BUDGET_BYTES);
    for (key, value) in pairs {
        match key.as_str() {
            "bench" => {}
            "engine" => choice.kind = Some(value.parse::<EngineKind>()?),
            "budget" => {
                let mib = value
                    .strip_suffix("MiB")
                    .and_then(|mib| mib.parse::<u32>().ok());
                let mib = mib.ok_or(format!(
                    "budget is \"{value}\": 512MiB is expected, or other MiB"
                ))?;
                budget_bytes = u64::from(mib) << 20;
            }
            _ => sweep.set(key, value).map_err(|error| error.to_string())?,
        }
    }
    Ok((choice, budget_bytes, sweep))
}
