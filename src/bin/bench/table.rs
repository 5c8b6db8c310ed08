//! The report as a table, or as JSON.

use nearfar::bench::{Line, Report};
use nearfar::gpu::KernelTime;
use nearfar::{Bytes, DeviceInfo};

pub(crate) fn print(report: &Report, json: bool) {
    if json {
        let json = serde_json::to_string(report).expect("a report is plain data");
        println!("{json}");
        return;
    }
    let DeviceInfo {
        engine,
        adapter,
        backend,
        software,
        ..
    } = &report.device;
    let software = if *software {
        ", a software adapter: ratios only"
    } else {
        ""
    };
    let shaders = match (engine.as_str(), report.trusted) {
        ("cpu", _) => "",
        (_, true) => "; shaders without runtime checks",
        (_, false) => "; shaders with runtime checks",
    };
    println!(
        "{engine} engine on {adapter} ({backend}{software}){shaders}; peak {:.1} GFLOP/s; every result was checked first",
        report.peak_gflops
    );
    println!(
        "{:<45} {:>10} {:>10} {:>10} {:>10} {:>8} {:>7} {:>7} {:>9} {:>10} {:>7} {:>5} {:>9} {:>9} {:>9}  rate",
        "",
        "median ms",
        "p10",
        "p90",
        "on device",
        "GFLOP/s",
        "of peak",
        "there",
        "scratch",
        "dispatches",
        "submits",
        "waits",
        "sent",
        "read",
        "memory"
    );
    for line in &report.lines {
        println!("{}", row(line));
    }
}

/// A line of the table.
fn row(line: &Line) -> String {
    let Line {
        name,
        median_ms,
        p10_ms,
        p90_ms,
        rate,
        ..
    } = line;
    let percent = |share: Option<f64>| text(share, |share| format!("{:.0} %", 100.0 * share));
    let bytes = |bytes: Option<u64>| text(bytes, |bytes| Bytes(bytes).to_string());
    let count = |count: Option<u64>| text(count, |count| count.to_string());
    let device = text(line.device_ms, |ms| format!("{ms:.3}"));
    let gflops = text(line.gflops, |gflops| format!("{gflops:.1}"));
    let [share, there] = [line.share_of_peak, line.device_share_of_peak].map(percent);
    let scratch = bytes(line.scratch_bytes);
    let [dispatches, submits, waits] = [line.dispatches, line.submits, line.waits].map(count);
    let [sent, read] = [line.uploaded_bytes, line.fetched_bytes].map(bytes);
    let memory = Bytes(line.memory_bytes).to_string();
    let pml = text(line.pml_bytes, |[cube, list]| {
        format!("; PML: {} or {}", Bytes(cube), Bytes(list))
    });
    format!(
        "{name:<45} {median_ms:>10.3} {p10_ms:>10.3} {p90_ms:>10.3} {device:>10} {gflops:>8} {share:>7} {there:>7} {scratch:>9} {dispatches:>10} {submits:>7} {waits:>5} {sent:>9} {read:>9} {memory:>9}  {rate}{pml}"
    )
}

/// Time of each kernel on the device, line by line.
pub(crate) fn print_kernels(report: &Report) {
    println!("\non the device, each dispatch a pass of its own:");
    for line in &report.lines {
        let Some(device_ms) = line.device_ms else {
            println!("{:<45} {:>10}", line.name, "not timed there");
            continue;
        };
        println!("{:<45} {device_ms:>10.3} ms", line.name);
        for kernel in &line.kernels {
            let KernelTime {
                kernel,
                dispatches,
                elapsed_ms,
            } = kernel;
            println!("  {kernel:<43} {elapsed_ms:>10.3} ms in {dispatches}");
        }
    }
}

/// The times of the same lines on two engines.
pub(crate) fn print_both(reports: &[Report; 2], json: bool) {
    if json {
        let json = serde_json::to_string(reports).expect("reports are plain data");
        println!("{json}");
        return;
    }
    let [first, second] = reports;
    for (report, name) in reports.iter().zip(names(reports)) {
        println!(
            "{name}: {}; peak {:.1} GFLOP/s",
            report.device.adapter, report.peak_gflops
        );
    }
    println!(
        "every result was checked first; medians in ms, and means on the device where it has a clock"
    );
    let [one, other] = names(reports);
    println!("{:<45} {one:>10} {other:>10}  {one} / {other}", "");
    for (line, other) in first.lines.iter().zip(&second.lines) {
        let ratio = line.median_ms / other.median_ms;
        let device = text(line.device_ms.zip(other.device_ms), |(ms, other_ms)| {
            format!(
                "; on the device {ms:.3} {other_ms:.3}  {:.2}",
                ms / other_ms
            )
        });
        println!(
            "{:<45} {:>10.3} {:>10.3}  {ratio:.2}{device}",
            line.name, line.median_ms, other.median_ms
        );
    }
}

/// Names of two reports: their engines, or the checks of their shaders.
fn names(reports: &[Report; 2]) -> [&str; 2] {
    let engines = reports
        .each_ref()
        .map(|report| report.device.engine.as_str());
    match engines[0] == engines[1] {
        true => ["checked", "trusted"],
        false => engines,
    }
}

/// A cell, empty if there is no value.
fn text<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or_else(String::new, write)
}
