// The threshold of a run: the card, and that its numbers are those of the command line for the same head.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { memoryIsWithinBudget, pages, test, written } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages();
const cli = path.join(root, "target/debug/nearfar");

/** What the command line says of the run on the page, which it gets as the ZIP archive that the page saves. */
async function native(page, ...options) {
  await page.click("take-home");
  await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
  const [download] = await Promise.all([page.page.waitForEvent("download"), page.click("export-zip")]);
  const file = await written("run.zip", "");
  await writeFile(file, await readFile(await download.path()));
  await page.page.keyboard.press("Escape");
  return JSON.parse(execFileSync(cli, ["threshold", "--json", "--engine", "cpu", "--model", file, ...options], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
}

/** The number behind a percentage. */
const part = (text) => Number.parseFloat(text) / 100;

async function found(page) {
  await page.page.waitForFunction(() => document.querySelector("[data-testid=threshold-sentence]").dataset.threshold !== undefined);
  const [threshold, sentence, fmr, fnmr, eer] = await Promise.all([
    page.bare("threshold-sentence", "threshold"), page.text("threshold-sentence"), page.text("threshold-fmr"), page.text("threshold-fnmr"), page.text("threshold-eer"),
  ]);
  return { threshold, sentence, rates: [fmr, fnmr, eer].map(part) };
}

test("the threshold of a run is fitted on validation, reported on test, and is the command line's", async () => {
  for (const [engine, sample] of [["cpu", "many-classes"], ["gpu", "digits"]]) {
    await on(`?engine=${engine}#data=${sample}&steps=60&batch_size=16&hidden_layers=[32]&memory_size=256`, {}, async (page) => {
      assert.ok(await page.find("threshold").isHidden(), "there is no run");
      await page.click("run");
      await page.status(/^Done/);
      await page.click("find-threshold");
      const ours = await found(page);
      assert.match(ours.sentence, /^Similarity 0\.\d+ and above means the same class\. On test rows.*: of [\d,]+ pairs of different classes [\d.]+ (is|are) let in \([\d.]+ to [\d.]+\); of [\d,]+ pairs of the same class [\d.]+ (is|are) missed \([\d.]+ to [\d.]+\)\.$/);
      const theirs = await native(page);
      // The same head, embedded once more: similarities differ in their last bits.
      assert.ok(Math.abs(ours.threshold - theirs.threshold) < 1e-4, `${ours.threshold}, ${theirs.threshold}`);
      const rates = [theirs.test.false_match_rate, theirs.test.false_non_match_rate, theirs.test.equal_error_rate];
      ours.rates.forEach((rate, i) => assert.ok(Math.abs(rate - rates[i]) < 0.01 * rates[i] + 1e-5, `${ours.rates}, ${rates}`));
      assert.ok((await page.drawn("chart-threshold")) > 300, "both curves are drawn");
      assert.match(await page.find("chart-threshold").getAttribute("aria-label"), /^Similarities of pairs of the same class and of pairs of different classes\. The threshold is 0\.\d+: [\d.]+ % of the pairs of different classes let in, [\d.]+ % of the same class missed; the errors are equal at 0\.\d+, with [\d.]+ %$/);
      // Another rate is another question, and is answered at once.
      await page.find("threshold-rate").selectOption("0.1");
      await page.page.waitForFunction((before) => ![undefined, String(before)].includes(document.querySelector("[data-testid=threshold-sentence]").dataset.threshold), ours.threshold);
      const looser = await found(page);
      assert.ok(looser.threshold < ours.threshold && looser.rates[1] < ours.rates[1]);
      await memoryIsWithinBudget(page);
      if (sample === "many-classes") {
        await page.find("threshold-rate").selectOption("0.0001");
        await page.says("threshold-notes", /Few pairs: a false match rate of 0\.0001 is 12 of the 122,500 pairs/);
        await page.screenshot("threshold-light");
        await page.page.emulateMedia({ colorScheme: "dark" });
        await page.screenshot("threshold-dark");
      }
      await page.click("reset");
      await page.status(/^Ready/);
      assert.ok(await page.find("threshold").isHidden());
      await page.click("undo");
      await page.status(/^Done/);
      assert.notEqual(await page.find("threshold-sentence").getAttribute("data-threshold"), null, "it comes back with the run");
    });
  }
});

test("the threshold is dragged over the similarities, snaps to equal errors, the best F1 and any rate, and all that is said follows", async () => {
  await on("?engine=cpu#data=many-classes&steps=60&batch_size=16&hidden_layers=[32]&memory_size=256", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    await page.click("find-threshold");
    const first = await found(page);
    const { curve, fit } = await native(page);
    const slider = page.find("threshold-slider");
    const now = async () => Number(await slider.getAttribute("aria-valuenow"));
    assert.equal(await now(), first.threshold);
    const rests = () => page.page.waitForFunction(() => {
      const { ariaBusy, textContent } = document.querySelector("[data-testid=threshold-sentence]");
      return ariaBusy === "false" && /let in \([\d.]+ to [\d.]+\)/.test(textContent);
    });
    const numbers = async (...ids) => Promise.all(ids.map(async (id) => Number.parseFloat(await page.text(id))));
    // The curves of the command line hold at each of their similarities.
    const follows = async () => {
      const at = await now();
      const place = Math.round((at + 1) * 200);
      assert.ok(Math.abs(curve.threshold[place] - at) < 1e-9, `${at} is a point of the curves`);
      const [fmr, fnmr] = await numbers("threshold-fmr", "threshold-fnmr");
      const rates = [curve.test_false_match_rate[place], curve.test_false_non_match_rate[place]].map((rate) => 100 * rate);
      [fmr, fnmr].forEach((rate, i) => assert.ok(Math.abs(rate - rates[i]) < 0.02 * rates[i] + 0.06, `at ${at}: ${[fmr, fnmr]}, ${rates}`));
      assert.ok((await page.text("threshold-sentence")).startsWith(`Similarity ${at} and above means the same class. On test rows`));
      return at;
    };
    // By the pointer: what is said follows while the button is down, and is whole once it is up.
    await page.find("chart-threshold").scrollIntoViewIfNeeded();
    const { x, y, width, height } = await page.find("chart-threshold").boundingBox();
    await page.page.mouse.move(x + 0.9 * width, y + height / 2);
    await page.page.mouse.down();
    const high = await follows();
    const drawn = await page.settled("chart-threshold");
    await page.page.mouse.move(x + 0.6 * width, y + height / 2, { steps: 5 });
    const low = await follows();
    assert.ok(low < high - 0.1, `${low}, ${high}`);
    assert.doesNotMatch(await page.text("threshold-sentence"), / to [\d.]+\)/, "intervals are counted");
    assert.notEqual(await page.settled("chart-threshold"), drawn, "the line is where it was dragged");
    await page.screenshot("threshold-dragged");
    await page.page.mouse.up();
    await rests();
    assert.equal(await follows(), low);
    // By keys, from there on.
    for (const [key, by] of [["ArrowLeft", -0.005], ["ArrowUp", 0.005], ["PageDown", -0.05], ["ArrowRight", 0.005], ["ArrowRight", 0.005]]) {
      const before = await now();
      await page.page.keyboard.press(key);
      assert.ok(Math.abs((await now()) - before - by) < 1e-9, `${key}: ${before} to ${await now()}`);
      assert.match(await slider.getAttribute("aria-valuetext"), /^-?0\.\d+: [\d.]+ % of the pairs of different classes let in, [\d.]+ % of the same class missed$/);
    }
    await rests();
    await follows();
    // To equal errors and to the best F1 of the rows that it is fitted on.
    await page.click("threshold-equal");
    await rests();
    assert.ok(Math.abs((await now()) - fit.equal_error_threshold) < 1e-4);
    const [let_in, missed, equal] = await numbers("fitted-fmr", "fitted-fnmr", "fitted-eer");
    assert.ok(Math.abs(let_in - missed) < 0.2 && Math.abs(let_in - equal) < 0.2, `${let_in} ${missed} ${equal}`);
    assert.equal(await page.find("threshold-equal").getAttribute("aria-pressed"), "true");
    await page.click("threshold-f1");
    await rests();
    assert.ok(Math.abs((await now()) - fit.best_f1_threshold) < 1e-3, `${await now()}, ${fit.best_f1_threshold}`);
    const [best] = await numbers("fitted-f1-score");
    assert.ok(Math.abs(best - fit.best_f1) < 1e-3);
    for (const key of ["ArrowLeft", "ArrowLeft"]) {
      await slider.press(key);
      assert.ok((await numbers("fitted-f1-score"))[0] <= best);
    }
    await rests();
    // And to any rate.
    await page.find("threshold-rate").selectOption("other");
    await page.find("threshold-own-rate").fill("5");
    await page.find("threshold-own-rate").blur();
    await page.page.waitForFunction(() => /^(4\.9\d|5\.00) %$/.test(document.querySelector("[data-testid=fitted-fmr]")?.textContent ?? ""));
    await page.screenshot("threshold-rate");
  });
});

