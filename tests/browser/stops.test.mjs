// Work stops when it is asked to, however often it is asked: three clicks at once, in each phase, and the page can do everything again.
import assert from "node:assert/strict";

import { pages, test, written } from "./playing.mjs";
import { ended, leaving } from "./saving.mjs";

const on = pages();
// Both engines with NEARFAR_STOPS=gpu: on a software GPU a run is slow to start.
const ENGINES = ["cpu", ...(process.env.NEARFAR_STOPS === "gpu" ? ["gpu"] : [])];
const RUN = "data=digits&steps=60&evaluate_every=20&hidden_layers=[32]&batch_size=16&memory_size=256&evaluate_queries=100";
// From the third click until the page rests. Slices of work are 50 ms; the rest is a machine with other work.
const MOST_MS = 2000;

/**
 * Presses a button three times in one turn of the page, as soon as what is there is as it should be, and gives the milliseconds until
 * the status says so.
 */
const thrice = (page, id, rests, begins = {}) => page.page.evaluate(([id, rests, { run, status: shown = "", step = 0 }]) => new Promise((resolve, reject) => {
  const [button, status, count, start] = [id, "status", "step-count", "run"].map((id) => document.querySelector(`[data-testid=${id}]`));
  const fail = (why) => reject(new Error(`${id}: ${why} and the page says ${status.textContent}`));
  const late = setTimeout(() => fail("after 20 s it was not there to press"), 20_000);
  const press = () => {
    observer.disconnect();
    clearTimeout(late);
    for (let i = 0; i < 3; i += 1) button.click();
    const started = performance.now();
    // What stays the same is so once the answer is there: a look each 10 ms sees either.
    const timer = setInterval(() => {
      const ms = performance.now() - started;
      const rest = new RegExp(rests).test(status.textContent);
      if (!rest && ms < 20_000) return;
      clearInterval(timer);
      if (rest) resolve(ms);
      else fail("20 s later it goes on");
    }, 10);
  };
  const look = () => {
    if (new RegExp(shown).test(status.textContent) && Number(count.textContent) >= step) press();
  };
  const observer = new MutationObserver(look);
  observer.observe(document.body, { childList: true, characterData: true, subtree: true });
  if (run) start.click();
  else look();
}), [id, rests.source, begins]);

test("three clicks on what stops it end any work within two seconds, and everything can be done again", async () => {
  const row = (value, label) => `${value.repeat(40)}${label}\n`;
  const rows = [row("1.25,", "a"), row("2.5,", "b"), row("2.5,", "a"), row("1.25,", "b")].join("").repeat(75_000);
  const file = await written("long.csv", `${Array.from({ length: 40 }, (_, i) => `f${i}`).join()},label\n${rows}`);
  for (const engine of ENGINES) {
    await on(`?engine=${engine}#${RUN}`, leaving, async (page) => {
      await page.click("run");
      const expected = await ended(page);
      const said = [];
      const stopped = (what, ms) => {
        said.push(`${what} ${ms.toFixed(0)} ms`);
        assert.ok(ms < MOST_MS, `${engine}: ${what} went on for ${ms} ms`);
      };
      // A start, its first scores, steps, scores between steps: wherever the clicks fall.
      for (const [what, steps, begins] of [
        ["the start", "4000", { status: "^Starting" }],
        ["the first scores", "4000", { status: "^Training" }],
        ["steps", "4000", { status: "^Training", step: 15 }],
        ["the last scores", "60", { status: "^All steps" }],
      ]) {
        await page.set("Steps", steps);
        stopped(`reset in ${what}`, await thrice(page, "reset", /^Ready/, { run: true, ...begins }));
      }
      // Pause does nothing where nothing can wait, and never ends a run.
      await page.set("Steps", "4000");
      stopped("pause in steps", await thrice(page, "pause", /^Paused/, { run: true, status: "^Training", step: 15 }));
      // Space goes on, or lets it wait: three are taken by what the page knows at each of them.
      await page.find("status").click();
      for (let i = 0; i < 3; i += 1) await page.page.keyboard.press("Space");
      await page.page.waitForTimeout(500);
      if (/^Paused/.test(await page.text("status"))) await page.click("run");
      await page.status(/^Training/);
      // What is asked of the run in between is stopped by the same button: begun, stopped, stopped.
      stopped("every row scored", await thrice(page, "evaluate-all", /^Training/));
      await page.click("reset");
      await page.set("Steps", "60");
      await page.click("run");
      assert.deepEqual(await ended(page), expected, "after all of it");
      stopped("reset after a run", await thrice(page, "reset", /^Ready/));
      await page.click("undo");
      await page.status(/^Done/);
      stopped("every row scored after a run", await thrice(page, "evaluate-all", /^Done/));
      await thrice(page, "find-threshold", /^Done/);
      await page.page.waitForFunction(() => document.querySelector("[data-testid=find-threshold]").textContent === "Find a threshold");
      const turned = (...by) => page.find("map-by").evaluate((menu, by) => {
        for (const way of by) {
          menu.value = way;
          menu.dispatchEvent(new Event("change", { bubbles: true }));
        }
      }, by);
      await turned("umap", "pca", "umap");
      await page.says("map-caption", /epoch/);
      await turned("pca", "umap", "pca");
      await page.says("map-caption", /^899 test rows$/);
      await page.click("view-compare");
      await page.says("compare-forecast", /runs? one after the other/);
      stopped("a comparison", await thrice(page, "compare-start", /^Ready/));
      await page.says("compare-verdict", /^Stopped: 0 of/);
      await page.click("view-run");
      // A file that is read: the data stays.
      await page.upload(file);
      await page.says("stop-reading", /Stop reading/);
      stopped("reading", await thrice(page, "stop-reading", /^Ready/));
      await page.summary(/^1.?797 rows/);
      assert.equal(await page.error(), "");
      await page.click("run");
      assert.deepEqual(await ended(page), expected, "once more");
      console.log(`# ${engine}: ${said.join(", ")}`);
    });
  }
});

test("three clicks on Reset are one to undo", async () => {
  await on(`?engine=cpu#${RUN}`, leaving, async (page) => {
    await page.click("run");
    await ended(page);
    const shown = async () => [await page.text("step-count"), await page.text("loss"), await page.text("verdict")];
    const before = await shown();
    await thrice(page, "reset", /^Ready/);
    await page.click("undo");
    await page.status(/^Done/);
    assert.deepEqual(await shown(), before);
  });
});
