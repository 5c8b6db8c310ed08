//! Architecture of the code: rooms use those above them in `lib.rs`, only `engine/gpu/` names wgpu, files of a room form no cycle;
//! and counts that may only decrease: rooms, arrows between them, long files and functions, lines. `--nocapture` prints the counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Counts of today: larger ones fail. A change that makes a count smaller lowers its number here.
const CEILINGS: [(&str, usize); 10] = [
    ("rooms in lib.rs", 18),
    ("arrows between rooms", 94),
    ("files in circles, src", 0),
    ("files in circles, web/src", 0),
    ("files over 600 lines", 0),
    ("functions over 100 lines", 0),
    ("functions over 60 lines", 22),
    ("names that lib.rs hands out", 245),
    ("lines of src", 93_900),
    ("lines of README.md", 250),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

/// The Rust files of a folder: path below it and text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let folder = root().join(folder);
    let rust = files(&folder)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let below = |path: &PathBuf| {
        let below = path.strip_prefix(&folder).expect("below");
        below.display().to_string()
    };
    rust.map(|path| (below(&path), fs::read_to_string(&path).expect("text")))
        .collect()
}

/// The files of the library.
fn library() -> Vec<(String, String)> {
    let others = ["lib.rs", "main.rs", "cli/", "bin/", "cpu/"];
    let mut library = sources("src");
    library.retain(|(path, _)| !others.iter().any(|other| path.starts_with(other)));
    library
}

fn lib_rs() -> String {
    fs::read_to_string(root().join("src/lib.rs")).expect("text")
}

/// The rooms in the order of `lib.rs`.
fn rooms() -> Vec<String> {
    let module = |line: &str| {
        let line = line.trim_start_matches("pub ");
        // One is a package of its own.
        let package = || line.strip_prefix("use nearfar_cpu as ");
        let module = line.strip_prefix("mod ").or_else(package)?;
        Some(module.trim_end_matches(';').to_owned())
    };
    lib_rs().lines().filter_map(module).collect()
}

/// The text without comments.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The text before its tests.
fn without_tests(text: &str) -> &str {
    let end = text.find("\n#[cfg(test)]\nmod tests {");
    &text[..end.map_or(text.len(), |end| end + 1)]
}

/// Paths that `a::{b, c::{d}}` stands for.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.trim().to_owned()];
    };
    let inner = rest.trim_end().trim_end_matches('}');
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().expect("begins with one").push(c),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| expanded(part))
        .map(|path| format!("{before}{path}"))
        .collect()
}

/// Paths below `start`, such as `crate::`, that code names, those in grouped imports included.
fn named(code: &str, start: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for rest in code.split(start).skip(1) {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        match rest[end..].starts_with('{') {
            true => {
                let end = rest.find(';').unwrap_or(rest.len());
                paths.extend(expanded(&rest[..end]));
            }
            false => paths.push(rest[..end].trim_end_matches(':').to_owned()),
        }
    }
    paths
}

/// The first part of each path.
fn firsts(paths: Vec<String>) -> BTreeSet<String> {
    let first = |path: String| path.split("::").next().unwrap_or_default().to_owned();
    paths.into_iter().map(first).collect()
}

/// Rooms that a file names as `crate::room`; names that `lib.rs` exports at the root are no rooms.
fn uses(text: &str) -> BTreeSet<String> {
    let mut uses = firsts(named(&code(text), "crate::"));
    uses.retain(|name| !name.is_empty());
    uses
}

/// Arrows of one file that point the wrong way.
fn backward(rooms: &[String], path: &str, text: &str) -> Vec<String> {
    let own = path.split(['/', '.']).next().expect("a name");
    let place = |name: &str| rooms.iter().position(|room| room == name);
    let Some(here) = place(own) else {
        return vec![format!("{own} is not in lib.rs")];
    };
    let back = uses(text)
        .into_iter()
        .filter(|name| place(name).is_none_or(|there| there > here));
    back.map(|name| format!("{path} uses {name}, which is no room above it"))
        .collect()
}

