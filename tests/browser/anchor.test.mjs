// One anchor, step by step: what is drawn of it is what is said of it, and what the step mined.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";

import { pages, test } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages({ webgpu: false });
const BATCH = 16;
const MEMORY = 64;
const RUN = `steps=40&evaluate_every=40&batch_size=${BATCH}&hidden_layers=[32]&embedding_size=16`;
const SEMIHARD = `${RUN}&memory_size=${MEMORY}&loss.name=triplet-margin&miner.name=triplet-margin`;

/** What the command line gives for a run with these settings, on the same engine. */
function native(sample, settings) {
  const sets = settings.split("&").flatMap((set) => ["--set", set]);
  const program = path.join(root, "target/debug/nearfar");
  return JSON.parse(execFileSync(program, ["train", "--json", "--engine", "cpu", "--data", `sample:${sample}`, ...sets], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
}

/** The panel as it stands: what is said, each reference that is drawn, and the band in percent of the line. */
async function panel(page) {
  const dots = await page.find("anchor-dots").locator("button[data-at]").evaluateAll((dots) => dots.map((dot) => {
    const { at, row, kind, kept, also, value, times, age } = dot.dataset;
    return {
      at: Number(at), row: Number(row), kind, kept: kept === "true", also: also === "true", value: Number(value), times: Number(times), age: age && Number(age),
      x: Number.parseFloat(dot.style.left), chosen: dot.classList.contains("chosen"), square: dot.classList.contains("stored"),
    };
  }));
  const band = await page.find("anchor-band").evaluateAll((bands) => bands.map((band) => [band.getAttribute("x"), band.getAttribute("width")].map(Number.parseFloat))[0]);
  const [said, about] = [await page.text("anchor-said"), await page.text("anchor-about")];
  const row = await page.find("anchor-row").evaluate((select) => select.selectedOptions[0].text);
  return { said, about, row: Number(row.replace("row ", "")), step: Number(/of step (\d+)/.exec(about)[1]), dots, band, negatives: dots.filter((dot) => dot.kind !== "positive") };
}

/** Does something, and waits until another anchor, positive or side is drawn. */
async function changed(page, does) {
  const look = () => page.page.evaluate(() => document.querySelector("[data-testid=anchor]").innerHTML);
  const before = await look();
  await does();
  await page.page.waitForFunction((before) => document.querySelector("[data-testid=anchor]").innerHTML !== before && document.querySelector("[data-testid=anchor-dots]"), before);
  for (let last = await look(), now; ; last = now) {
    await page.page.waitForTimeout(120);
    now = await look();
    if (now === last) return panel(page);
  }
}

/** Opens the tab of the anchor, and takes steps from there. */
async function stepped(page, steps) {
  await page.page.getByRole("tab", { name: "Anchor" }).click();
  for (let step = 1; step <= steps; step += 1) {
    await page.click("anchor-step");
    await page.page.waitForFunction((step) => document.querySelector("[data-testid=anchor-about]").textContent.endsWith(`of step ${step}`), step);
  }
}

const of = (dots, kind) => dots.filter((dot) => dot.kind === kind);

/** Checks what is said of the kinds of negatives against what is drawn; says how many are kept. */
function checkBand({ said, dots, negatives, band }) {
  const words = said.match(/^Of (\d+) negatives? (\d+) (?:is|are) semi-hard: farther from the anchor than the positive, but by no more than the margin of 0\.2\. (\d+) (?:is|are) hard \(nearer than the positive\), (\d+) (?:is|are) easy/);
  assert.ok(words, said);
  const [all, semihard, hard, easy] = words.slice(1).map(Number);
  assert.deepEqual([all, semihard, hard, easy], [negatives.length, ...["semihard", "hard", "easy"].map((kind) => of(negatives, kind).length)], said);
  const kept = negatives.filter((dot) => dot.kept);
  // The miner keeps those of the band, and no others, or none if it has none of this positive.
  assert.deepEqual(kept.map((dot) => dot.row), of(negatives, "semihard").map((dot) => dot.row));
  if (kept.length === 0) assert.match(said, /The miner keeps none of them with this positive\./);
  else assert.match(said, kept.length === 1 ? /The miner keeps the semi-hard one\./ : new RegExp(`The miner keeps all ${kept.length} semi-hard ones\\.`));
  const [low, width] = band;
  const within = (dot, slack) => dot.x > low - slack && dot.x < low + width + slack;
  for (const dot of of(negatives, "semihard")) assert.ok(within(dot, 0.02), `${dot.x} in ${band}`);
  for (const dot of [...of(negatives, "hard"), ...of(negatives, "easy")]) assert.ok(!within(dot, -0.02), `${dot.x} beside ${band}`);
  const chosen = dots.find((dot) => dot.chosen);
  assert.ok(Math.abs(chosen.x - low - width) < 0.02, "the band ends at the positive");
  return kept.length;
}

test("what is said of every anchor of a step is what is drawn, and all together is what the step mined", async () => {
  const { history } = native("digits", SEMIHARD);
  await on(`?engine=cpu#data=digits&${SEMIHARD}`, {}, async (page) => {
    await stepped(page, 4);
    const first = await panel(page);
    let [seen, mined, kept] = [first, 0, 0];
    const rows = [];
    do {
      rows.push(seen.row);
      const positives = of(seen.dots, "positive");
      // All of the memory but the anchor's own copy, and no row that is not of the memory.
      assert.equal(seen.dots.length, MEMORY - 1);
      for (const dot of seen.dots) assert.equal(dot.square, dot.age > 0);
      if (positives.length > 0) kept += checkBand(seen);
      mined += positives.reduce((sum, dot) => sum + dot.times, 0);
      assert.equal(seen.negatives.reduce((sum, dot) => sum + dot.times, 0), positives.reduce((sum, dot) => sum + dot.times, 0));
      seen = await changed(page, () => page.click("anchor-next"));
    } while (seen.row !== first.row);
    assert.equal(new Set(rows).size, BATCH);
    assert.ok(kept > 0);
    assert.equal(mined, history[3].mining.mined, "all anchors together");
    assert.equal(seen.step, 4);
    // Another positive has another band, and other triplets.
    const other = of(seen.dots, "positive").find((dot) => !dot.chosen);
    const another = await changed(page, () => page.find("anchor-dots").locator(`button[data-at="${other.at}"]`).click({ force: true }));
    assert.equal(another.dots.find((dot) => dot.chosen).row, other.row);
    assert.equal(another.row, seen.row);
    checkBand(another);
    // One of the rows that are named is the anchor at once.
    const to = rows[5];
    const chosen = await changed(page, () => page.find("anchor-row").selectOption({ label: `row ${to}` }));
    assert.equal(chosen.row, to);
    await page.screenshot("anchor");
  });
});

test("a step moves the rows, another step brings another batch, and the batch alone has no stored rows", async () => {
  await on(`?engine=cpu#data=digits&${SEMIHARD}`, { viewport: { width: 1280, height: 720 } }, async (page) => {
    assert.equal(await page.find("anchor-dots").count(), 0);
    await stepped(page, 4);
    const before = await panel(page);
    assert.ok(before.dots.some((dot) => dot.square) && before.dots.some((dot) => !dot.square));
    const after = await changed(page, () => page.click("anchor-after"));
    assert.deepEqual(after.dots.map((dot) => dot.row), before.dots.map((dot) => dot.row));
    assert.ok(after.dots.some((dot, at) => dot.value !== before.dots[at].value));
    assert.ok((await page.find("anchor-dots").locator(".way").count()) > 0);
    checkBand(after);
    await changed(page, () => page.click("anchor-before"));
    const alone = await changed(page, () => page.click("anchor-alone"));
    assert.equal(alone.row, before.row);
    assert.ok(alone.dots.length < before.dots.length && alone.dots.every((dot) => !dot.square));
    const together = await changed(page, () => page.click("anchor-with"));
    assert.deepEqual(together.dots, before.dots);
    // The triplet that weighs most is joined on the map, as long as this is looked at.
    assert.equal(await page.text("anchor-on-map"), "They are joined on the map of the embeddings.");
    const joined = await page.settled("embedding-map");
    await page.page.getByRole("tab", { name: "Mining" }).click();
    assert.notEqual(await page.settled("embedding-map"), joined);
    await page.page.getByRole("tab", { name: "Anchor" }).click();
    const next = await changed(page, () => page.click("step"));
    assert.equal(next.step, 5);
    assert.notDeepEqual(next.dots, before.dots);
    await page.click("reset");
    await page.status(/^Ready/);
    assert.equal(await page.find("anchor-dots").count(), 0);
    await page.click("undo");
    await page.status(/^Paused/);
    await page.find("anchor-dots").waitFor();
    assert.equal((await panel(page)).step, 5);
  });
});

test("the rows are reached by keys, and on a phone by a finger", async () => {
  await on(`?engine=cpu#data=digits&${SEMIHARD}`, { viewport: { width: 390, height: 844 }, hasTouch: true }, async (page) => {
    const { keyboard, touchscreen } = page.page;
    await stepped(page, 4);
    const wide = await page.page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${wide} pixels`);
    const before = await panel(page);
    await page.find("anchor-after").focus();
    for (let stops = 0; !(await page.page.evaluate(() => document.activeElement.dataset.at)); stops += 1) {
      assert.ok(stops < 6, "the rows are a stop of Tab");
      await keyboard.press("Tab");
    }
    const held = () => page.page.evaluate(() => Number(document.activeElement.dataset.at));
    assert.ok(before.dots[await held()].chosen);
    await keyboard.press("ArrowDown");
    const negative = before.dots[await held()];
    assert.notEqual(negative.kind, "positive");
    assert.match(await page.text("anchor-told"), new RegExp(`^Row ${negative.row}: negative, class \\d, similarity -?\\d\\.\\d{3}`));
    await keyboard.press("ArrowLeft");
    const farther = before.dots[await held()];
    assert.ok(farther.value <= negative.value && farther.kind !== "positive");
    await keyboard.press("ArrowUp");
    for (const key of ["ArrowRight", "ArrowLeft"]) if (before.dots[await held()].chosen) await keyboard.press(key);
    const positive = before.dots[await held()];
    assert.ok(positive.kind === "positive" && !positive.chosen);
    // Space presses it, and starts no run.
    const after = await changed(page, () => keyboard.press("Space"));
    assert.equal(after.dots.find((dot) => dot.chosen).row, positive.row);
    assert.match(await page.text("status"), /^Paused at step 4/);
    assert.equal(await page.page.evaluate(() => Number(document.activeElement.dataset.row)), positive.row, "the focus stays with it");
    // A finger beside a row finds it.
    const other = of(after.dots, "positive").find((dot) => !dot.chosen);
    const box = await page.find("anchor-dots").locator(`button[data-at="${other.at}"]`).boundingBox();
    const tapped = await changed(page, () => touchscreen.tap(box.x + 8, box.y + 5));
    assert.notEqual(tapped.dots.find((dot) => dot.chosen).row, positive.row);
    await page.screenshot("anchor-390");
  });
});

test("without a margin there is no band, pairs are counted as pairs, and semi-hard triplets are a click away", async () => {
  for (const [sets, kept] of [
    ["loss.name=sup-con&miner.name=none", /No miner chooses: (\d+) positives? and (\d+) negatives count\./],
    ["loss.name=multi-similarity&miner.name=multi-similarity", /The miner keeps (\d+) of \d+ positives? and (\d+) of \d+ negatives: those that come near/],
    ["loss.name=triplet-margin&miner.name=batch-hard", /The miner keeps (\d+) of \d+ positives? and (\d+) of \d+ negatives: the farthest positive and the nearest negative\./],
  ]) {
    await on(`?engine=cpu#data=digits&${RUN}&memory_size=0&sampler.name=m-per-class&${sets}`, {}, async (page) => {
      await stepped(page, 1);
      const { said, dots, negatives, band } = await panel(page);
      assert.match(said, kept);
      const [of_positives, of_negatives] = kept.exec(said).slice(1).map(Number);
      assert.deepEqual([of(dots, "positive"), negatives].map((dots) => dots.filter((dot) => dot.kept).length), [of_positives, of_negatives], said);
      assert.equal(band === undefined, !sets.includes("triplet-margin"));
      if (sets.includes("batch-hard")) assert.deepEqual([of_positives, of_negatives], [1, 1]);
      if (!sets.includes("sup-con")) return;
      await page.click("anchor-teach");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=anchor-band]"));
      assert.equal(await page.knob("Loss"), "triplet-margin");
      checkBand(await panel(page));
      assert.equal(await page.text("step-count"), "1");
    });
  }
});

