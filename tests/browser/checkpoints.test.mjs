// A run that is saved in the browser's storage goes on after the page was reloaded, or its worker ended, as if nothing had
// been: NEARFAR_RELOADS says how often it is reloaded.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

import { pages, test, tree, written } from "./playing.mjs";
import { begun, ended, hide, leaving, random, reload, save } from "./saving.mjs";
import { Page } from "./support.mjs";

const on = pages();
const RELOADS = Number(process.env.NEARFAR_RELOADS ?? 5);
const RUN = "?engine=cpu#data=digits&steps=4000&evaluate_every=50&hidden_layers=[32]&batch_size=16&memory_size=256&evaluate_queries=100";

test("after reloads at any time a run ends as one that was never stopped", async () => {
  await on(RUN, leaving, async (page) => {
    await page.click("run");
    const expected = await ended(page);
    assert.ok((await page.number("precision-at-1")) > 0.5);
    assert.ok(await page.find("saved-run").isHidden(), "a run that is over is offered to nobody");
    const chance = random(3);
    let [reloads, ends, step] = [0, 0, 0];
    while (ends === 0 || reloads < RELOADS) {
      await reload(page);
      reloads += 1;
      const offered = page.find("saved-run");
      if (await offered.isVisible()) {
        const [, from] = /^Go on from step (\d+) of 4000 of Handwritten digits\?/.exec(await offered.innerText());
        assert.ok(Number(from) >= step, `step ${from} is offered, and ${step} was saved`);
        await page.click("go-on");
      } else {
        // Its last steps may have been done while the page was left.
        assert.ok(step === 0 || step > 3000, `nothing is offered, and step ${step} was saved`);
        await page.click("run");
      }
      await page.status(/^(Training|All steps|Done)/);
      const last = reloads >= RELOADS;
      if (!last) {
        await page.page.waitForTimeout(50 + 500 * chance());
        const before = await page.page.evaluate(() => self.saves);
        await page.page.evaluate(hide);
        // Now and then it is left in the middle of a save.
        if (chance() < 0.7) await page.page.waitForFunction((before) => self.saves > before || self.finished, before);
      }
      const finished = await page.page.evaluate(() => self.finished !== undefined);
      if (last || finished) {
        assert.deepEqual(await ended(page), expected, `after ${reloads} reloads`);
        ends += 1;
      }
      step = await page.page.evaluate(() => self.saved ?? 0);
    }
    console.log(`${reloads} reloads, ${ends} runs came to their end`);
  });
}, 240 + 20 * RELOADS);

test("a worker that ended is followed by one that goes on where the run was saved", async () => {
  await on(RUN, leaving, async (page) => {
    await page.click("run");
    const expected = await ended(page);
    await page.click("run");
    await page.status(/^Training/);
    await begun(page);
    // Paused, so that it is not over before its worker ends.
    await page.click("pause");
    await page.status(/^Paused/);
    await save(page);
    await page.page.workers()[0].evaluate(() => { setTimeout(() => { throw new Error("boom"); }); });
    await page.status(/^The computing stopped/);
    await page.says("saved-run", /^Go on from step \d+ of 4000 of Handwritten digits\?/);
    await page.click("go-on");
    assert.deepEqual(await ended(page), expected);
    // The new worker's own files are all that was asked for, and the end of the old one all that was complained of.
    assert.ok(page.requests.every((url) => url.startsWith(new URL(page.page.url()).origin)));
    page.requests.length = 0;
    assert.ok(page.problems.every((problem) => problem.includes("boom")), page.problems.join());
    page.problems.length = 0;
  });
});

test("a person's file is asked for again, and another one is refused", async () => {
  await on("?engine=cpu#data=mirrored", leaving, async (page) => {
    await page.upload(tree("trees.csv"));
    await page.summary(/trees.csv/);
    await page.set("Steps", "3000");
    await page.set("Batch rows", "12");
    await page.set("Memory rows", "24");
    await page.click("run");
    await page.status(/^Training/);
    await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent.replace(/\D.*/, "")) > 20);
    await save(page);
    await reload(page);
    await page.says("saved-run", /A run on trees.csv \(\d+ rows\) is kept, at step \d+ of 3000\. Its rows are not: choose that file again and it goes on\./);
    assert.ok(await page.find("go-on").isHidden());
    // A file of the same name and as many rows.
    const text = await readFile(tree("trees.csv"), "utf8");
    await page.upload(await written("trees.csv", text.replace(/\d\.\d/, "9.9")));
    await page.says("error", /trees.csv: the data is not what the run began with: found .*fingerprint \w{32}, expected .*fingerprint \w{32}/);
    await page.upload(tree("trees.csv"));
    await page.status(/^Ready/);
    await page.click("go-on");
    await page.status(/^(Training|Done)/);
    assert.equal(await page.knob("Batch rows"), "12");
    await page.status(/^Done: 3000 steps/);
    await page.page.waitForFunction(() => self.saved === 0);
    await reload(page);
    assert.ok(await page.find("saved-run").isHidden());
  });
});

