// Makes what is published smaller once it is compressed. It orders the functions of a wasm so that alike ones stand side by side:
// gzip sees no further back than 32 kB, and the copies that Rust makes of one function for several types are spread over
// megabytes. wasm-opt moves them, by names that are made up here. And it makes names short, has esbuild make scripts and the style
// sheet small, and takes comments and indents out of the HTML.
//
// Trunk runs it over what it built, where it first builds the core with threads if it is asked for (web/threads.mjs), and then does so
// with what is published; `node web/order.mjs FILE..` over files.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";

import { threads } from "./threads.mjs";

/** What alikeness is counted by: runs of so many bytes, every other one of them. */
const RUN = 5;
/** A run that more functions have says nothing. */
const COMMON = 4000;
/**
 * How far back the next function is compared: functions, and bytes, of which gzip sees 32,768; and what a function counts for
 * beside the one after it.
 */
const BACK = { functions: 12, bytes: 30_000, fades: 0.9 };

/** What Rust compiles for the web with. */
const FEATURES = ["simd", "bulk-memory", "bulk-memory-opt", "nontrapping-float-to-int", "sign-ext", "mutable-globals", "reference-types", "multivalue", "threads"].map((name) => `--enable-${name}`);

/**
 * What makes it smaller when compressed, too; -Oz makes it larger by half a percent. The first kB of memory, which the last two take
 * as never used, is the end of the stack: Rust puts that first.
 */
const PASSES = ["--vacuum", "--merge-blocks", "--remove-unused-brs", "--remove-unused-names", "--rse", "--vacuum", "--dealign", "--duplicate-function-elimination", "--dae-optimizing", "--optimize-instructions", "--merge-blocks", "--vacuum", "--reorder-locals", "--low-memory-unused", "--optimize-added-constants"];

/** An unsigned number of a wasm, and where it ends. */
function leb(bytes, at) {
  for (let value = 0, scale = 1; ; scale *= 128) {
    const byte = bytes[at++];
    value += (byte & 127) * scale;
    if (byte < 128) return [value, at];
  }
}

function encoded(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return Buffer.from([...bytes, value]);
}

/** The sections of a wasm: where each stands, and where its content begins and ends. */
function sections(wasm) {
  const found = [];
  for (let at = 8; at < wasm.length; at = found.at(-1).end) {
    const [length, begin] = leb(wasm, at + 1);
    found.push({ id: wasm[at], at, begin, end: begin + length });
  }
  return found;
}

/** Past a length and as many bytes. */
function skip(wasm, at) {
  const [length, begin] = leb(wasm, at);
  return begin + length;
}

/** Past the limits of a table or a memory. */
function limits(wasm, at) {
  const both = wasm[at] & 1;
  at = leb(wasm, at + 1)[1];
  return both ? leb(wasm, at)[1] : at;
}

/** What a wasm imports: each name, where it stands with its length before it, and whether it is that of a function. */
function imports(wasm) {
  const section = sections(wasm).find(({ id }) => id === 2);
  const found = [];
  let [count, next] = leb(wasm, section.begin);
  for (; count > 0; count -= 1) {
    const at = skip(wasm, next);
    const [length, begin] = leb(wasm, at);
    const end = begin + length;
    const kind = wasm[end];
    found.push({ name: wasm.toString("utf8", begin, end), at, end, isFunction: kind === 0 });
    next = end + 1;
    // A function and a tag end with a type, a table and a memory with limits, a global with two bytes.
    if (kind === 0) next = leb(wasm, next)[1];
    else if (kind === 1) next = limits(wasm, next + 1);
    else if (kind === 2) next = limits(wasm, next);
    else if (kind === 3) next += 2;
    else next = leb(wasm, next + 1)[1];
  }
  return found;
}

/** A wasm without the exports that `isLeft` has out. */
function without(wasm, isLeft) {
  const { at, begin, end } = sections(wasm).find(({ id }) => id === 7);
  const kept = [];
  let [count, next] = leb(wasm, begin);
  for (; count > 0; count -= 1) {
    const [length, name] = leb(wasm, next);
    const [, past] = leb(wasm, name + length + 1);
    if (!isLeft(wasm.toString("utf8", name, name + length))) kept.push(wasm.subarray(next, past));
    next = past;
  }
  const content = Buffer.concat([encoded(kept.length), ...kept]);
  return Buffer.concat([wasm.subarray(0, at + 1), encoded(content.length), content, wasm.subarray(end)]);
}

/** The library that a file is of. */
const LIBRARY = /^\/.*\/(registry\/src\/[^/]+|library)\/[^/]+/;

/**
 * A wasm whose panics in libraries name the library alone: files, lines and columns of a thousand such places are 5 kB. Ours keep
 * theirs. Each place is four numbers: where the name of its file stands, how long that is, line and column.
 */
