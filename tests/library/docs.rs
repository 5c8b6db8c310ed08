//! The documentation: its links are valid, and `docs/reference.md` lists everything. `NEARFAR_DOCS=write` rewrites it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nearfar::{Loss, Miner, Optimizer, Piece, Recipe, Sampler, Schedule, TrainConfig};

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference.md");

/// Text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Default arguments of a loss, a miner or the like, as `--set` takes them.
fn arguments(part: &str, name: &str) -> String {
    let config = TrainConfig::default().with_set(&format!("{part}.name={name}"));
    let all = config.expect("is listed").to_value()[part].take();
    let all = all.as_object().expect("has a name").clone();
    let all = all.iter().filter(|(key, _)| *key != "name");
    let shown: Vec<String> = all
        .map(|(key, value)| format!("`{part}.{key}={}`", value.to_string().trim_matches('"')))
        .collect();
    shown.join(", ")
}

fn table(page: &mut String, part: &str, names: &[(&str, &str)]) {
    writeln!(
        page,
        "| name | it is | arguments by default |\n|---|---|---|"
    )
    .expect("is written");
    for (name, title) in names {
        let arguments = cell(&arguments(part, name));
        writeln!(page, "| `{name}` | {} | {arguments} |", cell(title)).expect("is written");
    }
}

/// The page `docs/reference.md`, made from the code.
fn reference() -> String {
    let mut page = "# What there is\n\nThis page answers which losses, miners, samplers, optimizers, schedules, recipes and files there are. It is printed from the \
        code, and a test holds it to that (`tests/library/docs.rs`). [Back to the README](../README.md).\n\n## Losses\n\n\
        `--set loss.name=NAME`; arguments have the names that PyTorch Metric Learning gives them.\n\n"
        .to_owned();
    table(&mut page, "loss", &Loss::ALL);
    page += "\n## Miners\n\n`--set miner.name=NAME`.\n\n";
    table(&mut page, "miner", &Miner::ALL);
    page += "\n## Samplers\n\n`--set sampler=NAME`.\n\n";
    table(&mut page, "sampler", &Sampler::ALL);
    page += "\n## Optimizers\n\n`--set optimizer=NAME`; arguments have the names that torch gives them.\n\n";
    table(&mut page, "optimizer", &Optimizer::ALL);
    page += "\n## Schedules\n\n`--set schedule=NAME`; arguments are those of `torch.optim.lr_scheduler`.\n\n";
    table(&mut page, "schedule", &Schedule::ALL);
    page += "\n## Recipes\n\n`--recipe NAME`; what each sets: `nearfar recipes`.\n\n| name | for | why | source |\n|---|---|---|---|\n";
    for recipe in Recipe::ALL {
        let [suits, why, source] = [recipe.suits, recipe.why, recipe.source].map(cell);
        writeln!(page, "| `{}` | {suits} | {why} | {source} |", recipe.name).expect("is written");
    }
    page += "\n## Files to take home\n\n`nearfar export FOLDER --format NAME`.\n\n| name | it is |\n|---|---|\n";
    for piece in Piece::ALL {
        writeln!(page, "| `{}` | {} |", piece.name(), cell(piece.words())).expect("is written");
    }
    page
}

#[test]
fn the_reference_lists_what_there_is() {
    let page = reference();
    if std::env::var_os("NEARFAR_DOCS").is_some() {
        fs::write(REFERENCE, &page).expect("can be written");
    }
    let written = fs::read_to_string(REFERENCE).unwrap_or_default();
    assert!(
        page == written,
        "docs/reference.md is not what the code has: NEARFAR_DOCS=write cargo test --test library docs::"
    );
}

#[test]
fn the_page_of_commands_names_every_loss_sampler_optimizer_and_schedule() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");
    let page = fs::read_to_string(page).expect("is there");
    let learning = Optimizer::ALL.iter().chain(&Schedule::ALL);
    for (name, _) in Loss::ALL.iter().chain(&Sampler::ALL).chain(learning) {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/commands.md: {name}"
        );
    }
}

#[test]
fn the_guide_has_the_lines_of_the_page_for_pictures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path| fs::read_to_string(root.join(path)).expect("is text");
    let lines = format!("```python\n{}```\n", read("web/pictures.py"));
    assert!(read("docs/guide.md").contains(&lines));
}

#[test]
fn the_readme_counts_what_there_is() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let page = fs::read_to_string(page)
        .expect("is there")
        .replace('\n', " ");
    let [losses, miners, samplers] = [Loss::ALL.len(), Miner::ALL.len() - 1, Sampler::ALL.len()];
    let counts = format!("{losses} losses, {miners} miners and {samplers} samplers");
    assert!(page.contains(&counts), "README.md: {counts}");
}

/// All pages of the documentation.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = Vec::new();
    for folder in ["", "docs", "fuzz", "tests/peers"] {
        let entries = fs::read_dir(root.join(folder)).expect("is there");
        let files = entries.map(|entry| entry.expect("readable").path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|e| e == "md")));
    }
    pages
}

/// Anchor of a heading in a link, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .collect::<String>();
    kept.replace(' ', "-")
}

/// The anchors of a page: its headings outside of code.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if !in_code && line.starts_with('#') {
            anchors.insert(anchor(line.trim_start_matches('#')));
        }
    }
    anchors
}

/// Links of a page without a target.
fn broken(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().expect("in a folder");
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let leads_nowhere = |target: &&str| {
        if target.starts_with("http") || target.starts_with("mailto:") {
            return false;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() {
            page.to_owned()
        } else {
            folder.join(file)
        };
        let there = path.is_dir() && anchor.is_empty();
        let has_anchor = |text: String| anchor.is_empty() || anchors(&text).contains(anchor);
        // A picture is no text, and has no anchor.
        let is_file = path.is_file()
            && (anchor.is_empty() || fs::read_to_string(&path).is_ok_and(has_anchor));
        !there && !is_file
    };
    targets.filter(leads_nowhere).map(str::to_owned).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.len() > 10, "{pages:?}");
    for page in &pages {
        let text = fs::read_to_string(page).expect("is text");
        let broken = broken(page, &text);
        assert!(broken.is_empty(), "{}: {broken:?}", page.display());
    }
    // The check itself works: it finds a missing file and a missing anchor.
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let planted =
        "[a](docs/none.md) [b](docs/guide.md#none) [c](#none) [d](docs/guide.md#the-verdict)";
    assert_eq!(broken(&readme, planted).len(), 3);
}
