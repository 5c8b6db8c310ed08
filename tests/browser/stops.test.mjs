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

/** Presses a button three times in one turn of the page, and gives the milliseconds until the status says so. */
const thrice = (page, id, rests) => page.page.evaluate(([id, rests]) => new Promise((resolve, reject) => {
  const [button, status] = [id, "status"].map((id) => document.querySelector(`[data-testid=${id}]`));
  const look = () => new RegExp(rests).test(status.textContent);
  let started;
  const end = (answer) => {
    clearInterval(timer);
    answer();
  };
  // A status that is the same before and after is one as soon as the answer is there: a look each 10 ms sees either.
  const timer = setInterval(() => {
    const ms = performance.now() - started;
    if (look()) end(() => resolve(ms));
    else if (ms > 20_000) end(() => reject(new Error(`${id}: after 20 s the page says ${status.textContent}`)));
  }, 10);
  for (let i = 0; i < 3; i += 1) button.click();
  started = performance.now();
}), [id, rests.source]);

/** Waits until the status says so, or until something else holds, without a turn of the harness between that and what is done then. */
const when = (page, holds) => page.page.waitForFunction(holds, null, { polling: 10 });

test("three clicks on what stops it end any work within two seconds, and everything can be done again", async () => {
  const rows = Array.from({ length: 60_000 }, (_, i) => `${(i * 7919) % 1009},${(i * 104_729) % 997},${i % 50},c${i % 400}`);
  const file = await written("long.csv", ["a,b,c,label", ...rows].join("\n"));
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
      for (const [what, holds] of [
        ["the start", () => true],
        ["the first scores", () => /^Training/.test(document.querySelector("[data-testid=status]").textContent)],
        ["the first step", () => Number(document.querySelector("[data-testid=step-count]").textContent) > 0],
        ["steps", () => Number(document.querySelector("[data-testid=step-count]").textContent) > 15],
        ["the last scores", () => /^All steps/.test(document.querySelector("[data-testid=status]").textContent)],
      ]) {
        await page.set("Steps", what === "the last scores" ? "60" : "4000");
        await page.click("reset");
        await page.status(/^Ready/);
        await page.click("run");
        await when(page, holds);
        stopped(`reset in ${what}`, await thrice(page, "reset", /^Ready/));
        await page.click("undo");
        await page.status(/^(Ready|Paused|Done)/);
      }
      // Pause does nothing where nothing can wait, and never ends a run.
      await page.set("Steps", "4000");
      await page.click("reset");
      await page.click("run");
      await when(page, () => Number(document.querySelector("[data-testid=step-count]").textContent) > 0);
      stopped("pause in steps", await thrice(page, "pause", /^Paused/));
      await page.page.locator("body").click();
      // Space goes on, waits, and goes on.
      for (let i = 0; i < 3; i += 1) await page.page.keyboard.press("Space");
      await page.status(/^Training/);
      // What is asked of the run in between is stopped by the same button: begun, stopped, stopped.
      stopped("every row scored", await thrice(page, "evaluate-all", /^Training/));
      await page.click("reset");
      await page.set("Steps", "60");
      await page.click("run");
      assert.deepEqual(await ended(page), expected, "after all of it");
      stopped("every row scored after a run", await thrice(page, "evaluate-all", /^Done/));
      await thrice(page, "find-threshold", /^Done/);
      await page.says("find-threshold", /^(Find|Another)/);
    });
  }
});