function unplaced(wasm) {
  const { begin } = sections(wasm).find(({ id }) => id === 11);
  const text = Buffer.from(wasm);
  let [count, next] = leb(wasm, begin);
  for (; count > 0; count -= 1) {
    // The first of several threads copies its segments to their places itself: there the names stay.
    if (wasm[next] === 1) return wasm;
    // A segment of the first memory, at a place that is written down: 0, i32.const, the place, end.
    if (wasm[next] !== 0 || wasm[next + 1] !== 0x41) throw new Error("a segment of another kind");
    const [base, past] = leb(wasm, next + 2);
    const [length, first] = leb(wasm, past + 1);
    const libraries = new Map();
    for (let at = first + ((4 - (base % 4)) % 4); at + 16 <= first + length; at += 4) {
      const [name, size] = [wasm.readUInt32LE(at) - base, wasm.readUInt32LE(at + 4)];
      if (name < 0 || size > 250 || name + size > length || wasm[first + name] !== 0x2f) continue;
      const file = wasm.toString("latin1", first + name, first + name + size);
      const [library] = (file.endsWith(".rs") && LIBRARY.exec(file)) || [];
      if (!library) continue;
      if (!libraries.has(library)) libraries.set(library, name);
      const named = libraries.get(library);
      text.writeUInt32LE(base + named, at);
      text.writeUInt32LE(library.length, at + 4);
      text.fill(0, at + 8, at + 16);
      text.fill(0, first + name + (name === named ? library.length : 0), first + name + size);
    }
    next = first + length;
  }
  return text;
}

/** The functions of a wasm: how many are imported, and the bytes of each other one. */
function functions(wasm) {
  const bodies = [];
  const section = sections(wasm).find(({ id }) => id === 10);
  let [count, next] = leb(wasm, section.begin);
  for (; count > 0; count -= 1) {
    const end = skip(wasm, next);
    bodies.push(wasm.subarray(next, end));
    next = end;
  }
  return { imported: imports(wasm).filter(({ isFunction }) => isFunction).length, bodies };
}

/** Some of the runs of bytes in a function, each once. */
function runs(body) {
  const found = new Set();
  for (let at = 0; at + RUN <= body.length; at += 1) {
    let hash = 2_166_136_261;
    for (let i = 0; i < RUN; i += 1) hash = Math.imul(hash ^ body[at + i], 16_777_619);
    hash ^= hash >>> 15;
    if ((hash & 1) === 0) found.add(hash >>> 1);
  }
  return [...found];
}

/** The functions in their new order: each the one that has most in common with those before it, else the largest that is left. */
function ordered(bodies) {
  const own = bodies.map(runs);
  const having = new Map();
  own.forEach((found, body) => found.forEach((run) => (having.get(run) ?? having.set(run, []).get(run)).push(body)));
  const left = bodies.map((_, body) => body).sort((a, b) => bodies[b].length - bodies[a].length || a - b);
  const placed = new Uint8Array(bodies.length);
  const shared = new Float64Array(bodies.length);
  const order = [];
  for (let largest = 0; order.length < bodies.length; ) {
    const met = [];
    for (let back = 1, bytes = 0; back <= Math.min(BACK.functions, order.length) && bytes < BACK.bytes; back += 1) {
      const before = order.at(-back);
      bytes += bodies[before].length;
      for (const run of own[before]) {
        const others = having.get(run);
        if (others.length > COMMON) continue;
        for (const other of others) {
          if (placed[other]) continue;
          if (shared[other] === 0) met.push(other);
          shared[other] += BACK.fades ** back / Math.log2(1 + others.length) ** 1.25;
        }
      }
    }
    let [best, most] = [-1, 0];
    for (const other of met) {
      const share = shared[other] / (60 + own[other].length) ** 0.65;
      if (share > most) [best, most] = [other, share];
      shared[other] = 0;
    }
    while (best < 0) {
      if (!placed[left[largest]]) best = left[largest];
      largest += 1;
    }
    placed[best] = 1;
    order.push(best);
  }
  return order;
}

/** A section that names functions by their place in an order. */
function names(order, imported) {
  const place = new Map(order.map((body, at) => [body, at]));
  const name = (index) => String(place.get(index) ?? 0).padStart(8, "0");
  const pairs = order.map((_, body) => Buffer.concat([encoded(imported + body), encoded(8), Buffer.from(name(body))]));
  const list = Buffer.concat([encoded(pairs.length), ...pairs]);
  const section = Buffer.concat([encoded(4), Buffer.from("name"), Buffer.from([1]), encoded(list.length), list]);
  return Buffer.concat([Buffer.from([0]), encoded(section.length), section]);
}

function tool(name, ...words) {
  try {
    execFileSync(name, words, { stdio: "inherit" });
  } catch (error) {
    if (error.code === "ENOENT") console.error(`${name} is not there: \`make page\` installs it.`);
    throw error;
  }
}

