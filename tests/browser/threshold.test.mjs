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
      assert.match(await page.find("chart-threshold").getAttribute("aria-label"), /^False match rate and false non-match rate over the similarity: at the threshold, 0\.\d+, they are [\d.]+ % and/);
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
