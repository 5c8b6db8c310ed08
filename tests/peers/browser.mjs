// Searches the same rows with Nearfar and with tfjs in one browser: the GPU engine beside tfjs-webgpu on one adapter, the
// CPU engine beside tfjs-wasm. Time, memory, exactness.
//
// usage: node browser.mjs [--minutes 10] [--json] [1000x10000x64x10 ..]
//        node browser.mjs --plant     whether the comparison with f64 rejects wrong neighbours
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { launch, serve } from "../browser/support.mjs";
import { compare, plant, unit } from "./exact.mjs";
import { QUERIES, REFERENCES, uniform } from "./rows.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
// Queries, references, dimensions, k.
const SIZES = ["1000x10000x64x10", "5000x5000x32x10", "20000x20000x32x10"];
const MIB = 2 ** 20;

/** Serves this folder: the peer's page and its scripts. */
async function servePeer() {
  const types = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
  const server = http.createServer(async (request, response) => {
    const name = path.normalize(new URL(request.url, "http://local").pathname);
    try {
      const body = await readFile(path.join(here, name));
      response.writeHead(200, { "content-type": types[path.extname(name)] ?? "application/octet-stream" });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

/** Nearfar's page for one size: what it measured, and what its worker held. */
async function nearfar(page, url, engine, [n, m, dim, k]) {
  const account = await readFile(path.join(here, "gpu_bytes.js"), "utf8");
  await page.route("**/worker.js*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: account + (await response.text()) });
  });
  const query = { bench: "knn", engine, queries: n, references: m, dim, k, answers: n };
  await page.goto(`${url}?${new URLSearchParams(query)}`);
  const status = page.locator("[data-testid=status]");
  await status.filter({ hasText: /Done|Failed/ }).waitFor({ timeout: 0 });
  const { adapter, peak, largest } = await page.workers()[0].evaluate(() => self.gpuBytes);
  if ((await status.innerText()) === "Failed") {
    return { adapter, fails: await page.locator("[data-testid=error]").innerText() };
  }
  const { lines } = JSON.parse(await page.locator("[data-testid=bench]").textContent());
  const { median_ms: ms, found, memory_bytes: ledger } = lines[0];
  // The CPU engine's memory is the worker's own.
  return { adapter, ms, ...found, ledger, ...(engine === "gpu" ? { peak, largest } : { peak: ledger }) };
}

/** The peer's page for one size, on its `webgpu` or `wasm` backend. */
async function tfjs(page, url, backend, size) {
  await page.goto(`${url}tfjs.html`);
  await page.waitForFunction(() => self.ready);
  const found = await page.evaluate((asked) => self.search(...asked), [backend, ...size]);
  const { adapter, peak, largest } = await page.evaluate(() => self.gpuBytes);
  // On the processor, what its tensors took.
  return backend === "wasm" ? { ...found, peak: found.tensors } : { ...found, adapter, peak, largest };
}

/** One engine's row of the table, in a page of its own; what takes too long is ended. */
async function row(browser, minutes, search, [n, m, dim, k]) {
  const page = await browser.newPage();
  page.setDefaultTimeout(0);
  let late;
  const limit = new Promise((resolve) => {
    late = setTimeout(() => resolve({ fails: `no answer in ${minutes} minutes` }), minutes * 6e4);
  });
  const crashed = new Promise((resolve) => page.on("crash", () => resolve({ fails: "the page crashed" })));
  const failed = (error) => ({ fails: error.message.split("\n")[0] });
  const found = await Promise.race([search(page).catch(failed), limit, crashed]);
  clearTimeout(late);
  await page.close();
  if (found.fails) return found;
  const [queries, references] = [unit(uniform(QUERIES, n, dim), dim), unit(uniform(REFERENCES, m, dim), dim)];
  const { wrong, error } = compare(queries, references, dim, k, found);
  return { ...found, ids: undefined, similarities: undefined, wrong, error };
}

function table(rows) {
  const head = ["n x m x d, k", "engine", "time, ms", "tfjs takes", "buffers, MiB", "largest, MiB"];
  head.push("n x m similarities, MiB", "queries that differ", "largest error");
  const lines = [`| ${head.join(" | ")} |`, `|---|---|${"--:|".repeat(head.length - 2)}`];
  const number = (value, digits = 0) =>
    value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  for (const { size, engine, ms, peer, peak, largest, wrong, error, fails } of rows) {
    const [n, m, dim, k] = size;
    const mib = (bytes) => (bytes === undefined ? "" : number(bytes / MIB));
    const cells = [`${number(n)} x ${number(m)} x ${dim}, ${k}`, engine, fails ? `fails: ${fails}` : number(ms, 1)];
    cells.push(peer === undefined || fails ? "" : `${number(peer / ms, 2)}x`);
    cells.push(mib(peak), mib(largest), mib(4 * n * m));
    cells.push(...(fails ? ["", ""] : [`${number(wrong)} of ${number(n)}`, error.toExponential(1)]));
    lines.push(`| ${cells.join(" | ")} |`);
  }
  return lines.join("\n");
}

async function main() {
  const { values: asked, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      minutes: { type: "string", default: "10" },
      json: { type: "boolean", default: false },
      plant: { type: "boolean", default: false },
    },
  });
  if (asked.plant) {
    const { planted, rejected, passes } = plant();
    console.log(`${rejected} of ${planted} planted faults rejected, the right neighbours ${passes ? "pass" : "do not"}`);
    return rejected === planted && passes ? 0 : 1;
  }
  const load = [os.loadavg()[0]];
  const [site, peers, browser] = [await serve(), await servePeer(), await launch()];
  const rows = [];
  for (const text of positionals.length ? positionals : SIZES) {
    const size = text.split("x").map(Number);
    const engines = {
      "tfjs-webgpu matMul + topk": (page) => tfjs(page, peers.url, "webgpu", size),
      "Nearfar, GPU engine": (page) => nearfar(page, site.url, "gpu", size),
      "tfjs-wasm matMul + topk": (page) => tfjs(page, peers.url, "wasm", size),
      "Nearfar, CPU engine": (page) => nearfar(page, site.url, "cpu", size),
    };
    let peer;
    for (const [engine, search] of Object.entries(engines)) {
      const found = await row(browser, Number(asked.minutes), search, size);
      const isPeer = engine.startsWith("tfjs");
      rows.push({ size, engine, peer: isPeer ? undefined : peer, ...found });
      // Each of Nearfar's engines follows its own peer.
      if (isPeer) peer = found.ms;
      console.error(`${text}: ${engine}: ${found.fails ?? `${found.ms.toFixed(1)} ms`}`);
    }
  }
  const version = browser.version();
  await browser.close();
  site.close();
  peers.close();
  const adapters = rows.filter(({ adapter }) => adapter).map(({ adapter }) => adapter);
  adapters.forEach((adapter) => assert.deepEqual(adapter, adapters[0], "both ran on the same adapter"));
  load.push(os.loadavg()[0]);
  const report = { chromium: version, adapter: adapters[0], load, rows };
  if (asked.json) {
    console.log(JSON.stringify(report));
  } else {
    const { vendor, architecture, description, isFallbackAdapter } = adapters[0];
    const software = isFallbackAdapter || /swiftshader|llvmpipe/i.test(architecture + description);
    console.log(table(rows));
    console.log(`\nChromium ${version}; adapter: ${[vendor, architecture, description].filter(Boolean).join(", ")};`);
    console.log(`load of the machine before and after: ${load.map((load) => load.toFixed(1)).join(", ")}.`);
    if (software) console.log("A processor plays this GPU: the ratios say nothing about a GPU.");
  }
  return rows.some(({ wrong }) => wrong > 0) ? 1 : 0;
}

process.exitCode = await main();