#[test]
fn every_room_uses_only_those_above_it() {
    let rooms = rooms();
    let sources = library();
    assert!(sources.len() > 40, "the whole library was read");
    let back: Vec<String> = sources
        .iter()
        .flat_map(|(path, text)| backward(&rooms, path, text))
        .collect();
    assert!(back.is_empty(), "{back:#?}");
    // The check itself works: a room below, one in a group, and one at the root.
    for (path, text) in [
        ("base/ledger.rs", "use crate::engine::Engine;"),
        ("engine/gpu/vec.rs", "use crate::kernels::gemm;"),
        ("base/plan.rs", "use crate::{base::ledger, engine::Engine};"),
        ("base/plan.rs", "use crate::Distance;"),
    ] {
        assert_eq!(backward(&rooms, path, text).len(), 1, "{text}");
    }
}

#[test]
fn only_the_gpu_module_names_wgpu_and_the_ledger_knows_no_other() {
    for (path, text) in library() {
        let code = code(&text);
        assert!(
            path.starts_with("engine/gpu/") || !code.contains("wgpu::"),
            "{path} names wgpu"
        );
        assert!(
            path != "base/ledger.rs" || !code.contains("crate::"),
            "the ledger imports only std"
        );
    }
}

#[test]
fn the_core_has_no_page_and_the_page_no_wgpu() {
    for (path, text) in library() {
        assert!(!text.contains("leptos"), "{path}");
    }
    let web = root().join("web");
    let manifest = fs::read_to_string(web.join("Cargo.toml")).expect("text");
    assert!(!manifest.contains("wgpu"));
    for (path, text) in sources("web/src") {
        assert!(!text.contains("wgpu::"), "{path}");
    }
}

/// Types that are read back and leave fields out: they are JSON alone. The page and its worker talk by position: a field that is left
/// out there makes nonsense of all that follow.
const LEAVE_FIELDS_OUT: [&str; 2] = ["RunReport", "Saved"];