function optimize(file, ...passes) {
  // What wasm-bindgen adds to start threads has another alignment written than wasm-opt would have: browsers take it.
  const check = path.basename(file).startsWith("nearfar-threads-") ? ["--no-validation"] : [];
  tool("wasm-opt", ...FEATURES, ...check, ...passes, file, "-o", file);
}

function minify(file) {
  tool("esbuild", file, "--minify", "--charset=utf8", "--legal-comments=none", "--log-level=warning", "--allow-overwrite", `--outfile=${file}`);
}

/** What Leptos brings for pages that call functions of their server, which keeps 9 kB alive: nothing here calls it. */
const UNCALLED = /^(__wbg_)?intounderlying/;
const UNCALLED_CLASSES = [
  /^export class IntoUnderlying\w+ \{[^]*?^\}\n/gm,
  /^if \(Symbol\.dispose\) IntoUnderlying.*\n/gm,
  /^const IntoUnderlying\w+ = [^]*?;\n/gm,
];

/** Takes what nothing calls out of a core and its script. */
function prune(core) {
  const script = scriptOf(core);
  writeFileSync(core, without(readFileSync(core), (name) => UNCALLED.test(name)));
  optimize(core, "--remove-unused-module-elements");
  const used = new Set(imports(readFileSync(core)).map(({ name }) => name));
  const text = UNCALLED_CLASSES.reduce((text, uncalled) => text.replace(uncalled, ""), readFileSync(script, "utf8"));
  const isUsed = (part, name) => (used.has(name) ? part : "");
  writeFileSync(script, text.replace(/^ {8}(__wb\w+): function\([^]*?^ {8}\},\n/gm, isUsed));
}

function order(file) {
  optimize(file, ...PASSES, "--strip-debug", "--strip-producers");
  const wasm = unplaced(readFileSync(file));
  const { imported, bodies } = functions(wasm);
  writeFileSync(file, Buffer.concat([wasm, names(ordered(bodies), imported)]));
  optimize(file, "--reorder-functions-by-name", "--strip-debug");
}

function strip(file) {
  const lines = readFileSync(file, "utf8").replace(/^ *<!--[^]*?-->$/gm, "").split("\n");
  writeFileSync(file, lines.map((line) => line.trim()).filter((line) => line !== "").join("\n"));
}

/** A wasm whose imports have the names that `short` has for them. */
function renamed(wasm, short) {
  const { at, begin, end } = sections(wasm).find(({ id }) => id === 2);
  const content = [];
  let kept = begin;
  for (const { name, at, end } of imports(wasm)) {
    const text = Buffer.from(short.get(name) ?? name);
    content.push(wasm.subarray(kept, at), encoded(text.length), text);
    kept = end;
  }
  const section = Buffer.concat([...content, wasm.subarray(kept, end)]);
  return Buffer.concat([wasm.subarray(0, at + 1), encoded(section.length), section, wasm.subarray(end)]);
}

/** The script that starts a core. */
const scriptOf = (core) => core.replace(/_bg\.wasm$/, ".js");

/** Gives what a core takes from its script short names: they stand in these two alone. */
function shorten(core) {
  const script = scriptOf(core);
  const wasm = readFileSync(core);
  const names = new Set(imports(wasm).map(({ name }) => name).filter((name) => name.startsWith("__wb")));
  const sorted = [...names].sort();
  // A script and a core that do not belong together must not fit.
  const pair = createHash("sha256").update(sorted.join()).digest("hex").slice(0, 6);
  const short = new Map(sorted.map((name, at) => [name, `_${pair}${at.toString(36)}`]));
  const text = readFileSync(script, "utf8").replace(/\b__wb\w+(?=: function\()/g, (name) => {
    names.delete(name);
    return short.get(name) ?? name;
  });
  if (names.size > 0) throw new Error(`${script} lacks what its core takes from it: ${[...names].join(", ")}`);
  writeFileSync(script, text);
  writeFileSync(core, renamed(wasm, short));
}

const { TRUNK_PROFILE, TRUNK_STAGING_DIR: folder, NEARFAR_THREADS } = process.env;
const given = process.argv.slice(2);
if (given.length === 0 && NEARFAR_THREADS === "1") threads(folder, TRUNK_PROFILE === "release");
const built = given.length === 0 && TRUNK_PROFILE === "release" ? readdirSync(folder).map((name) => path.join(folder, name)) : given;
// First what looks into a core and its script as they were built.
for (const core of built.filter((file) => file.endsWith("_bg.wasm"))) {
  prune(core);
  shorten(core);
}
for (const file of built) {
  if (file.endsWith(".wasm")) order(file);
  else if (/\.(css|js)$/.test(file)) minify(file);
  else if (file.endsWith(".html")) strip(file);
}
