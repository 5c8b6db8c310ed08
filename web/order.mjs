// Makes what is published smaller once it is compressed. It orders the functions of a wasm so that alike ones stand side by side:
// gzip sees no further back than 32 kB, and the copies that Rust makes of one function for several types are spread over
// megabytes. wasm-opt moves them, by names that are made up here. And it takes random digits out of names, and comments and indents
// out of all else.
//
// Trunk runs it over what it built for publishing; `node web/order.mjs FILE..` over files.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";

/** What alikeness is counted by: runs of so many bytes, every other one of them. */
const RUN = 5;
/** A run that more functions have says nothing. */
const COMMON = 4000;
/** How far back the next function is compared: functions, and bytes, of which gzip sees 32,768. */
const BACK = { functions: 12, bytes: 30_000 };

/** What Rust compiles for the web with. */
const FEATURES = ["simd", "bulk-memory", "bulk-memory-opt", "nontrapping-float-to-int", "sign-ext", "mutable-globals", "reference-types", "multivalue"].map((name) => `--enable-${name}`);

/** What makes it smaller when compressed, too; -Oz makes it larger by half a percent. */
const PASSES = ["--vacuum", "--merge-blocks", "--remove-unused-brs", "--remove-unused-names", "--rse", "--vacuum", "--dealign", "--duplicate-function-elimination", "--dae-optimizing", "--optimize-instructions", "--merge-blocks", "--vacuum", "--reorder-locals"];

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

/** The functions of a wasm: how many are imported, and the bytes of each other one. */
function functions(wasm) {
  let imported = 0;
  const bodies = [];
  const skip = (at) => {
    const [length, begin] = leb(wasm, at);
    return begin + length;
  };
  const limits = (at) => {
    const both = wasm[at] & 1;
    at = leb(wasm, at + 1)[1];
    return both ? leb(wasm, at)[1] : at;
  };
  for (let at = 8; at < wasm.length; ) {
    const id = wasm[at];
    const [length, begin] = leb(wasm, at + 1);
    let [count, next] = id === 2 || id === 10 ? leb(wasm, begin) : [0, 0];
    for (; count > 0; count -= 1) {
      if (id === 10) {
        const end = skip(next);
        bodies.push(wasm.subarray(next, end));
        next = end;
        continue;
      }
      next = skip(skip(next));
      const kind = wasm[next++];
      if (kind === 0) imported += 1;
      // A function and a tag end with a type, a table and a memory with limits, a global with two bytes.
      if (kind === 0) next = leb(wasm, next)[1];
      else if (kind === 1) next = limits(next + 1);
      else if (kind === 2) next = limits(next);
      else if (kind === 3) next += 2;
      else next = leb(wasm, next + 1)[1];
    }
    at = begin + length;
  }
  return { imported, bodies };
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
          shared[other] += 1 / Math.log2(1 + others.length);
        }
      }
    }
    let [best, most] = [-1, 0];
    for (const other of met) {
      const share = shared[other] / (60 + own[other].length) ** 0.6;
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

function optimize(file, ...passes) {
  try {
    execFileSync("wasm-opt", [...FEATURES, ...passes, file, "-o", file], { stdio: "inherit" });
  } catch (error) {
    if (error.code === "ENOENT") console.error("wasm-opt is not there: `make page` installs it.");
    throw error;
  }
}

function order(file) {
  optimize(file, ...PASSES, "--strip-debug", "--strip-producers");
  const wasm = readFileSync(file);
  const { imported, bodies } = functions(wasm);
  writeFileSync(file, Buffer.concat([wasm, names(ordered(bodies), imported)]));
  optimize(file, "--reorder-functions-by-name", "--strip-debug");
}

function strip(file) {
  const lines = readFileSync(file, "utf8").replace(/^ *(\/\*[^]*?\*\/|<!--[^]*?-->)$/gm, "").split("\n");
  writeFileSync(file, lines.map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("//")).join("\n"));
}

/** Numbers in place of the random digits in the names that scripts and cores know each other by: as long, and nearly nothing once compressed. */
function number(files) {
  const name = /(__wbg_\w+_)([0-9a-f]{16})/g;
  const texts = files.map((file) => readFileSync(file, "latin1"));
  const found = new Set(texts.flatMap((text) => [...text.matchAll(name)].map(([, , digits]) => digits)));
  const numbers = new Map([...found].sort().map((digits, at) => [digits, String(at).padStart(16, "0")]));
  texts.forEach((text, at) => writeFileSync(files[at], text.replace(name, (_, known, digits) => known + numbers.get(digits)), "latin1"));
}

const { TRUNK_PROFILE, TRUNK_STAGING_DIR: folder } = process.env;
const given = process.argv.slice(2);
const built = given.length === 0 && TRUNK_PROFILE === "release" ? readdirSync(folder).map((name) => path.join(folder, name)) : given;
number(built.filter((file) => /\.(js|wasm)$/.test(file)));
for (const file of built) {
  if (file.endsWith(".wasm")) order(file);
  else if (/\.(css|html|js)$/.test(file)) strip(file);
}