test("equal errors lie between two thresholds: the nearest is reported, the line goes there, and any rate is found from there", async () => {
  // Nearer to the lower one in some of these runs, and to the upper one in others.
  for (const seed of [1, 2, 3, 4, 5]) {
    await on(`?engine=cpu#data=digits&steps=20&batch_size=16&hidden_layers=[32]&memory_size=256&seed=${seed}`, {}, async (page) => {
      await page.click("run");
      await page.status(/^Done/);
      await page.click("find-threshold");
      const { threshold } = await found(page);
      const drawn = await page.settled("chart-threshold");
      const rests = (but) => page.page.waitForFunction((but) => {
        const { ariaBusy, textContent, dataset } = document.querySelector("[data-testid=threshold-sentence]");
        return ariaBusy === "false" && dataset.threshold !== but && /let in \([\d.]+ to [\d.]+\)/.test(textContent);
      }, String(but));
      await page.click("threshold-equal");
      await rests(threshold);
      assert.notEqual(await page.settled("chart-threshold"), drawn);
      const equal = await page.find("threshold-sentence").getAttribute("data-threshold");
      await page.find("threshold-rate").selectOption("0.1");
      await rests(equal);
    });
  }
});

test("why there is no threshold is said, and the run stays", async () => {
  await on("?engine=cpu#data=digits&steps=20&validation_fraction=0", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    await page.click("find-threshold");
    await page.says("threshold-sentence", /^There is none: no row validates, and a threshold is fitted on such rows: set validation_fraction above 0\.$/);
    assert.equal(await page.error(), "");
    await page.click("evaluate-all");
    await page.find("evaluation").locator("table").waitFor();
  });
});
