// The first screen and the answer of a run: what the page is for, three bars, and a verdict that looks like what it says.
import assert from "node:assert/strict";

import { native, pages, test, tree } from "./playing.mjs";

const on = pages({ webgpu: false });

/** The scores as the bars show them: of each its number and its width in percent. */
const bars = (page) => page.page.locator(".numbers tbody tr").evaluateAll((lines) => lines.map((line) => [...line.querySelectorAll("td")].map((cell) => {
  const [whole, part] = [cell.querySelector("i").clientWidth, getComputedStyle(cell.querySelector("i")).backgroundSize.split(", ")[0].split(" ")[0]];
  return { number: cell.innerText.trim(), width: part.endsWith("px") ? (100 * parseFloat(part)) / whole : parseFloat(part) };
})));

/** A colour of the page's sheet, as a browser gives it. */
const colour = (page, name) => page.page.evaluate((name) => {
  const probe = document.body.appendChild(Object.assign(document.createElement("i"), { style: `color: var(--${name})` }));
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}, name);
const edge = (page) => page.page.locator(".verdict").evaluate((card) => getComputedStyle(card).borderLeftColor);

// Where a browser has a dialog of files that a page may remember, that one opens.
const plain = { init: () => delete self.showOpenFilePicker };

test("the page opens with its question on handwritten digits, one click from cells, measurements and a file", async () => {
  await on("?engine=cpu", plain, async (page) => {
    assert.match(await page.text("verdict"), /^Is it worth training on your rows\? Press Run\. /);
    const pressed = () => page.page.locator(".see button").evaluateAll((buttons) => buttons.filter((button) => button.ariaPressed === "true").map((button) => button.innerText));
    assert.equal(await page.find("dataset-select").inputValue(), "digits");
    assert.deepEqual(await pressed(), ["handwritten digits"]);
    assert.ok(await page.page.locator(".numbers").isHidden());
    await page.click("see-mirrored");
    await page.summary(/^6500 rows of 24 features; 650 classes/);
    assert.deepEqual(await pressed(), ["measurements"]);
    // No other sample of the menu has this name.
    const named = await page.find("dataset-select").locator("option").allInnerTexts();
    assert.deepEqual(named.filter((name) => /measurements/i.test(name)), ["Mirrored measurements"]);
    await page.click("see-cells");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=see-cells]").ariaPressed === "true");
    assert.deepEqual(await pressed(), ["cells"]);
    const [chooser] = await Promise.all([page.page.waitForEvent("filechooser"), page.click("see-file")]);
    await chooser.setFiles(tree("trees.csv"));
    await page.summary(/^trees.csv/);
    assert.deepEqual(await pressed(), ["your file"]);
  });
});

test("settings are folded until they are wanted: by a click, which holds at the next visit, or by a link", async () => {
  await on("?engine=cpu", {}, async (page) => {
    const steps = page.page.getByLabel("Steps", { exact: true });
    assert.ok(await page.find("recipe").isVisible());
    assert.ok(await steps.isHidden());
    await page.unfold("Settings");
    assert.ok(await steps.isVisible());
    await page.page.reload();
    await page.status(/^Ready/);
    assert.ok(await steps.isVisible());
    page.requests.length = 0;
  });
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    assert.ok(await page.page.getByLabel("Steps", { exact: true }).isVisible());
  });
});

test("the answer is three bars of the command line's scores, and all else stands behind Why", async () => {
  const { final, baseline } = native("digits", "steps=200");
  await on("?engine=cpu#data=digits&steps=200", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    assert.equal(await page.text("scored-on"), "test rows");
    const expected = [final.test, baseline.linear.test, baseline.raw.test].map((scores) => [scores.precision_at_1, scores.mean_average_precision_at_r]);
    const shown = await bars(page);
    for (const [line, scores] of expected.entries()) {
      for (const [at, score] of scores.entries()) {
        assert.ok(Math.abs(Number(shown[line][at].number) - score) < 0.011, `${shown[line][at].number}, expected ${score}`);
        assert.ok(Math.abs(shown[line][at].width - 100 * score) < 1.2, `${shown[line][at].width} % for ${score}`);
      }
    }
    assert.match(await page.text("verdict"), /^Keep this head if you need whole groups\. For rows it never saw, .* MAP@R 0\.9\d, by the raw features 0\.55, by a linear map 0\.7\d\.$/);
    assert.equal(await edge(page), await colour(page, "accent"));
    assert.ok(await page.find("why").isHidden());
    await page.page.locator(".why summary").click();
    await page.says("why", /On rows it never saw, the nearest row is right for 0\.9\d \(precision@1\): raw features 0\.98/);
    assert.ok((await page.find("why").boundingBox()).width > 500);
    // It lies over what is below, and goes as other explanations do.
    await page.page.keyboard.press("Escape");
    assert.ok(await page.find("why").isHidden());
    await page.page.locator(".why summary").click();
    assert.ok(await page.find("why").isVisible());
    await page.find("map-caption").click();
    assert.ok(await page.find("why").isHidden());
  });
});

test("a verdict against the head looks like one, and names no setting", async () => {
  await on("?engine=cpu#data=mirrored&memory_size=0&steps=100", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    assert.match(await page.text("verdict"), /^Do not ship this head: a linear map does better\. Take that, or start from it\. Of 100 rows it never saw, the nearest row is of the same class for \d+; by the raw features for 26, by a linear map for 60\.$/);
    assert.equal(await edge(page), await colour(page, "danger"));
    assert.notEqual(await colour(page, "danger"), await colour(page, "accent"));
  });
});

test("the memory's gain is the headline after the run without it", async () => {
  await on("?engine=cpu#data=mirrored&steps=300", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done: 300 steps in/);
    const brought = await page.text("precision-at-1");
    await page.click("without-memory");
    await page.status(/^Done: 300 steps without memory/);
    const without = await page.text("precision-at-1");
    assert.ok(Number(brought) - Number(without) > 0.1);
    assert.match(await page.text("verdict"), new RegExp(`^Memory brought ${without} → ${brought}\\. Without a memory the nearest row is right for \\d+ of 100 rows, with 1024 remembered rows for \\d+\\. Of this head: Do not ship`));
    assert.ok(await page.find("forecast").isHidden(), "no other run is next");
    // Another setting that differs, too: then the runs tell nothing of the memory.
    await page.set("Steps", "280");
    await page.click("run");
    await page.status(/^Done: 280 steps in/);
    assert.doesNotMatch(await page.text("verdict"), /^Memory/);
  });
});