test("what cannot be looked at is refused in a sentence: proxies, and a look that has no room", async () => {
  await on(`?engine=cpu#data=digits&${RUN}&memory_size=0&loss.name=arc-face`, {}, async (page) => {
    await page.page.getByRole("tab", { name: "Anchor" }).click();
    await page.says("anchor-refused", /^One row of a batch is the anchor\./);
    await page.click("anchor-step");
    await page.says("anchor-refused", /compares rows with proxies of the classes, not with each other/);
    assert.equal(await page.find("anchor-dots").count(), 0);
    assert.ok(await page.find("anchor-row").isHidden());
  });
  // A run takes its buffers to the last byte of a small budget.
  const little = "steps=40&evaluate_every=40&evaluate_queries=20&batch_size=128&hidden_layers=[16]&embedding_size=16&memory_size=4096&budget_bytes=2600000";
  await on(`?engine=cpu#data=many-classes&${little}`, {}, async (page) => {
    await page.page.getByRole("tab", { name: "Anchor" }).click();
    await page.click("anchor-step");
    await page.says("anchor-refused", /^"one anchor" needs .* of the 2\.\d MiB budget is free: raise the budget to /);
    assert.match(await page.text("status"), /^Paused at step 1/);
    await page.click("run");
    await page.status(/^Done/);
  });
});
