// Splits a core in two, so that the page comes up sooner: what runs as the page is opened and takes its first step, and the rest, which
// is fetched once the page is up. A call of a function of the rest fetches it, if it is not there yet, and waits.
//
// Which functions run is found by trying: the page is opened in a browser, with a core whose functions say when they are first
// called, and takes its first step on each engine. So there is no list to keep; and what this trial misses is found in the other file.
import { createHash } from "node:crypto";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

import { FEATURES, functionNames, scriptOf, strip, tool } from "./wasm.mjs";

/** The arithmetic of the CPU engine stays together: a call from one file into the other costs as much as many sums. */
const TOGETHER = /nearfar_cpu|libm/;

/** The parts of a wasm as text: an import, a function and so on each. */
function parts(file) {
  const found = [];
  for (const line of tool("wasm-dis", [...FEATURES, file], "pipe").split("\n").slice(1)) {
    if (line === ")") break;
    const kind = /^ \((\w+)/.exec(line)?.[1];
    if (kind) found.push({ kind, text: line });
    else found.at(-1).text += `\n${line}`;
  }
  for (const part of found) if (part.kind === "func") [part.head, part.id] = /^ \(func \$(\d+).*/.exec(part.text);
  return found;
}

/**
 * A function that takes the hashes out of the names by which a core and its script know each other's functions: wasm-bindgen tells crates
 * apart by them, and 500 of them took 8 kB of the first load. Of equal names the later ones get a number.
 */
function withoutHashes() {
  const plain = new Map(), seen = new Map();
  const named = (hashed, name) => {
    if (!plain.has(hashed)) {
      const before = seen.get(name) ?? 0;
      seen.set(name, before + 1);
      plain.set(hashed, before ? `${name}$${before}` : name);
    }
    return plain.get(hashed);
  };
  return (text) => text.replaceAll(/\b((?:__wb|wasm_bindgen)\w*?)_h?[0-9a-f]{16}\b/g, named);
}

/** Writes a wasm of such parts, without what is not used. */
function write(file, parts) {
  const kinds = ["type", "import", "global", "memory", "table", "data", "elem", "export", "start", "func"];
  const sorted = kinds.flatMap((kind) => parts.filter((part) => part.kind === kind));
  const text = `${file}.wat`;
  writeFileSync(text, `(module\n${sorted.map(({ text }) => text).join("\n")}\n)\n`);
  tool("wasm-as", [...FEATURES, "--validate=none", text, "-o", file]);
  rmSync(text);
  strip(file, "--remove-unused-module-elements");
}

/** The name that both files have for a function. */
const short = (id) => Number(id).toString(36);
const exported = (id) => ({ kind: "export", text: ` (export "${short(id)}" (func $${id}))` });
/** A function, as a file has it that takes it from another. */
function importedFrom(other, { id, head }) {
  const types = (head.match(/\((param|result) [^)]*\)/g) ?? []).join(" ").replaceAll(/\$\d+ /g, "");
  return { kind: "import", text: ` (import "${other}" "${short(id)}" (func $${id} ${types}))` };
}
/** The functions that a file takes from another. */
function takenFrom(other, file) {
  const taken = new RegExp(`^ \\(import "${other}" "(\\w+)" \\(func`);
  return parts(file).flatMap(({ text }) => taken.exec(text)?.[1] ?? []).map((name) => String(parseInt(name, 36)));
}

/** Memory, tables and globals: the first file has them, and hands them out under their kind and number. */
const isShared = ({ kind }) => ["global", "memory", "table"].includes(kind);
function handedOut({ kind, text }) {
  const name = text.split(" ")[2];
  return { kind: "export", text: ` (export "${kind}${name}" (${kind} ${name}))` };
}
function handedOver({ kind, text }) {
  const [, name, type] = /^ \(\w+ (\S+) (?:\(import \S+ \S+\) )?(\(mut \w+\)|[^(]*\w)/.exec(text);
  return { kind: "import", text: ` (import "first" "${kind}${name}" (${kind} ${name} ${type}))` };
}

/** Puts the functions that `isLater` into a second file. */
function split(core, all, isLater) {
  const rest = core.replace("_bg.wasm", "_rest.wasm");
  const imports = all.filter(({ kind }) => kind === "type" || kind === "import");
  const later = (ids) => [
    ...imports,
    ...all.filter(isShared).map(handedOver),
    ...all.filter(({ kind }) => kind === "func").map((part) => (isLater(part) ? part : importedFrom("first", part))),
    ...ids.map(exported),
  ];
  write(rest, later(all.filter(isLater).map(({ id }) => id)));
  const first = all.map((part) => (isLater(part) ? importedFrom("later", part) : part));
  write(core, [...first, ...takenFrom("first", rest).map(exported), ...all.filter(isShared).map(handedOut)]);
  write(rest, later(takenFrom("later", core)));
  return rest;
}

/** A core whose functions say their number when they are first called. */
function telling(file, all) {
  const say = { kind: "import", text: ' (import "trial" "called" (func $called (param i32)))' };
  const told = ({ kind, id, text }) => ({ kind, text: text.replace(/^.*\n(  \(local .*\n)*/, (head) => `${head}  (call $called (i32.const ${id}))\n`) });
  write(file, [say, ...all.map((part) => (part.kind === "func" ? told(part) : part))]);
}

/** What the script of such a core has beside. */
const TRIAL = `
const calls = new BroadcastChannel("calls"), known = new Set();
const trial = { called: (id) => known.has(id) || (known.add(id), calls.postMessage(id)) };
const more = (imports) => ({ ...imports, trial });
`;

/** The script of a core, which hands its imports to a function `more` of this text. */
function withMore(script, text) {
  const changed = script.replaceAll(/\bimports = (__wbg_get_imports\(.*\));/g, "imports = more($1);");
  if (changed === script) throw new Error("the script of a core has its imports in another way");
  return changed + text;
}

/** The functions of a core that are called until its first step is over. */
async function called(core, all) {
  const { launch, Page, serve } = await import("../tests/browser/support.mjs");
  const trial = `${core}.trial`;
  telling(trial, all);
  const script = scriptOf(core);
  const instead = { [path.basename(core)]: readFileSync(trial), [path.basename(script)]: withMore(readFileSync(script, "utf8"), TRIAL) };
  rmSync(trial);
  const isShared = path.basename(core).startsWith("nearfar-threads-");
  // Where no page of another origin can reach it, the page takes the core with threads.
  const alone = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
  const host = await serve({ folder: path.dirname(core), instead: (name) => instead[name], headers: () => (isShared ? alone : {}) });
  const found = new Set();
  try {
    for (const webgpu of isShared ? [false] : [false, true]) {
      const browser = await launch({ webgpu });
      const listen = () => {
        self.called = [];
        new BroadcastChannel("calls").onmessage = ({ data }) => self.called.push(data);
      };
      const page = await Page.open(browser, `${host.url}${webgpu ? "?engine=gpu" : ""}`, { init: listen });
      await page.click("step");
      await page.status(/^Paused/);
      for (const id of await page.page.evaluate(() => self.called)) found.add(String(id));
      await browser.close();
    }
  } finally {
    host.close();
  }
  return found;
}

/** What the script of a split core has beside. */
const LOADER = (rest) => `
const others = new URL("./${rest}", import.meta.url);
let compiled, given, later;
/** The functions of the rest of the core, which is waited for if it is not there yet. */
function rest() {
  if (later) return later;
  if (!compiled) {
    const asked = new XMLHttpRequest();
    asked.open("GET", others, false);
    asked.overrideMimeType("text/plain; charset=x-user-defined");
    asked.send();
    if (!asked.responseText.startsWith("\\0asm")) throw new WebAssembly.RuntimeError("a part of it did not arrive");
    compiled = new WebAssembly.Module(Uint8Array.from(asked.responseText, (byte) => byte.charCodeAt(0)));
  }
  later = new WebAssembly.Instance(compiled, { ...given, first: wasm }).exports;
  return later;
}
const called = new Proxy({}, { get: (_, name) => (...values) => rest()[name](...values) });
const more = (imports) => (given = { ...imports, later: called });
/** Fetches the rest of the core before something calls it. */
export async function ahead() {
  compiled ??= await WebAssembly.compileStreaming(fetch(others)).catch(() => undefined);
}
/** Fetches it now if the browser has kept it. Without a network a call could not: a request that waits gets nothing of what is kept. */
export async function kept() {
  if (await self.caches?.match(others, { ignoreVary: true }).catch(() => undefined)) await ahead();
}
`;

/** Splits a core of the page. Its files are named by their content, which follows the trial, too. */
export async function splitOff(core) {
  const names = functionNames(readFileSync(core));
  strip(core);
  const script = scriptOf(core);
  const unhashed = withoutHashes();
  writeFileSync(script, unhashed(readFileSync(script, "utf8")));
  const all = parts(core).map((part) => (/import|export/.test(part.kind) ? { ...part, text: unhashed(part.text) } : part));
  const imported = all.filter(({ kind, text }) => kind === "import" && text.includes(" (func ")).length;
  const needed = await called(core, all);
  const isLater = ({ kind, head, id }) =>
    kind === "func" && !needed.has(id) && !TOGETHER.test(names.get(imported + Number(id))) && !head.includes("v128");
  const rest = split(core, all, isLater);
  const hash = createHash("sha256").update(readFileSync(core)).update(readFileSync(rest)).digest("hex");
  const own = path.basename(core).replace("_bg.wasm", "");
  const named = (text) => text.replaceAll(own, own.replace(/[^-]+$/, `1${hash.slice(0, 15)}`));
  const html = path.join(path.dirname(core), "index.html");
  writeFileSync(script, withMore(readFileSync(script, "utf8"), LOADER(named(path.basename(rest)))));
  writeFileSync(html, named(readFileSync(html, "utf8").replace(`${own}_bg.wasm`, `${own}_bg.wasm ./${own}_rest.wasm`)));
  for (const file of [core, rest, script]) renameSync(file, path.join(path.dirname(core), named(path.basename(file))));
}