test("a run goes on whatever was chosen about its cells since, on its file as it was read then", async () => {
  const row = (i) => `${(i * 37) % 101},${i === 17 ? "" : i % 11},${i % 5},${"uvw"[i % 3]}`;
  const file = await written("gaps.csv", ["height,mass,age,kind", ...Array.from({ length: 90 }, (_, i) => row(i))].join("\n"));
  await on("?engine=cpu#data=mirrored&memory_size=0&batch_size=16&hidden_layers=[8]&steps=30000", leaving, async (page) => {
    await page.upload(file);
    await page.click("mend-median");
    await page.summary(/^gaps.csv: 90 rows of 3 features/);
    await page.click("run");
    await page.status(/^Training/);
    await begun(page);
    await save(page);
    await page.find("missing-cells").selectOption("drop-columns");
    await page.click("open");
    await page.summary(/^gaps.csv: 90 rows of 2 features/);
    await page.says("saved-run", /^Go on from step \d+ of 30.000 of gaps.csv\?/);
    await page.click("go-on");
    await page.summary(/^gaps.csv: 90 rows of 3 features/);
    assert.equal(await page.find("missing-cells").inputValue(), "median");
    await page.status(/^Training/);
    assert.equal(await page.error(), "");
  });
});

test("what was saved can be forgotten, and a new run is another one", async () => {
  await on(RUN, leaving, async (page) => {
    await page.click("run");
    await page.status(/^Training/);
    await save(page);
    await reload(page);
    await page.find("saved-run").waitFor();
    await page.click("forget");
    await page.find("saved-run").waitFor({ state: "hidden" });
    await reload(page);
    assert.ok(await page.find("saved-run").isHidden());
  });
});

