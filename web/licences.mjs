// Writes LICENSES.txt: what the page is made of, under which licences, and the notices that go with copies of it. It takes the crates
// that cargo compiles into the wasms with the licence files that each brings, and the two data files with the words beside them.
//
// Trunk runs it over every build; `node web/licences.mjs FILE` writes it anywhere.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../", import.meta.url));
const TARGET = "wasm32-unknown-unknown";
const WASMS = ["nearfar-web", "nearfar-files", "nearfar-bench"];
const NOTICE = /^((un)?licen[cs]e|copying|copyright|notice)(?!.*\.rs$)/i;

const read = (...parts) => readFileSync(path.join(...parts), "utf8").replaceAll("\r\n", "\n").trim();
const cargo = (...words) => execFileSync("cargo", [...words, "--locked"], { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 });

function fail(why) {
  throw new Error(`LICENSES.txt: ${why}`);
}

/** The MIT licence without its line of copyright, and with another one. */
const PERMISSION = read(root, "LICENSE-MIT").replace(/^Copyright.*\n\s*/, "");
const mit = (holders) => `${holders}\n\n${PERMISSION}`;

/** The crates that are compiled into the wasms, by name: neither our own nor those that only run while others are compiled. */
function compiled() {
  // With those of the core with threads, which is not built everywhere.
  const features = ["--features", "nearfar-web/threads"];
  const { packages } = JSON.parse(cargo("metadata", "--format-version", "1", "--filter-platform", TARGET, ...features));
  const described = new Map(packages.map((crate) => [`${crate.name} v${crate.version}`, crate]));
  // Of what metadata lists, more is only tested with or left out by a feature.
  const chosen = WASMS.flatMap((name) => ["--package", name]);
  const tree = cargo("tree", ...chosen, ...features, "--target", TARGET, "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}");
  const names = new Set(tree.split("\n").filter((line) => line !== "").map((line) => line.split(" ").slice(0, 2).join(" ")));
  const crates = [...names].map((name) => described.get(name) ?? fail(`cargo metadata does not list ${name}`));
  const titled = crates.filter(({ source }) => source).map((crate) => ({ ...crate, title: `${crate.name} ${crate.version}` }));
  return titled.sort((a, b) => (a.title < b.title ? -1 : 1));
}

/** The texts that a crate brings. */
function texts({ name, version, license, license_file, authors, manifest_path }) {
  const folder = path.dirname(manifest_path);
  const files = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile() && NOTICE.test(entry.name)).map((entry) => entry.name);
  const all = new Set([...files.sort(), ...(license_file ? [license_file] : [])]);
  if (all.size > 0) return [...all].map((file) => read(folder, file));
  if (!/\bMIT\b/.test(license ?? "")) fail(`${name} ${version} brings no text of its licence, ${license}: web/licences.mjs needs one for it`);
  // Its description names the licence and the authors all the same.
  const holders = authors.map((author) => author.replace(/ *<.*>/, "")).join(", ") || `the authors of ${name}`;
  return [mit(`Copyright (c) ${holders}`)];
}

/** The words beside a data file, without their heading. */
const about = (name) => read(root, "src/data/samples", name).replace(/^#.*\n+/, "");

const crates = compiled();
// Alike but for line breaks is alike: each text stands once, below the crates that bring it.
const notices = new Map();
for (const crate of crates) {
  for (const text of texts(crate)) {
    const key = text.replace(/\s+/g, " ");
    const notice = notices.get(key) ?? notices.set(key, { text, of: new Set() }).get(key);
    notice.of.add(crate.title);
  }
}

const cells = about("cells.md");
const RULE = "-".repeat(100);
const parts = [
  "Nearfar: the licences of what this page is made of",
  "Nearfar itself is under the MIT or the Apache-2.0 licence, as you like. It comes with data, with Rust's standard library and with the\nlibraries that are listed below; after the list stand their licences and notices.",
  mit(/^Copyright.*/.exec(read(root, "LICENSE-MIT"))[0]),
  `${RULE}\nDigits (digits.npy)\n\n${about("digits.md")}`,
  `${RULE}\nCells (cells.npz)\n\n${cells}\n\n${mit(/Copyright \(c\)[^.]*/.exec(cells)[0])}`,
  `${RULE}\nRust's standard library, MIT OR Apache-2.0; its tables of Unicode, Unicode-3.0

In it are cfg-if, dlmalloc and rustc-demangle (Alex Crichton), hashbrown (Amanieu d'Antras), foldhash (Orson Peters, Zlib), the channels
of crossbeam (The Crossbeam Project Developers), and compiler-builtins (MIT AND Apache-2.0 WITH LLVM-exception) with libm. The texts of
these licences, and libm's own notice, stand below.

${mit("Copyright (c) The Rust Project Developers and the authors above")}`,
  `${RULE}\nLibraries\n\n${crates.map(({ title, license }) => `${title}: ${(license ?? "its own licence, below").replaceAll("/", " OR ")}`).join("\n")}`,
  ...[...notices.values()].map(({ text, of }) => `${RULE}\n${[...of].join(", ")}\n\n${text}`),
];
const [file = path.join(process.env.TRUNK_STAGING_DIR ?? "", "LICENSES.txt")] = process.argv.slice(2);
// The first character says that it is UTF-8, where a host does not.
writeFileSync(file, `\uFEFF${parts.join("\n\n")}\n`);
