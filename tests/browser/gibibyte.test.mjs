// A file far larger than a tab may hold: it stays on the disk, and the processes of the tab hold a small part of it. 64 MiB here, 1 GiB
// with NEARFAR_GIB=1.
import assert from "node:assert/strict";
import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

import { pages, test } from "./playing.mjs";
import { heaps, keeping, processes } from "./memory.mjs";

const MIB = 2 ** 20;
const DIM = 128;
const IS_WHOLE = process.env.NEARFAR_GIB === "1";
const ROWS = (IS_WHOLE ? 1024 : 64) * MIB / (4 * DIM);

/** An NPY file of that many rows in ten classes, and the CSV of its labels; rows come again after each 8 MiB, a little moved. */
async function written(folder) {
  const [data, labels] = ["large.npy", "labels.csv"].map((name) => path.join(folder, name));
  const put = async (file, parts) => {
    const stream = createWriteStream(file);
    for (const part of parts) if (!stream.write(part)) await new Promise((free) => stream.once("drain", free));
    await new Promise((closed) => stream.end(closed));
  };
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${ROWS}, ${DIM}), }`.padEnd(117) + "\n";
  const start = Buffer.concat([Buffer.from("\x93NUMPY\x01\x00", "latin1"), Buffer.from([118, 0]), Buffer.from(header)]);
  await put(data, (function* () {
    yield start;
    const values = new Float32Array((8 * MIB) / 4);
    let noise = 1;
    for (let i = 0; i < values.length; i += 1) {
      noise = (noise * 48_271) % 2_147_483_647;
      const [label, column] = [Math.floor(i / DIM) % 10, i % DIM];
      values[i] = noise / 2 ** 31 + (column % 10 === label ? 0.4 : 0);
    }
    for (let written = 0; written < ROWS; written += (2 * MIB) / DIM) {
      for (let i = 0; i < values.length; i += DIM) values[i] += 1e-3;
      yield Buffer.from(values.buffer.slice(0));
    }
  })());
  // Classes follow the rows of a block: 16,384 of them are no multiple of ten.
  const block = (2 * MIB) / DIM;
  await put(labels, (function* () {
    yield "label\n";
    for (let row = 0; row < ROWS; row += block) yield Array.from({ length: Math.min(block, ROWS - row) }, (_, i) => `c${i % 10}\n`).join("");
  })());
  return [data, labels];
}

const on = pages({ gc: true }, { instead: async (name, read) => (name === "worker.js" ? keeping + (await read(name)) : undefined) });

test(`${IS_WHOLE ? "1 GiB" : "64 MiB"} of rows are trained on and scored, and a small part of them is held`, async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  try {
    const files = await written(folder);
    const settings = "data=file:large.npy&steps=5&batch_size=64&hidden_layers=[32]&memory_size=256&test_fraction=0.005&validation_fraction=0.002&evaluate_queries=50&test_queries=50" + (IS_WHOLE ? "" : "&budget_bytes=16777216");
    await on(`?engine=cpu&stream_from=16000000#${settings}`, { init: keeping }, async (page) => {
      const browser = page.page.context().browser();
      const before = { ...(await processes(browser)), ...(await heaps(page)) };
      let most = before;
      let over = false;
      // Ten times a second, while the page works.
      const watching = (async () => {
        while (!over) {
          const now = await processes(browser);
          most = Object.fromEntries(Object.entries({ ...most, ...now }).map(([kind, held]) => [kind, Math.max(held, most[kind] ?? 0)]));
          await new Promise((later) => setTimeout(later, 100));
        }
      })().catch(() => {});
      const began = Date.now();
      await page.upload(...files);
      await page.find("dataset-summary").filter({ hasText: /^large.npy: .*[Ff]eatures stay in the file/ }).waitFor({ timeout: 600_000 });
      const read = Date.now();
      await page.click("run");
      await page.status(/^Done/, 1200);
      over = true;
      await watching;
      const after = await heaps(page);
      const grown = ["renderer", "gpu"].map((kind) => `${kind} ${(most[kind] - before[kind]).toFixed(0)}`).join(", ");
      console.log(`# ${((ROWS * DIM * 4) / MIB).toFixed(0)} MiB: read in ${((read - began) / 1e3).toFixed(0)} s, run in ${((Date.now() - read) / 1e3).toFixed(0)} s; MiB more than before, at most: ${grown}; wasm of the worker ${after.workerWasm.toFixed(0)} MiB`);
      assert.equal(await page.error(), "");
      // Of 1 GiB, 2,097,152 rows: labels, ids and places of the rows, beside a budget of 256 MiB; of 64 MiB, a budget of 16.
      const [core, all] = IS_WHOLE ? [160, 400] : [64, 200];
      assert.ok(after.workerWasm - before.workerWasm < core, `the worker's core holds ${after.workerWasm} MiB, before ${before.workerWasm}`);
      assert.ok(most.renderer - before.renderer < all, `the renderer held ${most.renderer} MiB, before ${before.renderer}`);
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}, IS_WHOLE ? 1800 : 240);
