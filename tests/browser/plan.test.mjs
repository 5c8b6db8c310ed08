// Memory and time planned before there is any data: by sizes alone.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";

import { pages, test } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages();

const forecast = (page) => page.bare("forecast", "bytes");

/** What buffers are for that hold the triplets or pairs of a step. */
const OF_A_STEP = ["similarities", "ranks", "triplets"];

/** What `nearfar plan train` says that a run holds. */
function native(sizes, ...settings) {
  const cli = path.join(root, "target/debug/nearfar");
  const sets = settings.flatMap((set) => ["--set", set]);
  const text = execFileSync(cli, ["plan", "train", "--json", "--engine", "cpu", "--data", `sample:${sizes}`, ...sets], { stdio: ["ignore", "pipe", "ignore"] });
  return JSON.parse(text);
}

test("the link #plan needs no sizes", async () => {
  await on("?engine=cpu#plan&memory_size=4096", { ready: /^Planned/ }, async (page) => {
    await page.summary(/600\s000 rows of 128 features/);
    assert.equal(await page.error(), "");
    assert.match(page.page.url(), /#data=600000x128x1000&memory_size=4096$/);
  });
});

test("sizes alone give memory, time and PML's share, by a link, and nothing runs on them", async () => {
  await on("?engine=cpu#data=600000x128x1000&batch_size=64&memory_size=16384", { ready: /^Planned/ }, async (page) => {
    await page.status(/^Planned/);
    await page.summary(/600\s000 rows of 128 features; 1000 classes of 600 rows each/);
    await page.says("forecast", /of device memory, of the 256 MiB that you allow/);
    const bytes = await forecast(page);
    const own = native("600000x128x1000", "batch_size=64", "memory_size=16384");
    const planned = own.memory.buffers.reduce((sum, buffer) => sum + buffer.bytes, 0);
    assert.ok(Math.abs(bytes / planned - 1) < 0.05, `${bytes}, natively ${planned}`);
    // Past INT_MAX cells PML goes anchor by anchor: three indices of 8 bytes a triplet, and their copy, beside some that are small. 17 rows of
    // a class in 16,384.
    const pml = await page.bare("forecast-pml", "bytes");
    const lists = 2 * 24 * 64 * 17 * (16_384 - 17);
    assert.ok(pml >= lists && pml < 1.05 * lists, `${pml}, lists ${lists}`);
    // Like beside like, and the table itself.
    await page.says("forecast-pml", /^The triplets or pairs of one step take [\d.]+ MiB of it at most; PyTorch Metric Learning would hold about [\d.]+ MiB for them\.$/);
    await page.says("forecast-table", /^The table itself takes 293(\.\d)? MiB\. An NPY file stays where it is/);
    // Other sizes, other bytes, and the link follows.
    const enter = async (id, value) => {
      await page.page.locator(id).fill(value);
      await page.page.locator(id).blur();
    };
    const step = async () => Number((await page.text("forecast-pml")).match(/ take ([\d.]+) MiB of it/)[1]);
    const mined = ({ memory }) => memory.buffers.filter(({ label, purpose }) => OF_A_STEP.includes(purpose) && !label.startsWith("evaluate."));
    const nativeStep = (plan) => mined(plan).reduce((sum, { bytes }) => sum + bytes, 0) / 2 ** 20;
    assert.ok(Math.abs((await step()) - nativeStep(own)) < 0.06);
    await page.page.evaluate(() => {
      const forecast = document.querySelector("[data-testid=forecast]");
      window.told = [];
      new MutationObserver(() => window.told.push(forecast.textContent)).observe(forecast, { characterData: true, childList: true, subtree: true });
    });
    await enter("#imagined-0", "60000");
    await page.summary(/^60\s000 rows/);
    await page.says("forecast", /^This run will take/);
    // Until they are counted, no figure is told as one of the new sizes.
    assert.match((await page.page.evaluate(() => window.told))[0], /^The new sizes are being counted/);
    assert.ok(Math.abs((await step()) - nativeStep(native("60000x128x1000", "batch_size=64", "memory_size=16384"))) < 0.06, "evaluations are no part of a step");
    assert.match(page.page.url(), /data=60000x128x1000/);
    assert.match(page.page.url(), /memory_size=16384/);
    await page.page.waitForFunction((bytes) => Number(document.querySelector("[data-testid=forecast]").dataset.bytes) < bytes, bytes);
    await page.set("Memory rows", "0");
    await page.page.waitForFunction((pml) => Number(document.querySelector("[data-testid=forecast-pml]").dataset.bytes) < pml / 1000, pml);
    // What does not fit is refused by its numbers.
    await page.set("Budget, MiB", "1");
    await page.says("forecast", /This run cannot start/);
    await page.set("Budget, MiB", "256");
    // Nothing runs.
    await page.click("run");
    assert.match(await page.error(), /There are no rows yet, only their number/);
    assert.equal(await page.number("step-count"), 0);
    await enter("#imagined-0", "6000");
    await page.summary(/^6000 rows/);
    await enter("#imagined-2", "7000");
    await page.page.waitForFunction(() => /classes is 7000: 6000 rows have at most as many/.test(document.querySelector("[data-testid=error]").textContent));
    // Real data takes its place.
    await page.find("dataset-select").selectOption("mirrored");
    await page.status(/^Ready/);
    assert.ok(await page.page.locator("#imagined-1").isHidden());
  });
});

test("numbers that are entered faster than they are planned all count, and none is changed under the hand", async () => {
  await on("?engine=cpu#data=6000x128x1000", { ready: /^Planned/ }, async (page) => {
    // In one turn: no answer comes in between.
    await page.page.evaluate(() => {
      const [rows, features, classes] = [0, 1, 2].map((at) => document.getElementById(`imagined-${at}`));
      for (const [input, value] of [[rows, "900"], [features, "32"], [classes, "30"]]) {
        input.value = value;
        input.dispatchEvent(new Event("input", { bubbles: true }));
        input.dispatchEvent(new Event("change", { bubbles: true }));
      }
      rows.value = "12";
      rows.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.summary(/^900 rows of 32 features; 30 classes/);
    const inputs = page.page.locator("[id^=imagined-]");
    const shown = () => inputs.evaluateAll((inputs) => inputs.map(({ value }) => value));
    assert.deepEqual(await shown(), ["12", "32", "30"]);
    // What cannot be planned yet stays as it was entered, until the rest fits.
    await inputs.nth(0).fill("20");
    await page.page.keyboard.press("Tab");
    await page.page.waitForFunction(() => /classes is 30: 20 rows have at most as many/.test(document.querySelector("[data-testid=error]").textContent));
    assert.deepEqual(await shown(), ["20", "32", "30"]);
    await inputs.nth(2).fill("4");
    await page.page.keyboard.press("Tab");
    await page.summary(/^20 rows of 32 features; 4 classes/);
    assert.equal(await page.error(), "");
    // A link changes them all.
    await page.page.evaluate(() => { location.hash = "#data=7000x64x10"; });
    await page.summary(/^7000 rows of 64 features/);
    await page.page.waitForFunction(() => document.getElementById("imagined-0").value === "7000");
    assert.deepEqual(await shown(), ["7000", "64", "10"]);
  });
});

test("a traceback is answered by its tensor, and what was pasted stays in the page", async () => {
  await on("?engine=cpu#plan", { ready: /^Planned/ }, async (page) => {
    await page.page.locator("[data-testid=doctor] summary").click();
    const text = [
      "miner = TripletMarginMiner(0.2, type_of_triplets='semihard')",
      "loss = CrossBatchMemory(TripletMarginLoss(), 128, memory_size=10000, miner=miner)",
      "batch_size = 32",
      "RuntimeError: nonzero is not supported for tensors with more than INT_MAX elements",
    ].join("\n");
    await page.page.locator("#doctor-text").fill(text);
    await page.says("doctor-answer", /labels x references x references/);
    await page.says("doctor-answer", /32 x 10,000 x 10,000 x 1 byte/);
    await page.says("doctor-answer", /nearfar loss --embeddings/);
    assert.ok(!page.page.url().includes("INT_MAX"));
    // Nothing is guessed of a text that says nothing.
    await page.page.locator("#doctor-text").fill("My training crashed, CUDA out of memory.");
    await page.says("doctor-answer", /names no tensor/);
  });
});
