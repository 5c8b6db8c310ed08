// Prints what the first load of the page is, compressed: all files that are fetched before a run can start. `make page` has it look at
// what was built for publishing, and fails where the sum is more than 5 % off what `size.json` says: it has to be written down again.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync } from "node:zlib";
import { fileURLToPath } from "node:url";

// Nothing here needs a package: `make page` runs it where none is installed.
const kB = (bytes) => `${(bytes / 1000).toFixed(1).padStart(8)} kB`;

/** Bytes of files, compressed as the program gzip does it (Node's own is half a percent worse), and by brotli, which some servers send. */
const sizes = (files) =>
  files.map((file) => {
    const content = readFileSync(file);
    const packed = execFileSync("gzip", ["-9c", file], { maxBuffer: 1 << 28 }).length;
    return { file, bytes: content.length, packed, brotli: brotliCompressSync(content).length };
  });
/** Their sum in kB, compressed. */
const sum = (sizes) => sizes.reduce((sum, { packed }) => sum + packed, 0) / 1000;
const print = (sizes) =>
  sizes.forEach(({ file, bytes, packed, brotli }) =>
    console.log(`${kB(packed)} compressed, ${kB(brotli)} by brotli, ${kB(bytes)}  ${path.basename(file)}`));

// What the HTML names, the HTML, the worker and the sample that the page opens with come first, the rest when it is asked for. Of the
// two cores one is fetched: see web/start.js.
const [folder] = process.argv.slice(2);
const html = readFileSync(path.join(folder, "index.html"), "utf8");
const files = readdirSync(folder);
const isFirst = (file) => !file.endsWith("_rest.wasm");
const core = files.filter((file) => file.startsWith("nearfar-web-") && isFirst(file));
const withThreads = files.filter((file) => file.startsWith("nearfar-threads-") && isFirst(file));
const page = files.filter((file) => ![...core, ...withThreads].includes(file) && isFirst(file) && (html.includes(file) || ["index.html", "worker.js", "digits.npy"].includes(file)));
const later = files.filter((file) => ![...core, ...withThreads, ...page].includes(file));
const [own, shared, both, rest] = [core, withThreads, page, later].map((files) => sizes(files.map((file) => path.join(folder, file))));
const { first_load_kb: recorded } = JSON.parse(readFileSync(fileURLToPath(new URL("size.json", import.meta.url)), "utf8"));
const loads = [sum(both) + sum(own)];
print([...both, ...own]);
console.log(`${kB(1000 * loads[0])} compressed: the first load of the page; ${recorded} kB are written down.`);
if (shared.length > 0) {
  print(shared);
  loads.push(sum(both) + sum(shared));
  console.log(`${kB(1000 * loads[1])} compressed: the first load with the core with threads instead.`);
}
console.log("When they are used:");
print(rest);
for (const kb of loads) {
  if (kb / recorded - 1 <= 0.05 && (kb !== loads[0] || kb / recorded - 1 >= -0.05)) continue;
  console.error(`The first load of the page is ${kb.toFixed(0)} kB, more than 5 % off: find what it comes from, or write it down in tests/browser/size.json.`);
  process.exit(1);
}
