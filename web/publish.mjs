// Makes what is published small: wasm-opt and esbuild do, comments and indents go out of the HTML, and what the page needs later
// goes into files of their own (web/rest.mjs).
//
// Trunk runs it over what it built, where it first builds the core with threads if it is asked for (web/threads.mjs).
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";

import { splitOff } from "./rest.mjs";
import { threads } from "./threads.mjs";
import { optimize, strip, tool } from "./wasm.mjs";

/**
 * What makes a wasm smaller when compressed, too; -Oz makes it larger by half a percent. The first kB of memory, which the last two
 * take as never used, is the end of the stack: Rust puts that first.
 */
const PASSES = ["--vacuum", "--merge-blocks", "--remove-unused-brs", "--remove-unused-names", "--rse", "--vacuum", "--dealign", "--duplicate-function-elimination", "--dae-optimizing", "--optimize-instructions", "--merge-blocks", "--vacuum", "--reorder-locals", "--low-memory-unused", "--optimize-added-constants"];

function bare(file) {
  const lines = readFileSync(file, "utf8").replace(/^ *<!--[^]*?-->$/gm, "").split("\n");
  writeFileSync(file, lines.map((line) => line.trim()).filter((line) => line !== "").join("\n"));
}

const { TRUNK_PROFILE, TRUNK_STAGING_DIR: folder, NEARFAR_THREADS } = process.env;
if (NEARFAR_THREADS === "1") threads(folder, TRUNK_PROFILE === "release");
if (TRUNK_PROFILE === "release") {
  const ending = (pattern) => readdirSync(folder).filter((name) => pattern.test(name)).map((name) => path.join(folder, name));
  for (const core of ending(/_bg\.wasm$/)) optimize(core, ...PASSES);
  for (const core of ending(/^nearfar-(web|threads)-.*_bg\.wasm$/)) await splitOff(core);
  for (const file of ending(/\.wasm$/)) strip(file);
  for (const file of ending(/\.(css|js)$/)) tool("esbuild", [file, "--minify", "--charset=utf8", "--legal-comments=none", "--log-level=warning", "--allow-overwrite", `--outfile=${file}`]);
  for (const file of ending(/\.html$/)) bare(file);
}
