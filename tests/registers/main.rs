//! What a real compiler makes of each kernel, without a GPU: RADV, Mesa's driver for AMD GPUs, compiles for a chip that is not
//! there. Registers, spills, workgroup memory and instructions are held to `tests/golden/radv.md`.
//!
//! RADV's null device creates pipelines and nothing else: it has no timeline semaphore, and wgpu gives no device without one. So
//! the kernels go to `wgpu::hal`, the part of wgpu that hands them to the driver, with the options that wgpu itself would pass on.
//! RADV prints its figures as it compiles, as it reads `RADV_DEBUG` when it is loaded: this takes a process of its own. Other drivers
//! give theirs through `VK_KHR_pipeline_executable_properties` alone (`statistics`), which `tests/hardware/run` asks; of RADV both
//! must say the same.
#![allow(
    unsafe_code,
    reason = "only `wgpu::hal` opens the null device, and all of it is unsafe"
)]

#[cfg(target_os = "linux")]
mod compiling;
#[cfg(target_os = "linux")]
mod statistics;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use nearfar::kernels;

/// The columns of the table, as it names them and as RADV does.
const COLUMNS: [(&str, &str); 7] = [
    ("VGPRs", "VGPRs"),
    ("waves", "Subgroups per SIMD"),
    ("spilled VGPRs", "Spilled VGPRs"),
    ("spilled SGPRs", "Spilled SGPRs"),
    ("scratch bytes", "Scratch size"),
    ("LDS bytes", "LDS size"),
    ("instructions", "Instructions"),
];
const VGPRS: usize = 0;
const SPILLED_VGPRS: usize = 2;
const LDS_BYTES: usize = 5;
const INSTRUCTIONS: usize = 6;

/// A kernel that takes no more VGPRs than this must stay there: with more, few of its waves share a SIMD and hide its loads.
const FEW_VGPRS: u32 = 128;
/// What a count of instructions may be off by. All other figures are exact.
const TOLERANCE: f64 = 0.05;
/// The unit in which the chip hands out workgroup memory.
const LDS_UNIT: u32 = 512;
/// Ends the note of a row that was written anew, until somebody puts a reason there.
const NO_REASON: &str = "why?";
/// Set, it has the table written anew.
const WRITE: &str = "NEARFAR_WRITE_RADV";

/// The figures of a kernel, by column.
type Figures = [u32; COLUMNS.len()];

/// The table of `tests/golden/radv.md`.
#[derive(Clone, Default)]
struct Table {
    /// The Mesa that made it.
    mesa: String,
    /// Figures and note of each kernel.
    rows: BTreeMap<String, (Figures, String)>,
}