#[test]
fn what_is_read_back_leaves_no_field_out() {
    let mut found = Vec::new();
    for (path, text) in library().into_iter().chain(sources("web/src")) {
        for part in text.split("#[derive(").skip(1) {
            let (derived, rest) = part.split_once(")]").unwrap_or_default();
            let declared = rest.split_once("struct ").map_or("", |(_, name)| name);
            let name = declared.split(|c: char| !c.is_alphanumeric()).next();
            let name = name.unwrap_or_default();
            let known = LEAVE_FIELDS_OUT.contains(&name);
            if derived.contains("Deserialize") && part.contains("skip_serializing_if") && !known {
                found.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Modules of a room, or of the page, with the neighbours that each uses; a name that `mod.rs` re-exports counts for the module
/// that defines it.
fn neighbours(
    sources: &[(String, String)],
    room: &str,
    at_root: &str,
) -> BTreeMap<String, BTreeSet<String>> {
    let module = |path: &str| path.split(['/', '.']).next().unwrap_or_default().to_owned();
    let inner: Vec<(&str, &str)> = sources
        .iter()
        .filter_map(|(path, text)| Some((path.strip_prefix(room)?, text.as_str())))
        .collect();
    let modules: BTreeSet<String> = inner.iter().map(|(path, _)| module(path)).collect();
    let mut handed_on = BTreeMap::new();
    for (_, text) in inner.iter().filter(|(path, _)| *path == "mod.rs") {
        for path in named(&code(text), "use ") {
            let path = path.trim_start_matches("self::");
            if let Some((from, name)) = path.split_once("::")
                && modules.contains(from)
            {
                let name = name.rsplit("::").next().unwrap_or_default();
                handed_on.insert(name.to_owned(), from.to_owned());
            }
        }
    }
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in inner {
        let own = module(path);
        if own == "mod" || own == "lib" || own == "main" {
            continue;
        }
        let code = code(without_tests(text));
        let mut paths = named(&code, at_root);
        // Below the top of a room `super` is another module.
        if !path.contains('/') && !room.is_empty() {
            paths.extend(named(&code, "super::"));
        }
        let made = |name: String| handed_on.get(&name).cloned().unwrap_or(name);
        let mut used: BTreeSet<String> = firsts(paths).into_iter().map(made).collect();
        used.retain(|name| *name != own && name != "mod" && modules.contains(name));
        graph.entry(own).or_default().extend(used);
    }
    graph
}

/// Modules that lie on a cycle.
fn in_circles(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let returns = |start: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(module) = next.pop() {
            for used in graph.get(module).into_iter().flatten() {
                if used == start {
                    return true;
                }
                if seen.insert(used) {
                    next.push(used);
                }
            }
        }
        false
    };
    graph
        .keys()
        .filter(|start| returns(start))
        .cloned()
        .collect()
}

/// Number of lines of each function: rustfmt indents its end as its start.
fn functions(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let words: Vec<&str> = line
            .split_whitespace()
            .take_while(|word| *word != "fn")
            .collect();
        let known =
            |word: &&str| word.starts_with("pub") || ["const", "async", "unsafe"].contains(word);
        if !line.contains("fn ") || !words.iter().all(known) {
            continue;
        }
        let end = format!("{indent}}}");
        let length = lines[first..].iter().position(|line| *line == end);
        let name = line.trim_start().to_owned();
        found.extend(length.map(|length| (length + 1, name)));
    }
    found
}

#[test]
fn what_may_only_become_less_is_no_more_than_it_was() {
    let library = library();
    let arrows: BTreeSet<(String, String)> = library
        .iter()
        .flat_map(|(path, text)| {
            let own = path.split(['/', '.']).next().expect("a name").to_owned();
            let mut used = uses(without_tests(text));
            used.remove(&own);
            used.into_iter().map(move |name| (own.clone(), name))
        })
        .collect();
    let circles: Vec<String> = rooms()
        .iter()
        .flat_map(|room| {
            let graph = neighbours(&library, &format!("{room}/"), &format!("crate::{room}::"));
            in_circles(&graph)
                .into_iter()
                .map(|module| format!("{room}/{module}"))
                .collect::<Vec<_>>()
        })
        .collect();
    let page = sources("web/src");
    let page_circles = in_circles(&neighbours(&page, "", "crate::"));
    let all: Vec<(String, String)> = sources("src").into_iter().chain(page).collect();
    let long: Vec<&String> = all
        .iter()
        .filter(|(_, text)| without_tests(text).lines().count() > 600)
        .map(|(path, _)| path)
        .collect();
    let lengths: Vec<(usize, String)> = all
        .iter()
        .flat_map(|(_, text)| functions(without_tests(text)))
        .collect();
    let over = |most: usize| lengths.iter().filter(|(length, _)| *length > most).count();
    let handed_out = named(&code(&lib_rs()), "pub use ");
    let lines = |text: &str| text.lines().count();
    let src: usize = sources("src").iter().map(|(_, text)| lines(text)).sum();
    let readme = fs::read_to_string(root().join("README.md")).expect("text");
    let counts = [
        rooms().len(),
        arrows.len(),
        circles.len(),
        page_circles.len(),
        long.len(),
        over(100),
        over(60),
        handed_out.len(),
        src,
        lines(&readme),
    ];
    println!("in circles: {circles:?} {page_circles:?}\nover 600 lines: {long:?}");
    let mut more = Vec::new();
    for ((what, most), count) in CEILINGS.iter().zip(counts) {
        println!("{what}: {count}, at most {most}");
        if count > *most {
            more.push(format!("{what}: {count}, at most {most} before"));
        }
    }
    assert!(more.is_empty(), "{more:#?}");
}

#[test]
fn the_counts_see_what_they_count() {
    assert_eq!(
        named("use a::{b, c::{d, e as f}};", "use "),
        ["a::b", "a::c::d", "a::c::e"]
    );
    let text = "pub async fn long(\n    a: u32,\n) {\n    a\n}\n\nfn short() {\n}\n";
    let found: Vec<usize> = functions(text)
        .into_iter()
        .map(|(length, _)| length)
        .collect();
    assert_eq!(found, [5, 2]);
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let circle = [
        file("room/mod.rs", "mod a;\nmod b;\npub use b::{B, C};\n"),
        file("room/a.rs", "use super::B;\n"),
        file("room/b.rs", "use crate::room::a::A;\n"),
        file("room/c.rs", "use super::a;\n"),
    ];
    assert_eq!(
        in_circles(&neighbours(&circle, "room/", "crate::room::")),
        ["a", "b"]
    );
}
