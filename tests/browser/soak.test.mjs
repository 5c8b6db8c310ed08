// Hours of work in a tab. NEARFAR_SOAK_MINUTES=8 trains for a quarter of the time on each engine and does all there is to do, in turn,
// for half of it: what the page's process holds is printed each minute. Without it each thing is done once, and nothing is asked of memory.
import assert from "node:assert/strict";

import { pages, test } from "./playing.mjs";
import { heaps, keeping, processes, slope } from "./memory.mjs";

const MINUTES = Number(process.env.NEARFAR_SOAK_MINUTES ?? 0);
// Of the first minute nothing is asked.
const SKIP = Math.min(1, MINUTES / 8);
const MOST_MIB_A_MINUTE = 1;
// A round of everything leaves a quarter of a MiB with the browser, of what neither script nor core holds: docs/reliability.md, 26.
const MOST_MIB_A_ROUND = 0.5;

const on = pages({ gc: true }, { instead: async (name, read) => (name === "worker.js" ? keeping + (await read(name)) : undefined) });

const step = async (page) => Number((await page.text("step-count")).replace(/\D/g, ""));

/** Does something again and again for so long, and tells what is held meanwhile; it must not grow, or `each` time by so many MiB at most. */
async function soaked(page, what, minutes, work, each) {
  const browser = page.page.context().browser();
  const began = Date.now();
  const points = [];
  let told = 0;
  let done = 0;
  for (;;) {
    done = await work();
    const passed = (Date.now() - began) / 60_000;
    if (passed >= minutes) break;
    const { script, pageWasm, workerWasm } = await heaps(page);
    const held = await processes(browser);
    points.push([passed, held.renderer, held.gpu, done, pageWasm + workerWasm]);
    if (passed >= told) {
      told += Math.min(1, minutes / 4);
      console.log(`# ${what}: ${passed.toFixed(1)} min, ${done} done: renderer ${held.renderer.toFixed(1)} MiB (script ${script.toFixed(1)}, wasm of the page ${pageWasm.toFixed(1)}, of the worker ${workerWasm.toFixed(1)}), GPU process ${held.gpu.toFixed(1)} MiB`);
    }
  }
  const later = points.filter(([passed]) => passed > SKIP);
  if (later.length < 2) return;
  const grows = slope(later);
  const growsEach = slope(later.map(([, renderer, , done]) => [done, renderer]));
  console.log(`# ${what}: renderer ${grows.toFixed(3)} MiB a minute, ${(growsEach * 2 ** 20).toFixed(1)} bytes each; GPU process ${slope(later.map(([passed, , gpu]) => [passed, gpu])).toFixed(3)} MiB a minute`);
  if (each === undefined) assert.ok(grows < MOST_MIB_A_MINUTE, `${what}: ${grows} MiB a minute`);
  else assert.ok(growsEach < each, `${what}: ${growsEach} MiB each time`);
}

for (const engine of MINUTES > 0 ? ["cpu", "gpu"] : []) {
  test(`training in a tab on the ${engine} holds what it held`, async () => {
    await on(`?engine=${engine}#data=digits&steps=10000000`, { init: keeping }, async (page) => {
      await page.click("run");
      await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 0, null, { timeout: 120_000 });
      await soaked(page, `training, ${engine}`, MINUTES / 4, async () => {
        await page.page.waitForTimeout(MINUTES > 0 ? 5000 : 0);
        return step(page);
      });
      await page.click("pause");
      await page.status(/^Paused/);
    });
  }, 240 + 60 * MINUTES);
}

test("all that there is to do in a tab, again and again, leaves nothing behind", async () => {
  await on("?engine=cpu#data=mirrored&steps=100&hidden_layers=[32]&batch_size=16&memory_size=256&evaluate_every=25", { init: keeping }, async (page) => {
    let rounds = 0;
    const round = async () => {
      rounds += 1;
      // Settings change with each, and a few of them come again.
      await page.set("Memory rows", String(256 + 64 * (rounds % 4)));
      await page.click("run");
      await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 0);
      await page.page.keyboard.press("Space");
      // It waits, or its steps were done before; both may be so.
      do {
        await page.status(/^(Paused|Done)/);
        if (/^Paused/.test(await page.text("status"))) await page.click("run");
      } while (!/^Done/.test(await page.text("status")));
      await page.click("evaluate-all");
      await page.find("evaluation").locator("table").waitFor();
      await page.status(/^Done/);
      await page.click("find-threshold");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=threshold-sentence]").dataset.threshold !== undefined);
      // Few rows are placed in a moment: the caption that counts epochs may be gone before anybody looks.
      await page.page.evaluate(() => {
        const caption = document.querySelector("[data-testid=map-caption]");
        const look = () => { window.placing ||= /epoch/.test(caption.textContent); };
        window.placing = false;
        if (window.watching) return;
        window.watching = new MutationObserver(look);
        window.watching.observe(caption, { childList: true, characterData: true, subtree: true });
      });
      await page.find("map-by").selectOption("umap");
      await page.page.waitForFunction(() => window.placing);
      await page.find("map-by").selectOption("pca");
      await page.click("take-home");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
      await page.page.keyboard.press("Escape");
      await page.click("view-compare");
      await page.says("compare-forecast", /runs? one after the other/);
      await page.click("compare-start");
      await page.says("compare-progress", /\d+ of \d+ runs done/);
      await page.click("compare-start");
      await page.says("compare-verdict", /^Stopped/);
      await page.click("view-run");
      // Other data, and back: what is fetched, whoever watches the network would keep.
      for (const sample of ["many-classes", "mirrored"]) {
        const before = await page.text("dataset-summary");
        await page.find("dataset-select").selectOption(sample);
        await page.page.waitForFunction((before) => document.querySelector("[data-testid=dataset-summary]").textContent !== before, before);
        await page.status(/^Ready/);
      }
      // What is kept grows by a run with each round, on the disk: old ones go.
      await page.click("view-runs");
      while ((await page.find("delete-run").count()) > 2) {
        const count = await page.find("delete-run").count();
        await page.find("delete-run").last().click();
        await page.find("delete-run").last().click();
        await page.page.waitForFunction((count) => document.querySelectorAll("[data-testid=delete-run]").length < count, count);
      }
      await page.click("view-run");
      assert.equal(await page.error(), "");
      return rounds;
    };
    await soaked(page, "all in turn", MINUTES / 2, round, MOST_MIB_A_ROUND);
  });
}, 240 + 60 * MINUTES);