impl Table {
    fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/radv.md")
    }

    fn parse(text: &str) -> Self {
        let mesa = text.lines().find_map(|line| line.strip_prefix("Made by "));
        let mesa = mesa
            .and_then(|rest| rest.split(" for ").next())
            .unwrap_or_default();
        let rows = text.lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            // The names of kernels have a dot, the head of the table has none.
            let (name, cells) = cells.split_first().filter(|(name, _)| name.contains('.'))?;
            let (note, figures) = cells.split_last()?;
            let figures: Option<Vec<u32>> = figures.iter().map(|cell| cell.parse().ok()).collect();
            let figures = Figures::try_from(figures?).ok()?;
            Some(((*name).to_owned(), (figures, (*note).to_owned())))
        });
        Self {
            mesa: mesa.to_owned(),
            rows: rows.collect(),
        }
    }

    fn text(&self) -> String {
        let names = COLUMNS.map(|(name, _)| name).join(" | ");
        let mut text = format!(
            "# What RADV makes of each kernel\n\n\
             Made by {} for navi23 (RDNA 2): `{WRITE}=1 cargo test --test registers` writes it anew, and the same without\n\
             `{WRITE}` compares. Instructions may be off by {:.0} %, all else is exact. A row that changes needs its reason in the\n\
             note. Waves are RADV's \"Subgroups per SIMD\". Every kernel is given 128 SGPRs, whatever it needs: what tells is\n\
             whether any are spilled.\n\n\
             | kernel | {names} | note |\n|---|{}---|\n",
            self.mesa,
            TOLERANCE * 100.0,
            "--:|".repeat(COLUMNS.len()),
        );
        for (name, (figures, note)) in &self.rows {
            let figures = figures.map(|figure| figure.to_string()).join(" | ");
            let line = format!("| {name} | {figures} | {note} |\n");
            text.push_str(&line.replace("|  |", "| |"));
        }
        text
    }

    /// The table that holds for what was found: rows that hold stay as they are, and those that do not ask for a reason.
    fn written_anew(&self, mesa: &str, found: &BTreeMap<String, Figures>) -> Self {
        let row = |(name, figures): (&String, &Figures)| {
            let (figures, note) = match self.rows.get(name) {
                None => (*figures, String::new()),
                // Another compiler is reason enough.
                Some((_, note)) if self.mesa != mesa => (*figures, note.clone()),
                Some((recorded, note)) => match differences(recorded, figures).as_slice() {
                    [] => (*recorded, note.clone()),
                    changed => {
                        let changed: Vec<String> = changed
                            .iter()
                            .map(|column| format!("{} {}", recorded[*column], COLUMNS[*column].0))
                            .collect();
                        let note = note.trim_end_matches(NO_REASON).trim_end();
                        let note = format!("{note} Was {}: {NO_REASON}", changed.join(", "));
                        (*figures, note.trim_start().to_owned())
                    }
                },
            };
            (name.clone(), (figures, note))
        };
        Self {
            mesa: mesa.to_owned(),
            rows: found.iter().map(row).collect(),
        }
    }
}

/// The columns in which a kernel is no longer what the table says.
fn differences(recorded: &Figures, found: &Figures) -> Vec<usize> {
    let differs = |column: &usize| {
        let (recorded, found) = (recorded[*column], found[*column]);
        let allowed = if *column == INSTRUCTIONS {
            f64::from(recorded) * TOLERANCE
        } else {
            0.0
        };
        f64::from(recorded.abs_diff(found)) > allowed
    };
    (0..COLUMNS.len()).filter(differs).collect()
}

/// What is wrong whatever the table says and whichever Mesa compiled.
fn always_wrong(found: &BTreeMap<String, Figures>) -> Vec<String> {
    let mut faults = Vec::new();
    for kernel in kernels::ALL {
        let name = kernel.name;
        let Some(figures) = found.get(name) else {
            faults.push(format!("{name}: RADV printed no figures"));
            continue;
        };
        let spilled = figures[SPILLED_VGPRS];
        if spilled > 0 {
            faults.push(format!(
                "{name} spills {spilled} VGPRs to memory: hold less at a time"
            ));
        }
        let declared = kernel.workgroup_bytes.next_multiple_of(LDS_UNIT);
        let taken = figures[LDS_BYTES];
        if taken > declared {
            faults.push(format!(
                "{name} takes {taken} bytes of workgroup memory, its `workgroup_bytes` has {}",
                kernel.workgroup_bytes
            ));
        }
    }
    faults
}

/// Kernels that were within [`FEW_VGPRS`] and no longer are.
fn above_few(table: &Table, found: &BTreeMap<String, Figures>) -> Vec<String> {
    let was_within = |name: &str| {
        let row = table.rows.get(name);
        row.is_some_and(|(figures, _)| figures[VGPRS] <= FEW_VGPRS)
    };
    let above = |(name, figures): (&String, &Figures)| {
        let vgprs = figures[VGPRS];
        (vgprs > FEW_VGPRS && was_within(name))
            .then(|| format!("{name} takes {vgprs} VGPRs and was within {FEW_VGPRS}"))
    };
    found.iter().filter_map(above).collect()
}

