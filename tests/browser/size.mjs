// Prints what the first load of the page is, compressed: all files that are fetched before a run can start. `make page` has it look at
// what was built for publishing, and fails where the sum is more than 5 % off what `size.json` says: it has to be written down again.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync } from "node:zlib";
import { fileURLToPath } from "node:url";

// Nothing here needs a package: `make page` runs it where none is installed.
const kB = (bytes) => `${(bytes / 1000).toFixed(1).padStart(8)} kB`;

/**
 * Prints the size of each file, and gives their sum in kB, compressed as the program gzip does it: Node's own is half a percent worse.
 * Beside it stands what brotli makes of it, which some servers send.
 */
function listed(files) {
  const packed = files.map((file) => {
    const content = readFileSync(file);
    const bytes = execFileSync("gzip", ["-9c", file], { maxBuffer: 1 << 28 }).length;
    const brotli = brotliCompressSync(content).length;
    console.log(`${kB(bytes)} compressed, ${kB(brotli)} by brotli, ${kB(content.length)}  ${path.basename(file)}`);
    return bytes;
  });
  return packed.reduce((sum, bytes) => sum + bytes, 0) / 1000;
}

// What the HTML names, the HTML and the worker come first, the rest when it is asked for.
const [folder] = process.argv.slice(2);
const html = readFileSync(path.join(folder, "index.html"), "utf8");
const files = readdirSync(folder);
const first = files.filter((file) => html.includes(file) || ["index.html", "worker.js"].includes(file));
const later = files.filter((file) => !first.includes(file));
const at = (file) => path.join(folder, file);
const kb = listed(first.map(at));
const { first_load_kb: recorded } = JSON.parse(readFileSync(fileURLToPath(new URL("size.json", import.meta.url)), "utf8"));
console.log(`${kb.toFixed(1).padStart(8)} kB compressed: the first load of the page; ${recorded} kB are written down. When they are used:`);
listed(later.map(at));
if (Math.abs(kb / recorded - 1) > 0.05) {
  console.error(`The first load of the page is ${kb.toFixed(0)} kB, more than 5 % off: find what it comes from, or write it down in tests/browser/size.json.`);
  process.exit(1);
}
