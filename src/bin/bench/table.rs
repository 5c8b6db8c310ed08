//! The report as a table, or as JSON.

use nearfar::bench::{Line, Report};
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
        "{:<45} {:>10} {:>10} {:>10} {:>8} {:>7} {:>9} {:>7} {:>9}  rate",
        "", "median ms", "p10", "p90", "GFLOP/s", "of peak", "scratch", "submits", "memory"
    );
    for line in &report.lines {
        let Line {
            name,
            median_ms,
            p10_ms,
            p90_ms,
            rate,
            ..
        } = line;
        let gflops = text(line.gflops, |gflops| format!("{gflops:.1}"));
        let share = text(line.share_of_peak, |share| {
            format!("{:.0} %", 100.0 * share)
        });
        let scratch = text(line.scratch_bytes, |bytes| Bytes(bytes).to_string());
        let submits = text(line.submits, |submits| submits.to_string());
        let memory = Bytes(line.memory_bytes).to_string();
        let pml = text(line.pml_bytes, |[cube, list]| {
            format!("; PML: {} or {}", Bytes(cube), Bytes(list))
        });
        println!(
            "{name:<45} {median_ms:>10.3} {p10_ms:>10.3} {p90_ms:>10.3} {gflops:>8} {share:>7} {scratch:>9} {submits:>7} {memory:>9}  {rate}{pml}"
        );
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
    for report in reports {
        let DeviceInfo {
            engine, adapter, ..
        } = &report.device;
        println!(
            "{engine}: {adapter}; peak {:.1} GFLOP/s",
            report.peak_gflops
        );
    }
    println!("every result was checked first; medians in ms");
    let [one, other] = reports.each_ref().map(|report| &report.device.engine);
    println!("{:<45} {one:>10} {other:>10}  {one} / {other}", "");
    for (line, other) in first.lines.iter().zip(&second.lines) {
        let ratio = line.median_ms / other.median_ms;
        println!(
            "{:<45} {:>10.3} {:>10.3}  {ratio:.2}",
            line.name, line.median_ms, other.median_ms
        );
    }
}

/// A cell, empty where there is no value.
fn text<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or_else(String::new, write)
}