/// Where the table does not hold.
fn not_as_recorded(table: &Table, found: &BTreeMap<String, Figures>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, (recorded, note)) in &table.rows {
        if note.ends_with(NO_REASON) {
            faults.push(format!(
                "{name} changed without a reason: its note in the table ends with `{NO_REASON}`, put the reason there"
            ));
        }
        let Some(figures) = found.get(name) else {
            faults.push(format!("{name} stands in the table and is no kernel"));
            continue;
        };
        for column in differences(recorded, figures) {
            faults.push(format!(
                "{name}: {} {}, the table has {}",
                figures[column], COLUMNS[column].0, recorded[column]
            ));
        }
    }
    let new = found.keys().filter(|name| !table.rows.contains_key(*name));
    faults.extend(new.map(|name| format!("{name} is not in the table")));
    faults
}

/// The figures that RADV printed after the line of each kernel. A kernel of which one is missing is left out.
fn figures(printed: &str) -> BTreeMap<String, Figures> {
    let parts = printed.split(KERNEL).skip(1);
    let kernel = |part: &str| {
        let (name, printed) = part.split_once('\n')?;
        let figure = |(_, radv): (&str, &str)| {
            let lines = printed.lines().filter_map(|line| line.split_once(": "));
            let (_, value) = { lines }.find(|(name, _)| *name == radv)?;
            value.trim().parse().ok()
        };
        let figures: Option<Vec<u32>> = COLUMNS.into_iter().map(figure).collect();
        Some((name.to_owned(), Figures::try_from(figures?).ok()?))
    };
    parts.filter_map(kernel).collect()
}

/// The same figures as RADV's interface gives them.
fn asked(printed: &str) -> BTreeMap<String, Figures> {
    let parts = printed.split(KERNEL).skip(1);
    let kernel = |part: &str| {
        let (name, rest) = part.split_once('\n')?;
        let said = { rest.lines() }.find_map(|line| line.strip_prefix(STATISTICS))?;
        let said: BTreeMap<String, f64> = serde_json::from_str(said).ok()?;
        let figures: Option<Vec<u32>> = { COLUMNS.iter() }
            .map(|(_, radv)| said.get(*radv).map(|value| *value as u32))
            .collect();
        Some((name.to_owned(), Figures::try_from(figures?).ok()?))
    };
    parts.filter_map(kernel).collect()
}

/// Begins the line that says which Mesa compiles.
const MESA: &str = "registers: compiled by ";
/// Begins the line before what RADV prints of a kernel.
const KERNEL: &str = "registers: kernel ";
/// Begins the line of what RADV's interface says of it.
const STATISTICS: &str = "registers: statistics ";

/// Where Debian and others say that RADV is there.
fn radv() -> Option<PathBuf> {
    let names = [
        format!("radeon_icd.{}.json", std::env::consts::ARCH),
        "radeon_icd.json".to_owned(),
    ];
    let folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    folders
        .iter()
        .flat_map(|folder| {
            names
                .iter()
                .map(move |name| PathBuf::from(folder).join(name))
        })
        .find(|path| path.exists())
}

/// Says that nothing was compared. Not by `println!`, whose words `cargo test` shows of a test that fails only.
fn say_not_compared(why: &str) {
    assert!(
        std::env::var_os(WRITE).is_none(),
        "{WRITE} is set, and the table cannot be written: {why}"
    );
    writeln!(
        std::io::stderr(),
        "\nregisters: NOT COMPARED with tests/golden/radv.md: {why}."
    )
    .ok();
}

