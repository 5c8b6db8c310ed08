// The demo of the command line, on a software GPU and on the CPU: what it shows, and that it is what the command line gives.
import assert from "node:assert/strict";

import { PLOTS, memoryIsWithinBudget, native, pages, test, why } from "./playing.mjs";

const on = pages();

test("many classes train on a GPU", async () => {
  await on("?engine=gpu#data=mirrored&steps=400", {}, async (page) => {
    assert.match(await why(page), /webgpu; buffers up to \d/);
    await page.click("run");
    await page.page.waitForFunction(() => {
      const number = (id) => Number(document.querySelector(`[data-testid="${id}"]`).textContent);
      return number("precision-at-1") - number("baseline-precision-at-1") >= 0.3;
    }, null, { timeout: 240_000 });
    await page.tab("Memory");
    for (const plot of PLOTS) assert.ok((await page.drawn(plot)) > 100, `${plot} has drawn data`);
    await memoryIsWithinBudget(page);
    await page.status(/^Done/);
    const [withMemory, raw] = [await page.number("precision-at-1"), await page.number("baseline-precision-at-1")];
    assert.ok(withMemory >= 0.7, `${withMemory} with memory`);
    assert.ok(raw > 0.2 && raw < 0.35, `${raw} raw`);
    const linear = await page.number("baseline-linear-precision-at-1");
    const { test: expected } = native("mirrored", "steps=1").baseline.linear;
    assert.equal(linear.toFixed(2), expected.precision_at_1.toFixed(2), "the linear map is the command line's");
    const said = await page.find("why").textContent();
    const numbers = said.match(/^Keep this head\. On rows of classes it never saw, the nearest row is right for (0\.\d+) \(precision@1\): raw features (0\.\d+).*? a linear map \(LDA, \d+ outputs(?: and a constant)?, shrinkage \d\.\d+\) (0\.\d+)/);
    assert.ok(numbers, said);
    assert.deepEqual(numbers.slice(1).map((number) => Number(number).toFixed(2)), [withMemory, raw, linear].map((number) => number.toFixed(2)), "the numbers of the bars");
    assert.ok(withMemory - linear >= 0.1, `${linear} linear`);
    const [valid, mined, active] = await Promise.all(["mining-valid", "mining-mined", "mining-active"].map((id) => page.bare(id, "count")));
    assert.ok(valid > mined && mined >= active && active > 0, `${valid} > ${mined} >= ${active} > 0`);
    await page.screenshot("demo-light");
  });
}, 600);

test("the CPU engine gives the same picture, in the dark", async () => {
  await on("?engine=cpu#data=mirrored", { colorScheme: "dark" }, async (page) => {
    assert.equal(await page.text("device"), "Runs on the CPU.");
    await page.page.keyboard.press("Space");
    await page.status(/^Done/);
    assert.ok((await page.number("precision-at-1")) >= 0.85);
    await page.tab("Memory");
    for (const plot of PLOTS) assert.ok((await page.drawn(plot)) > 100, `${plot} has drawn data`);
    await memoryIsWithinBudget(page);
    await page.screenshot("demo-dark");
  });
});

test("the first twenty losses are those of the command line, on both engines", async () => {
  const expected = native("many-classes", "steps=20").history.map((step) => step.loss);
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#data=many-classes&steps=20`, {}, async (page) => {
      for (let step = 1; step <= 20; step += 1) {
        await page.click("step");
        await page.page.waitForFunction((n) => document.querySelector("[data-testid=step-count]").textContent === String(n), step);
        const loss = await page.number("loss");
        assert.ok(Math.abs(loss - expected[step - 1]) < 1e-4, `${engine}, step ${step}: ${loss}, expected ${expected[step - 1]}`);
      }
    });
  }
});
