// Prints what the first load of the page is, compressed: all files that are fetched before a run can start. `make page` has it
// look at what was built for publishing. Alone, it builds the core as it is published, and holds the sum to `size.json`: a
// figure that is more than 5 % off has to be written down again.
import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

// Nothing here needs a package: `make page` runs it where none is installed.
const root = fileURLToPath(new URL("../../", import.meta.url));
const TARGET = "wasm32-unknown-unknown";
const inside = (...parts) => path.join(root, ...parts);
const kB = (bytes) => `${(bytes / 1000).toFixed(1).padStart(8)} kB`;

/** Prints the size of each file, and gives their sum in kB, compressed as the program gzip does it: Node's own is half a percent worse. */
function listed(files) {
  const packed = files.map((file) => {
    const content = readFileSync(file);
    const bytes = execFileSync("gzip", ["-9c", file], { maxBuffer: 1 << 28 }).length;
    console.log(`${kB(bytes)} compressed, ${kB(content.length)}  ${path.basename(file)}`);
    return bytes;
  });
  return packed.reduce((sum, bytes) => sum + bytes, 0) / 1000;
}

/** What `make page` leaves: what the HTML names, the HTML and the worker come first, the rest when it is asked for. */
function built(folder) {
  const html = readFileSync(path.join(folder, "index.html"), "utf8");
  const files = readdirSync(folder);
  const first = files.filter((file) => html.includes(file) || ["index.html", "worker.js"].includes(file));
  const later = files.filter((file) => !first.includes(file));
  const at = (file) => path.join(folder, file);
  console.log(`${listed(first.map(at)).toFixed(1).padStart(8)} kB compressed: the first load of the page. When they are used:`);
  listed(later.map(at));
}

/** Builds the core and holds the first load to what was written down. */
function held() {
  const run = (program, ...parts) => execFileSync(program, parts, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  run("cargo", "build", "--package", "nearfar-web", "--target", TARGET, "--profile", "page");
  const out = inside("target/page");
  const wasm = path.join(out, "nearfar-web_bg.wasm");
  run("wasm-bindgen", "--target=web", "--no-typescript", `--out-dir=${out}`, inside("target", TARGET, "page/nearfar-web.wasm"));
  const others = ["index.html", "start.js", "reopen.js", "style.css", "worker.js", "icon.svg", "manifest.json"].map((name) => path.join(out, name));
  for (const file of others) copyFileSync(inside("web", path.basename(file)), file);
  const files = [wasm, path.join(out, "nearfar-web.js"), ...others];
  run("node", inside("web/order.mjs"), ...files);
  const kb = listed(files);
  const { first_load_kb: recorded } = JSON.parse(readFileSync(inside("tests/browser/size.json"), "utf8"));
  console.log(`${kb.toFixed(1).padStart(8)} kB compressed: the first load of the page; ${recorded} kB are written down in tests/browser/size.json`);
  const offline = readFileSync(inside("web/offline.js"), "utf8");
  const [, later] = /const USED = \[(.*?)\]/.exec(offline);
  console.log(`Fetched when they are used: ${later.replaceAll('"', "")} (their sizes: make page).`);
  if (Math.abs(kb / recorded - 1) > 0.05) {
    console.error(`The first load of the page is ${kb.toFixed(0)} kB, more than 5 % off: find what it comes from, or write it down.`);
    process.exit(1);
  }
}

const [folder] = process.argv.slice(2);
if (folder) built(folder);
else held();