#[test]
fn every_kernel_takes_the_registers_that_the_table_says() {
    let Some(radv) = radv() else {
        return say_not_compared("RADV is not there (Debian: mesa-vulkan-drivers)");
    };
    let compiling = Command::new(std::env::current_exe().expect("runs"))
        .args(["--exact", "compile_on_the_null_device"])
        .args(["--ignored", "--nocapture", "--test-threads=1"])
        .env("RADV_FORCE_FAMILY", "navi23")
        .env("RADV_DEBUG", "shaderstats")
        // What comes from the cache is not compiled, and prints nothing.
        .env("MESA_SHADER_CACHE_DISABLE", "true")
        // The loader's old name and its new one.
        .env("VK_ICD_FILENAMES", &radv)
        .env("VK_DRIVER_FILES", &radv)
        .env_remove("VK_ADD_DRIVER_FILES")
        .env_remove("RADV_PERFTEST")
        .output()
        .expect("this test starts once more");
    let printed = String::from_utf8_lossy(&compiling.stderr);
    let mesa = printed.lines().find_map(|line| line.strip_prefix(MESA));
    let text = std::fs::read_to_string(Table::path()).unwrap_or_default();
    let mut table = Table::parse(&text);
    let writes = std::env::var_os(WRITE).is_some();
    let same = writes || mesa.is_none_or(|mesa| mesa == table.mesa);
    if !compiling.status.success() {
        let why = format!("the kernels were not compiled ({})", compiling.status);
        assert!(!same, "{why}:\n{printed}");
        return say_not_compared(&why);
    }
    let ran = String::from_utf8_lossy(&compiling.stdout);
    assert!(ran.contains("1 passed"), "nothing was compiled: {ran}");
    let Some(mesa) = mesa else {
        return say_not_compared("wgpu finds no RADV in this Mesa");
    };
    let found = figures(&printed);
    // What the null device's interface says is what it prints.
    let asked = asked(&printed);
    let differ = |(name, figures): &(&String, &Figures)| asked.get(*name) != Some(*figures);
    let differing: Vec<&String> = found.iter().filter(differ).map(|(name, _)| name).collect();
    assert!(
        differing.is_empty(),
        "what VK_KHR_pipeline_executable_properties gives of {differing:?} is not what {mesa} prints"
    );
    if !same && found.is_empty() {
        return say_not_compared(&format!("{mesa} prints its figures in another form"));
    }
    let mut faults = always_wrong(&found);
    if same {
        faults.extend(above_few(&table, &found));
        if writes && faults.is_empty() {
            table = table.written_anew(mesa, &found);
            std::fs::write(Table::path(), table.text()).expect("the tree can be written");
        }
        faults.extend(not_as_recorded(&table, &found));
    } else {
        say_not_compared(&format!(
            "it was made by {}, and here is {mesa}; that no VGPR is spilled was looked at",
            table.mesa
        ));
    }
    assert!(
        faults.is_empty(),
        "by {mesa}:\n{}\nWhere a change is meant, `{WRITE}=1 cargo test --test registers` writes the table anew, and its notes \
         then ask for the reason. It writes no spills, and no kernel that leaves {FEW_VGPRS} VGPRs.",
        faults.join("\n")
    );
}

/// Compiles every kernel for the process that reads what RADV prints, and prints what its interface says beside it.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "the other test starts it, with RADV's null device"]
fn compile_on_the_null_device() {
    let mut says = std::io::stderr();
    let is_radv = |info: &wgpu::AdapterInfo| info.driver == "radv";
    let Some(adapter) = compiling::adapter(is_radv) else {
        return;
    };
    writeln!(says, "{MESA}{}", adapter.get_info().driver_info).expect("is read");
    let device = statistics::Device::open(&adapter).expect("RADV has statistics");
    for kernel in kernels::ALL {
        writeln!(says, "{KERNEL}{}", kernel.name).expect("is read");
        let statistics = device.statistics(kernel);
        writeln!(says, "{STATISTICS}{}", serde_json::json!(statistics)).expect("is read");
    }
}

/// Prints what the driver of this machine's GPU says of each kernel, for `tests/hardware/run`: a JSON object a line.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "tests/hardware/run starts it, on a machine with a GPU"]
fn what_the_driver_says() {
    let part = std::env::var("NEARFAR_ADAPTER").unwrap_or_default();
    let adapter = compiling::adapter(|info| info.name.contains(&part));
    let adapter = adapter.expect("a Vulkan adapter of that name");
    let device = match statistics::Device::open(&adapter) {
        Ok(device) => device,
        Err(why) => {
            println!("{}", serde_json::json!({ "none": why }));
            return;
        }
    };
    for kernel in kernels::ALL {
        let statistics = device.statistics(kernel);
        let line = serde_json::json!({ "kernel": kernel.name, "statistics": statistics });
        println!("{line}");
    }
}

