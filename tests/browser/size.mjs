// Builds the page as it is served and prints what its first load is, compressed: all files that are fetched before anything is
// seen. `size.json` has the figure that was last written down; one that is more than 5 % off has to be written down again.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";

import { root } from "./support.mjs";

const TARGET = "wasm32-unknown-unknown";
const inside = (...parts) => path.join(root, ...parts);
const run = (program, ...parts) => execFileSync(program, parts, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });

run("cargo", "build", "--package", "nearfar-web", "--target", TARGET, "--profile", "page");
const built = inside("target/page");
run("wasm-bindgen", "--target=web", "--no-typescript", `--out-dir=${built}`, inside("target", TARGET, "page/nearfar-web.wasm"));

const files = [
  path.join(built, "nearfar-web_bg.wasm"),
  path.join(built, "nearfar-web.js"),
  ...["index.html", "style.css", "worker.js", "icon.svg"].map((name) => inside("web", name)),
];
let total = 0;
for (const file of files) {
  const content = readFileSync(file);
  const packed = gzipSync(content, { level: 9 }).length;
  total += packed;
  console.log(`${(packed / 1000).toFixed(1).padStart(8)} kB compressed, ${(content.length / 1000).toFixed(1).padStart(8)} kB  ${path.basename(file)}`);
}
const { first_load_kb: recorded } = JSON.parse(readFileSync(inside("tests/browser/size.json"), "utf8"));
const kb = total / 1000;
console.log(`${kb.toFixed(1).padStart(8)} kB compressed: the first load of the page; ${recorded} kB are written down in tests/browser/size.json`);
if (Math.abs(kb / recorded - 1) > 0.05) {
  console.error(`The first load of the page is ${kb.toFixed(0)} kB, more than 5 % off: find what it comes from, or write it down.`);
  process.exit(1);
}
