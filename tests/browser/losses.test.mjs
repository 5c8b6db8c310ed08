// A device that is lost, and a GPU process that ends, cost no result: the run goes on from where it was saved, on another device, or on
// the CPU where the browser gives none any more.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";

import { pages, test } from "./playing.mjs";
import { ended, leaving, random, save } from "./saving.mjs";
import { root } from "./support.mjs";

// A browser each: one that has taken enough ends of its GPU process gives none from the start.
const [on, afresh] = [pages(), pages()];
const RUN = "data=digits&steps=40&evaluate_every=5&hidden_layers=[16]&batch_size=16&memory_size=64&evaluate_queries=50";
// On a software GPU each loss costs the kernels that are compiled anew: ten more with NEARFAR_LOSSES=10.
const LOSSES = Number(process.env.NEARFAR_LOSSES ?? 0);

/**
 * Runs before the worker: its device is lost after so many more submits, and its clock goes on then. A run goes on by itself once in a
 * minute; else the clock is slow, so that no minute passes by itself, and work is cut as for a faster GPU.
 */
const losing = `
const now = performance.now.bind(performance);
let [opened, left, late, passes] = [null, Infinity, 0, 0];
performance.now = () => now() / 20 + late;
const ask = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...how) {
  return (opened = await ask.apply(this, how));
};
const submit = GPUQueue.prototype.submit;
GPUQueue.prototype.submit = function (...parts) {
  // One that carries nothing makes a browser look at what is done.
  if (parts[0].length === 0) return submit.apply(this, parts);
  if (left-- <= 0) {
    left = Infinity;
    late += passes;
    self.lost += 1;
    opened.destroy();
  }
  self.submits += 1;
  return submit.apply(this, parts);
};
[self.lost, self.submits] = [0, 0];
self.lose = (after, ms) => { [left, passes] = [after, ms]; };
self.pass = (ms) => { late += ms; };
`;

/** Opens the page in a browser with these before its worker. */
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

// What plays the GPU here does not say so: the page takes it unasked, and the browser has kept which shape of tiles suits it.
const hardware = `
Object.defineProperty(GPUAdapterInfo.prototype, "isFallbackAdapter", { get: () => false });
`;
const [, version] = /^version = "(.+)"$/m.exec(readFileSync(path.join(root, "Cargo.toml"), "utf8"));
const tuned = `localStorage.setItem("nearfar.shape /nearfar/", "strip; WebGPU adapter; webgpu; ; ${version}");`;

test("devices that are lost and GPU processes that end cost a run nothing, and at last it goes on on the CPU", async () => {
  await before(on, [losing, hardware], "", async (page) => {
    const [worker] = page.page.workers();
    assert.match(await page.text("device"), /^Runs on your GPU/);
    await stepped(page);
    const first = await worker.evaluate(() => self.submits);
    await page.click("run");
    const expected = await ended(page);
    const precision = await page.number("precision-at-1");
    const submits = (await worker.evaluate(() => self.submits)) - first;
    const chance = random(11);

    /** Goes on from a saved step, and loses the device after so many more submits; says whether the page asked before it went on. */
    const lost = async (after, ms) => {
      await stepped(page);
      await worker.evaluate(([after, ms]) => self.lose(after, ms), [after, ms]);
      await page.click("run");
      const asked = await toTheEnd(page);
      assert.deepEqual(await ended(page), expected, `lost after ${after} of ${submits} submits`);
      return asked;
    };
    const at = [];
    for (let i = 0; i < LOSSES; i += 1) {
      const after = Math.floor((submits * (i + chance())) / LOSSES);
      at.push(`${after}${(await lost(after, 61_000)) ? " (asked)" : ""}`);
    }
    if (LOSSES > 0) console.log(`# lost after ${at.join(", ")} of ${submits} submits`);
    const session = await page.page.context().browser().newBrowserCDPSession();
    const crash = async () => {
      await worker.evaluate(() => self.pass(61_000));
      await stepped(page);
      await page.click("run");
      await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 5);
      await session.send("Browser.crashGpuProcess");
      assert.equal(await toTheEnd(page), false, "it goes on by itself");
    };
    await crash();
    assert.deepEqual(await ended(page), expected);
    await page.says("notice", /^the device was lost .*\. The run goes on from where it was saved last\.$/);
    assert.match(await page.text("device"), /^Runs on your GPU/);
    // What ends a device may end the next: where the last loss was a moment ago, the page asks.
    assert.ok(await lost(Math.floor(submits / 2), 0));
    assert.equal(await worker.evaluate(() => self.lost), LOSSES + 1);
    // After so many ends of its GPU process this browser gives no page a GPU; those of some minutes ago it forgives.
    for (let ends = 0; ends < 4 && /^Runs on your GPU/.test(await page.text("device")); ends += 1) await crash();
    await page.says("notice", /the run began on gpu .* and goes on on cpu .*: its numbers may differ in their last bits/);
    assert.equal(await page.text("device"), "Runs on the CPU.");
    assert.equal(await page.text("step-count"), "40");
    assert.ok(Math.abs((await page.number("precision-at-1")) - precision) < 0.02);
    // So does the next run.
    await page.click("run");
    await ended(page);
    assert.equal(await page.error(), "");
  });
}, 720 + 60 * LOSSES);

test("where the link asks for a GPU and the browser gives none any more, one click goes on on the CPU", async () => {
  await before(afresh, [losing], "?engine=gpu", async (page) => {
    const session = await page.page.context().browser().newBrowserCDPSession();
    // How many ends of its GPU process this browser takes depends on how many there were.
    const gives = async () => !(await page.find("go-to-cpu").isVisible());
    for (let ends = 0; ends < 4 && (await gives()); ends += 1) {
      await page.page.workers()[0].evaluate(() => self.pass(61_000));
      await stepped(page);
      await page.click("run");
      await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 5);
      await session.send("Browser.crashGpuProcess");
      await page.page.waitForFunction(() => {
        const [button, status] = ["go-to-cpu", "status"].map((id) => document.querySelector(`[data-testid=${id}]`));
        return button.checkVisibility() || /^Done/.test(status.textContent);
      }, null, { timeout: 200_000 });
    }
    await page.click("go-to-cpu");
    await page.page.waitForURL(/engine=cpu/);
    await page.click("go-on");
    await ended(page);
    // The page was loaded again, with all of its files.
    page.requests.length = 0;
    assert.equal(await page.text("device"), "Runs on the CPU.");
    assert.equal(await page.text("step-count"), "40");
    assert.equal(await page.error(), "");
  });
}, 600);
