// A worker that traps, as a core does that meets what it did not expect, takes nothing with it but the steps since its run was saved.
import assert from "node:assert/strict";

import { pages, test } from "./playing.mjs";
import { ended, hide, leaving, save } from "./saving.mjs";

/**
 * What a worker runs before it is the page's: it runs into `unreachable` where it is told to. The core does so itself, in the middle of
 * what it does: it has just asked for the time.
 */
const trapping = `
const code = [0,97,115,109,1,0,0,0,1,4,1,96,0,0,3,2,1,0,7,5,1,1,116,0,0,10,5,1,3,0,0,11];
const { t: trap } = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(code))).exports;
const [now, today] = [performance.now.bind(performance), Date.now];
// After so many more looks at the clock.
let looks = Infinity;
self.looked = 0;
self.trap = (after) => { looks = after; };
performance.now = () => {
  self.looked += 1;
  if (looks-- <= 0) trap();
  return now();
};
// A save asks for the day before it writes.
self.trapInSave = () => { Date.now = () => { trap(); return today(); }; };
self.tearSave = () => {
  const { write } = FileSystemSyncAccessHandle.prototype;
  FileSystemSyncAccessHandle.prototype.write = function (bytes, how) {
    looks = 0;
    return write.call(this, bytes.subarray(0, bytes.length / 2), how);
  };
};
`;

const on = pages({}, { instead: async (name, read) => (name === "worker.js" ? trapping + (await read(name)) : undefined) });
const RUN = "?engine=cpu#data=digits&steps=240&evaluate_every=40&hidden_layers=[32]&batch_size=16&memory_size=256&evaluate_queries=100";

// Moments of a run, evenly: 60 with NEARFAR_TRAPS=60.
const MOMENTS = Number(process.env.NEARFAR_TRAPS ?? 6);

const worker = (page) => page.page.workers().at(-1);

/** Waits for the page to say that its worker trapped. */
async function trapped(page) {
  await page.status(/^The computing stopped/);
  assert.match(await page.error(), /^The worker, which does the computing, stopped unexpectedly \(.*unreachable\): press Run or choose data to start a new one\.$/);
}

/** Takes one step, the first of a run or its next one: the run waits after it. */
async function step(page, number) {
  await page.click("step");
  await page.status(new RegExp(`^Paused at step ${number} `));
}

/** Goes on where the run was saved, or starts it again where nothing was saved yet; says which. */
async function goOn(page) {
  const offered = await page.find("saved-run").isVisible();
  await page.click(offered ? "go-on" : "run");
  return offered;
}

/** What a person sees of a page that is whole: nothing is wrong, and the run is over. */
async function isWhole(page, expected) {
  assert.deepEqual(await ended(page), expected);
  assert.equal(await page.error(), "");
  assert.ok(await page.find("saved-run").isHidden(), "a run that is over is offered to nobody");
  assert.equal(page.page.workers().length, 1, "the worker that trapped is gone");
  // The new worker asks for its own files.
  assert.ok(page.requests.every((url) => url.startsWith(new URL(page.page.url()).origin)));
  page.requests.length = 0;
}

test("a worker that traps at any moment of a run is followed by one that goes on where it was saved, to the same end", async () => {
  await on(RUN, leaving, async (page) => {
    await worker(page).evaluate(() => { self.looked = 0; });
    await page.click("run");
    const expected = await ended(page);
    const looked = await worker(page).evaluate(() => self.looked);
    const gone = [];
    // Some fall into a step, some into what is scored and drawn between steps, the last into what comes after them.
    for (let moment = 1; moment <= MOMENTS; moment += 1) {
      // Every other run was saved before, after its first step.
      if (moment % 2 === 0) {
        await step(page, 1);
        await save(page);
      }
      const looks = Math.floor((looked * moment) / (MOMENTS + 1));
      await worker(page).evaluate((looks) => self.trap(looks), looks);
      await page.click("run");
      await page.status(/^(The computing stopped|Done)/);
      if (/^Done/.test(await page.text("status"))) {
        // How often it looks at the clock depends on how fast it is.
        await worker(page).evaluate(() => self.trap(Infinity));
        continue;
      }
      await trapped(page);
      gone.push(`${await page.number("step-count")}${(await goOn(page)) ? " saved" : ""}`);
      await isWhole(page, expected);
    }
    console.log(`# trapped after steps ${gone.join(", ")}`);
    assert.ok(gone.length > MOMENTS / 2 && gone.some((step) => step.endsWith("saved")));
  });
});

test("a worker that traps while it saves leaves the save before", async () => {
  await on(RUN, leaving, async (page) => {
    await page.click("run");
    const expected = await ended(page);
    for (const how of ["trapInSave", "tearSave"]) {
      await step(page, 1);
      await save(page);
      await step(page, 2);
      await worker(page).evaluate((how) => self[how](), how);
      await page.page.evaluate(hide);
      // What it wrote half of it takes for written, until it goes on.
      if (how === "tearSave") await page.click("run");
      await trapped(page);
      await page.says("saved-run", /^Go on from step 1 of 240 of Handwritten digits\?/);
      await page.click("go-on");
      await isWhole(page, expected);
    }
  });
});

test("a worker that traps in what comes after a run takes nothing of the run with it", async () => {
  await on(RUN, leaving, async (page) => {
    await page.click("run");
    await ended(page);
    // UMAP at the end of each run would be what traps.
    await page.placed();
    await page.find("map-by").selectOption("pca");
    const expected = await ended(page);
    for (const [what, act] of [
      ["every row scored", () => page.click("evaluate-all")],
      ["the threshold", () => page.click("find-threshold")],
      ["the map", () => page.find("map-by").selectOption("umap")],
      ["what is taken home", () => page.click("take-home")],
      ["other data", () => page.find("dataset-select").selectOption("mirrored")],
      // Of a worker that had no time to look at an empty engine before it went on with the run.
      ["a comparison", async () => {
        await page.click("view-compare");
        await page.says("compare-forecast", /runs? one after the other/);
        await page.click("compare-start");
      }],
    ]) {
      await worker(page).evaluate((looks) => self.trap(looks), what === "a comparison" ? 40 : 3);
      await act();
      await trapped(page);
      await page.page.keyboard.press("Escape");
      await page.click("view-runs");
      await page.find("open-run").first().click();
      assert.deepEqual(await ended(page), expected, what);
      assert.equal(await page.error(), "", what);
      if (what === "the map") await page.find("map-by").selectOption("pca");
    }
    page.requests.length = 0;
  });
});