#[test]
fn what_the_table_does_not_say_is_found() {
    let path = Table::path();
    let text = std::fs::read_to_string(path).expect("the table is there");
    let table = Table::parse(&text);
    assert!(
        table.text() == text,
        "tests/golden/radv.md is not as `{WRITE}=1 cargo test --test registers` writes it: its spaces, or what stands above it"
    );
    let as_recorded: BTreeMap<String, Figures> = { table.rows.iter() }
        .map(|(name, (figures, _))| (name.clone(), *figures))
        .collect();
    let faults = |table: &Table, found: &BTreeMap<String, Figures>| {
        [
            always_wrong(found),
            above_few(table, found),
            not_as_recorded(table, found),
        ]
        .concat()
    };
    assert_eq!(faults(&table, &as_recorded), [""; 0]);

    let with = |kernel: &str, column: usize, value: u32| {
        let mut found = as_recorded.clone();
        found.get_mut(kernel).expect("a kernel")[column] = value;
        found
    };
    let recorded = |kernel: &str, column: usize| as_recorded[kernel][column];
    let (vgprs, lds) = (
        recorded("gemm.forward", VGPRS),
        recorded("knn.keep", LDS_BYTES),
    );
    for (found, expected) in [
        (with("gemm.forward", VGPRS, vgprs + 8), 1),
        (with("gemm.forward", VGPRS, vgprs - 8), 1),
        // Twice: it is not what the table has, and above 128.
        (with("gemm.forward", VGPRS, FEW_VGPRS + 8), 2),
        (with("knn.tile", SPILLED_VGPRS, 1), 2),
        (with("knn.keep", LDS_BYTES, lds - LDS_UNIT), 1),
        // Twice: it is more than the kernel says of itself.
        (with("knn.keep", LDS_BYTES, lds + LDS_UNIT), 2),
    ] {
        let faults = faults(&table, &found);
        assert_eq!(faults.len(), expected, "{faults:?}");
    }
    let instructions = f64::from(recorded("knn.tile", INSTRUCTIONS));
    for (factor, expected) in [(1.04, 0), (0.96, 0), (1.06, 1), (0.94, 1)] {
        let found = with("knn.tile", INSTRUCTIONS, (instructions * factor) as u32);
        assert_eq!(faults(&table, &found).len(), expected, "{factor}");
    }
    let mut found = as_recorded.clone();
    found.remove("knn.tile");
    assert_eq!(faults(&table, &found).len(), 2);
    let mut without = table.clone();
    without.rows.remove("knn.tile");
    assert_eq!(faults(&without, &as_recorded).len(), 1);

    // Written anew, the row that changed asks for its reason, once, and the others stay.
    let found = with("gemm.forward", VGPRS, vgprs + 8);
    let anew = table.written_anew(&table.mesa, &found);
    let (_, note) = &anew.rows["gemm.forward"];
    let asks = format!("Was {vgprs} VGPRs: {NO_REASON}");
    assert!(note.ends_with(&asks), "{note}");
    let faults = faults(&anew, &found);
    assert!(
        matches!(&faults[..], [fault] if fault.starts_with("gemm.forward changed without a reason")),
        "{faults:?}"
    );
    let others = |table: &Table| {
        let mut rows = table.rows.clone();
        rows.remove("gemm.forward");
        rows
    };
    assert_eq!(others(&anew), others(&table));
    assert_eq!(anew.written_anew(&anew.mesa, &found).text(), anew.text());
    // Another Mesa changes figures without being asked why.
    let other = table.written_anew("another", &found);
    assert_eq!(other.rows["gemm.forward"].1, table.rows["gemm.forward"].1);
}