test("where the browser has no room for it the run goes on, and says so until there is room", async () => {
  await on(RUN, leaving, async (page) => {
    await page.page.workers()[0].evaluate(() => {
      self.write = FileSystemSyncAccessHandle.prototype.write;
      FileSystemSyncAccessHandle.prototype.write = () => { throw new DOMException("full", "QuotaExceededError"); };
    });
    await page.click("run");
    await page.status(/^Training/);
    await begun(page);
    await page.page.evaluate(hide);
    await page.says("unkept", /^This run is not being saved, and a reload would end it: the browser's storage for this page is full\. 0 kept runs take 0 B\./);
    await page.page.evaluate(hide);
    await page.page.waitForTimeout(300);
    assert.equal((await page.text("unkept")).match(/not being saved/g).length, 1);
    await page.page.workers()[0].evaluate(() => { FileSystemSyncAccessHandle.prototype.write = self.write; });
    // There is room again.
    await page.page.evaluate(hide);
    await page.find("unkept").waitFor({ state: "hidden" });
    await page.status(/^Done/);
  });
});

/** Opens tabs of one browser profile, and closes them all. */
async function tabs(check) {
  await on("?engine=cpu#data=mirrored", {}, async (first) => {
    const context = await first.page.context().browser().newContext({ viewport: { width: 1920, height: 1080 }, serviceWorkers: "block" });
    const all = [];
    const tab = async (where) => {
      const page = await Page.open(context, new URL(where, first.page.url()).href, leaving);
      all.push(page);
      return page;
    };
    try {
      await check(tab);
      for (const page of all) assert.deepEqual(page.problems, [], "the console is clean");
    } finally {
      await context.close();
    }
  });
}

/** Starts a run, and waits until it was saved. */
async function begin(page) {
  await page.click("run");
  await page.status(/^Training/);
  await save(page);
}

/** What Runs says of the runs that were stopped. */
async function stopped(page, count) {
  await page.click("view-runs");
  await page.page.waitForFunction((count) => document.querySelectorAll("[data-testid=stopped-run]").length === count, count);
  const lines = await page.find("stopped-run").locator("span").allInnerTexts();
  await page.click("view-run");
  return lines;
}

const LONG = "steps=400000&evaluate_every=400000&hidden_layers=[8]&batch_size=16&memory_size=32";

test("two tabs that train at once are both saved, and closing either loses nothing", async () => {
  await tabs(async (tab) => {
    const [digits, mirrored] = [await tab(`?engine=cpu#data=digits&${LONG}`), await tab(`?engine=cpu#data=mirrored&${LONG}`)];
    await begin(digits);
    await begin(mirrored);
    await save(digits);
    for (const page of [digits, mirrored]) assert.ok(await page.find("unkept").isHidden());
    await digits.page.close();
    // What another tab goes on with is offered to nobody.
    const third = await tab("?engine=cpu#data=mirrored&steps=20");
    await third.says("saved-run", /^Go on from step [^ ]+ of 400.000 of Handwritten digits\?/);
    assert.equal((await stopped(third, 1)).length, 1);
    await save(mirrored);
    await mirrored.page.close();
    await reload(third);
    await third.says("saved-run", /^Go on from step [^ ]+ of 400.000 of Mirrored measurements\?/);
    const [newer, older] = await stopped(third, 2);
    assert.match(newer, /^Mirrored measurements, .*, saved at step [^ ]+ of 400.000$/);
    assert.match(older, /^Handwritten digits, .*, saved at step [^ ]+ of 400.000$/);
    // A run that begins anew takes no other's place.
    await third.click("run");
    await third.status(/^Done/);
    assert.equal((await stopped(third, 2)).length, 2);
    await third.click("view-runs");
    await third.find("stopped-run").last().getByRole("button", { name: "Go on" }).click();
    await third.status(/^Training/);
    assert.match(await third.text("dataset-summary"), /^1797 rows/);
    assert.ok((await third.number("step-count")) > 0);
    await save(third);
    const fourth = await tab("?engine=cpu#data=mirrored&steps=20");
    await fourth.says("saved-run", /of Mirrored measurements\?/);
    assert.equal((await stopped(fourth, 1)).length, 1);
    await fourth.click("view-runs");
    await fourth.find("stopped-run").getByRole("button", { name: "Forget it" }).click();
    assert.deepEqual(await stopped(fourth, 0), []);
    await third.click("pause");
    await third.status(/^Paused/);
    await third.page.close();
    await reload(fourth);
    await fourth.says("saved-run", /of Handwritten digits\?/);
  });
});

test("of many stopped runs the last five are kept, and the one that goes is named", async () => {
  await tabs(async (tab) => {
    for (let i = 0; i < 6; i += 1) {
      const page = await tab(`?engine=cpu#data=${i === 0 ? "digits" : "mirrored"}&${LONG}`);
      await begin(page);
      await page.page.close();
    }
    const page = await tab("?engine=cpu#data=mirrored&steps=20");
    await page.click("view-runs");
    await page.says("notice", /^5 stopped runs are kept at most: the oldest, on Handwritten digits at step [^ ]+, is gone\.$/);
    assert.equal((await stopped(page, 5)).length, 5);
    await reload(page);
    assert.equal((await stopped(page, 5)).length, 5);
    assert.ok(await page.find("notice").isHidden());
  });
});

test("a run that an earlier version of the page saved is offered, and goes on", async () => {
  await tabs(async (tab) => {
    const page = await tab(`?engine=cpu#data=digits&${LONG}`);
    await begin(page);
    await page.page.goto("about:blank");
    const other = await tab("?engine=cpu#data=mirrored&steps=20");
    await other.says("saved-run", /of Handwritten digits\?/);
    // As that had it: at the top, under names that all folders shared.
    await other.page.evaluate(async () => {
      const top = await navigator.storage.getDirectory();
      const folder = await top.getDirectoryHandle(encodeURIComponent("nearfar /nearfar/"));
      for await (const [name, file] of folder.entries()) {
        const slot = /-(\d)\.bin$/.exec(name)[1];
        const copy = await (await top.getFileHandle(`checkpoint-${slot}.bin`, { create: true })).createWritable();
        await copy.write(await file.getFile());
        await copy.close();
        await folder.removeEntry(name);
      }
    });
    await reload(other);
    await other.says("saved-run", /^Go on from step [^ ]+ of 400.000 of Handwritten digits\?/);
    assert.match((await stopped(other, 1))[0], /^Handwritten digits, saved at step/);
    await other.click("go-on");
    await other.status(/^Training/);
    await other.click("reset");
    await other.status(/^Ready/);
    await other.page.waitForFunction(() => self.saved === 0);
    await reload(other);
    assert.ok(await other.find("saved-run").isHidden());
  });
});
