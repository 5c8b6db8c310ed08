// The runs that the page keeps: after a reload they are there, they are looked at side by side, and any opens again.
import assert from "node:assert/strict";

import { SMALL, native, pages, test } from "./playing.mjs";

const on = pages();

/** The rows of the table: names and numbers. */
const rows = (page) => page.find("runs").locator("tbody tr").evaluateAll((lines) => lines.map((line) => {
  const [, run, ...numbers] = [...line.cells];
  const name = run.querySelector("input");
  return { name: name.value || name.placeholder, about: run.querySelector("small").textContent, numbers: numbers.slice(0, 5).map((cell) => cell.textContent) };
}));

/** Runs to the end. A run may be over before anyone looks: every word of the status is taken down. */
async function ran(page) {
  await page.click("view-run");
  await page.page.evaluate(() => {
    const status = document.querySelector("[data-testid=status]");
    const said = (self.said = []);
    new MutationObserver(() => said.push(status.textContent)).observe(status, { childList: true, characterData: true, subtree: true });
  });
  await page.click("run");
  await page.page.waitForFunction(() => {
    const began = self.said.findIndex((text) => /^(Starting|Training)/.test(text));
    return began >= 0 && self.said.slice(began).some((text) => /^Done/.test(text));
  });
}

/** Waits until so many runs are listed. */
const listed = (page, count) => page.page.waitForFunction((count) => document.querySelectorAll("[data-testid=runs] tbody tr").length === count, count);

/** Loads the page again, as a person would. */
async function reloaded(page) {
  await page.page.reload();
  await page.status(/^Ready/);
  page.requests.length = 0;
  await page.click("view-runs");
}

test("runs are kept over a reload, named, sorted, compared and opened again as they were", async () => {
  await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
    await ran(page);
    const verdict = await page.text("verdict");
    await page.set("Memory rows", "0");
    await ran(page);
    await page.click("view-runs");
    await listed(page, 2);
    const [second, first] = await rows(page);
    assert.match(first.name, /Memory rows 256/);
    assert.match(second.name, /Memory rows 0/);
    // The numbers are those of the command line.
    const own = native("mirrored", "steps=40", "batch_size=16", "hidden_layers=[32]", "memory_size=256");
    assert.ok(Math.abs(Number(first.numbers[0]) - own.final.test.precision_at_1) < 0.01, first.numbers[0]);
    assert.equal(Number(first.numbers[1]).toFixed(2), own.baseline.raw.test.precision_at_1.toFixed(2));

    // A name stays, and so does a pin: the older one comes first.
    const name = page.find("runs").locator("tbody tr").nth(1).locator("input[type=text]");
    await name.fill("with a memory");
    await name.blur();
    await page.page.getByRole("button", { name: "Pin: with a memory" }).click();
    await reloaded(page);
    await listed(page, 2);
    assert.deepEqual((await rows(page)).map((row) => row.name)[0], "with a memory");

    // Ticked ones stand in all plots, and their settings side by side.
    const drawn = async (more) => {
      await page.click("view-run");
      await page.draws("chart-loss", (pixels) => pixels >= more);
      await page.page.waitForTimeout(300);
      const pixels = await page.drawn("chart-loss");
      await page.click("view-runs");
      return pixels;
    };
    const tick = (at) => page.find("runs").locator("input[type=checkbox]").nth(at).check();
    await tick(0);
    const one = await drawn(100);
    await tick(1);
    const differences = await page.find("run-differences").locator("tbody tr").allInnerTexts();
    assert.deepEqual(differences.map((line) => line.split(/\s*\t\s*/)), [["Memory rows", "256", "0"]], "what is equal is left out");
    await drawn(one + 100);
    assert.match(await page.find("beside").textContent(), /with a memory/);

    // Opened, it is the run that it was.
    await page.click("view-runs");
    await page.find("open-run").first().click();
    await page.status(/^Done: 40 steps/);
    assert.equal(await page.text("verdict"), verdict);
    assert.equal(await page.knob("Memory rows"), "256");
    await page.page.locator("[data-testid=take-home][aria-disabled=false]").click();
    await page.page.waitForFunction(() => !/none/.test(document.querySelector("[data-testid=export-zip]").closest("li").textContent));
    await page.page.keyboard.press("Escape");

    // Deleted, it is gone for good.
    await page.click("view-runs");
    await page.find("delete-run").first().click();
    assert.equal(await page.find("delete-run").first().innerText(), "Sure?");
    await page.find("delete-run").first().click();
    await listed(page, 1);
    await reloaded(page);
    await listed(page, 1);
    assert.match((await rows(page))[0].name, /Memory rows 0/);
  });
});

test("a run that was stopped is kept too, goes on where it was, and ends as if it had never stopped", async () => {
  await on("?engine=cpu#steps=600", {}, async (page) => {
    await page.click("run");
    await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) >= 100);
    await page.click("reset");
    await page.status(/^Ready/);
    await page.click("view-runs");
    await listed(page, 1);
    const [stopped] = await rows(page);
    const step = Number(/stopped at step (\d+) of 600/.exec(stopped.about)[1]);
    assert.ok(step >= 100 && step < 600, stopped.about);
    await page.find("open-run").click();
    await page.status(/^Training/);
    assert.ok(await page.number("step-count") >= step);
    await page.status(/^Done: 600 steps/);
    const reopened = await page.text("verdict");
    await page.click("view-runs");
    await listed(page, 1);
    assert.doesNotMatch((await rows(page))[0].about, /stopped/);
    await ran(page);
    assert.equal(await page.text("verdict"), reopened);
  });
});

test("a run on a file waits for that file", async () => {
  await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
    await page.upload(new URL("../data/trees.csv", import.meta.url).pathname);
    await page.summary(/^trees.csv/);
    await page.status(/^Ready/);
    await ran(page);
    const verdict = await page.text("verdict");
    await page.find("dataset-select").selectOption({ index: 1 });
    await page.status(/^Ready/);
    await page.click("view-runs");
    await page.find("open-run").first().click();
    await page.says("saved-run", /trees\.csv .*choose that file again/);
    // Another run meanwhile is another run: it does not take its place.
    await ran(page);
    await page.click("view-runs");
    await listed(page, 2);
    await page.find("open-run").last().click();
    await page.says("saved-run", /trees\.csv .*choose that file again/);
    await page.upload(new URL("../data/trees.csv", import.meta.url).pathname);
    await page.status(/^Done/);
    assert.equal(await page.text("verdict"), verdict);
  });
});
