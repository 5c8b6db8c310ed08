// A device that is lost, and a GPU process that ends, cost no result: the run goes on from where it was saved, on another device, or on
// the CPU where the browser gives none any more.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";

import { pages, test } from "./playing.mjs";
import { ended, leaving, random, save } from "./saving.mjs";
import { root } from "./support.mjs";

// What a browser whose GPU process ended gives its pages, it gives to all of them: it has no other test.
const [on, crashing] = [pages(), pages()];
const RUN = "data=digits&steps=40&evaluate_every=5&hidden_layers=[16]&batch_size=16&memory_size=64&evaluate_queries=50";
// On a software GPU each loss costs the kernels that are compiled anew: ten with NEARFAR_LOSSES=10.
const LOSSES = Number(process.env.NEARFAR_LOSSES ?? 2);

/**
 * Runs before the worker: its device is lost after so many more submits, and its clock goes on by a minute then. A run goes on by itself
 * once in a minute.
 */
const losing = `
const now = performance.now.bind(performance);
let [opened, left, late] = [null, Infinity, 0];
performance.now = () => now() + late;
const ask = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...how) {
  return (opened = await ask.apply(this, how));
};
const submit = GPUQueue.prototype.submit;
GPUQueue.prototype.submit = function (...parts) {
  if (left-- <= 0) {
    left = Infinity;
    late += 61_000;
    self.lost += 1;
    opened.destroy();
  }
  self.submits += 1;
  return submit.apply(this, parts);
};
[self.lost, self.submits] = [0, 0];
self.lose = (after) => { left = after; };
self.pass = (ms) => { late += ms; };
`;

/** Opens the page with these before its worker. */
async function before(on, scripts, where, check) {
  const worker = await readFile(path.join(root, "dist/worker.js"), "utf8");
  const route = (route) => route.fulfill({ body: `${scripts.join("\n")}\n${worker}`, contentType: "text/javascript" });
  const prepare = async (page) => {
    await leaving.prepare(page);
    await page.route("**/worker.js*", route);
  };
  await on(`${where}#${RUN}`, { init: `${leaving.init};${tuned}`, prepare }, check);
}

/** Takes a step, and has the run saved. */
async function stepped(page) {
  await page.click("step");
  await page.status(/^Paused/);
  await save(page);
}

/** Waits for the end of the run; where the page asks whether it is to go on, it is. Says whether it asked. */
async function toTheEnd(page) {
  for (let asked = false; ; asked = true) {
    await page.page.waitForFunction(() => {
      const offer = document.querySelector("[data-testid=go-on]");
      return offer?.checkVisibility() || /^Done/.test(document.querySelector("[data-testid=status]").textContent);
    }, null, { timeout: 200_000 });
    if (/^Done/.test(await page.text("status"))) return asked;
    assert.match(await page.error(), /\. Press Run to start again\.$/);
    await page.click("go-on");
  }
}

test("a run that loses its device at any moment ends as one that lost none", async () => {
  await before(on, [losing], "?engine=gpu", async (page) => {
    const [worker] = page.page.workers();
    await stepped(page);
    const first = await worker.evaluate(() => self.submits);
    await page.click("run");
    const expected = await ended(page);
    const submits = (await worker.evaluate(() => self.submits)) - first;
    const chance = random(11);
    const at = [];
    while (at.length < LOSSES) {
      await stepped(page);
      const after = Math.floor((submits * (at.length + chance())) / LOSSES);
      await worker.evaluate((after) => self.lose(after), after);
      await page.click("run");
      const asked = await toTheEnd(page);
      at.push(`${after}${asked ? " (asked)" : ""}`);
      assert.deepEqual(await ended(page), expected, `lost after ${after} of ${submits} submits`);
    }
    assert.equal(await worker.evaluate(() => self.lost), LOSSES);
    console.log(`# lost after ${at.join(", ")} of ${submits} submits`);
  });
}, 240 + 60 * LOSSES);

// What plays the GPU here does not say so: the page takes it unasked, and the browser has kept which shape of tiles suits it.
const hardware = `
Object.defineProperty(GPUAdapterInfo.prototype, "isFallbackAdapter", { get: () => false });
`;
const [, version] = /^version = "(.+)"$/m.exec(readFileSync(path.join(root, "Cargo.toml"), "utf8"));
const tuned = `localStorage.setItem("nearfar.shape /nearfar/", "strip; WebGPU adapter; webgpu; ; ${version}");`;

test("where the browser's GPU process ends the run goes on by itself, and where it ends once more, on the CPU", async () => {
  await before(crashing, [losing, hardware], "", async (page) => {
    const [worker] = page.page.workers();
    const session = await page.page.context().browser().newBrowserCDPSession();
    const crash = async () => {
      await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 5);
      await session.send("Browser.crashGpuProcess");
    };
    assert.match(await page.text("device"), /^Runs on your GPU/);
    await page.click("run");
    const expected = await ended(page);
    const precision = await page.number("precision-at-1");
    await stepped(page);
    await page.click("run");
    await crash();
    assert.equal(await toTheEnd(page), false);
    assert.deepEqual(await ended(page), expected);
    await page.says("notice", /^the device was lost .*\. The run goes on from where it was saved last\.$/);
    assert.match(await page.text("device"), /^Runs on your GPU/);
    // From here on this browser gives no page a GPU.
    await worker.evaluate(() => self.pass(61_000));
    await stepped(page);
    await page.click("run");
    await crash();
    assert.equal(await toTheEnd(page), false);
    await page.says("notice", /the run began on gpu .* and goes on on cpu .*: its numbers may differ in their last bits/);
    assert.equal(await page.text("device"), "Runs on the CPU.");
    assert.equal(await page.text("step-count"), "40");
    assert.ok(Math.abs((await page.number("precision-at-1")) - precision) < 0.02);
    // So does the next run.
    await page.click("run");
    await ended(page);
    assert.equal(await page.error(), "");
  });
});
