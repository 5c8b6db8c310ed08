// Shared by the scripts that make the page small: the tools of binaryen, and the names in a wasm.
import { execFileSync } from "node:child_process";

/** What Rust compiles for the web with. */
export const FEATURES = ["simd", "bulk-memory", "bulk-memory-opt", "nontrapping-float-to-int", "sign-ext", "mutable-globals", "reference-types", "multivalue", "threads"].map((name) => `--enable-${name}`);

/** The script that starts a core. */
export const scriptOf = (core) => core.replace(/_bg\.wasm$/, ".js");

/** Runs a program that `make page` installs; returns what it prints, if that is asked for. */
export function tool(name, words, stdout = "inherit") {
  try {
    return execFileSync(name, words, { stdio: ["ignore", stdout, "inherit"], encoding: "utf8", maxBuffer: 2 ** 30 });
  } catch (error) {
    if (error.code === "ENOENT") console.error(`${name} is not there: \`make page\` installs it.`);
    throw error;
  }
}

// What wasm-bindgen adds to start threads has another alignment written than wasm-opt would have: browsers take it.
const OPTIONS = [...FEATURES, "--no-validation"];

/** Passes of wasm-opt over a file; the names of functions stay. */
export function optimize(file, ...passes) {
  tool("wasm-opt", [...OPTIONS, "--debuginfo", ...passes, file, "-o", file]);
}

/** Takes the names of functions out of a file. */
export function strip(file, ...passes) {
  tool("wasm-opt", [...OPTIONS, ...passes, "--strip-debug", "--strip-producers", file, "-o", file]);
}

/** An unsigned number of a wasm, and where it ends. */
function leb(bytes, at) {
  for (let value = 0, scale = 1; ; scale *= 128) {
    const byte = bytes[at++];
    value += (byte & 127) * scale;
    if (byte < 128) return [value, at];
  }
}

/** The text at a place with its length before it, and where it ends. */
function text(bytes, at) {
  const [length, begin] = leb(bytes, at);
  return [bytes.toString("utf8", begin, begin + length), begin + length];
}

/** Names of the functions of a wasm by their numbers, imported ones first. */
export function functionNames(wasm) {
  for (let at = 8; at < wasm.length; ) {
    const [length, begin] = leb(wasm, at + 1);
    const [section, first] = wasm[at] === 0 ? text(wasm, begin) : [];
    at = begin + length;
    if (section !== "name") continue;
    for (let part = first; part < at; ) {
      const [size, begin] = leb(wasm, part + 1);
      if (wasm[part] === 1) return new Map(listed(wasm, begin));
      part = begin + size;
    }
  }
  return new Map();
}

/** Numbers and their names, one after the other. */
function* listed(wasm, at) {
  let [count, next] = leb(wasm, at);
  for (; count > 0; count -= 1) {
    const [number, begin] = leb(wasm, next);
    const [name, end] = text(wasm, begin);
    yield [number, name];
    next = end;
  }
}
