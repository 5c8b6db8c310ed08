// The runs that the page keeps: after a reload they are there, they are looked at side by side, and any opens again.
import assert from "node:assert/strict";

import { SMALL, native, pages, test, tree } from "./playing.mjs";

const on = pages();
const DIGITS = "?engine=cpu#data=digits&steps=40";

/** Sets how many bytes the browser keeps for the page's host; without a number as many as it likes. It looks every few seconds. */
async function quota(page, quotaSize) {
  const { origin } = new URL(page.page.url());
  const session = await page.page.context().newCDPSession(page.page);
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize });
  // It holds while this session lasts.
  return session;
}

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
  await on(`?engine=cpu#data=mirrored&${SMALL}`, {}, async (page) => {
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
  await on("?engine=cpu#data=mirrored&steps=600", {}, async (page) => {
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
  await on(`?engine=cpu#data=mirrored&${SMALL}`, {}, async (page) => {
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

test("a run that the browser has no room for is said to be lost with the page until there is room", async () => {
  await on(DIGITS, {}, async (page) => {
    const session = await quota(page, 60_000);
    await ran(page);
    await page.says("unkept", /^A run is not kept, and is gone when this page is closed: the browser's storage for this page is full\. 0 kept runs take 0 B\./);
    await page.click("see-runs");
    await listed(page, 1);
    assert.match((await rows(page))[0].about, /, not kept$/);
    assert.equal(await page.find("shelf").locator("span").innerText(), "0 kept runs take 0 B in this browser.");
    assert.doesNotMatch(await page.page.innerText("main"), /Every run is kept/);
    await page.click("view-run");
    await page.click("take-it-home");
    await page.find("export-zip").waitFor();
    await page.page.keyboard.press("Escape");
    // The reload loses it, as was said; what is said then is no promise either.
    await reloaded(page);
    assert.match(await page.page.innerText("main"), /Runs are kept here, in this browser alone, while its storage has room: .* There is none yet/);
    await ran(page);
    await page.says("unkept", /not kept/);
    await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(page.page.url()).origin });
    // Whenever they are looked at, it is tried again.
    while (await page.find("unkept").isVisible()) {
      await page.click("view-run");
      await page.click("view-runs");
      await page.page.waitForTimeout(1000);
    }
    await reloaded(page);
    await listed(page, 1);
    assert.doesNotMatch((await rows(page))[0].about, /not kept/);
    assert.match(await page.text("shelf"), /^One kept run takes [\d.]+ KiB in this browser\./);
  });
});

test("where old runs are deleted, one that was not kept takes their room", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}`, {}, async (page) => {
    await quota(page, 1_000_000);
    let kept = -1;
    for (let steps = 41; await page.find("unkept").isHidden(); steps += 1) {
      kept += 1;
      await page.set("Steps", String(steps));
      await ran(page);
      // It is kept by then, or that is said.
      await page.click("view-runs");
      await listed(page, kept + 1);
      await page.page.waitForTimeout(500);
    }
    assert.ok(kept > 1, `${kept} runs were kept`);
    await page.says("unkept", new RegExp(`^A run is not kept, .*\\. ${kept} kept runs take [\\d.]+ KiB\\.`));
    const told = (await rows(page)).map((row) => /not kept/.test(row.about));
    assert.deepEqual(told, [true, ...Array(kept).fill(false)]);
    assert.match(await page.text("delete-old"), /^Delete the (\d )?oldest \([\d.]+ KiB\)$/);
    await page.click("delete-old");
    await page.click("delete-old");
    await page.find("unkept").waitFor({ state: "hidden", timeout: 60_000 });
    const left = kept - Math.ceil(kept / 2) + 1;
    await reloaded(page);
    await listed(page, left);
    const [newest] = await rows(page);
    assert.match(newest.name, new RegExp(`Steps ${41 + kept}`));
    await page.find("open-run").first().click();
    await page.status(new RegExp(`^Done: ${41 + kept} steps`));
  });
});

test("a kept run that changes when the storage is full stays as it was kept", async () => {
  await on(DIGITS, {}, async (page) => {
    await ran(page);
    const verdict = await page.text("verdict");
    await page.click("view-runs");
    await page.says("shelf", /^One kept run takes/);
    await quota(page, 60_000);
    const name = page.find("runs").locator("input[type=text]");
    let names = 0;
    while (await page.find("unkept").isHidden()) {
      names += 1;
      await name.fill(`name ${names}`);
      await name.blur();
      await page.page.waitForTimeout(1000);
    }
    assert.equal((await rows(page))[0].name, `name ${names}`);
    await reloaded(page);
    await listed(page, 1);
    assert.notEqual((await rows(page))[0].name, `name ${names}`);
    await page.find("open-run").click();
    await page.status(/^Done: 40 steps/);
    assert.equal(await page.text("verdict"), verdict);
  });
});

test("another folder of the host has runs of its own, and what was kept before there were such is moved", async () => {
  await on(`?engine=cpu#data=mirrored&${SMALL}`, {}, async (page) => {
    await ran(page);
    await page.click("view-runs");
    await page.says("shelf", /^One kept run takes/);
    const { href } = new URL(page.page.url());
    // As an earlier version kept it.
    await page.page.evaluate(async () => {
      const done = (request) => new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
      const open = (name) => {
        const request = indexedDB.open(name, 1);
        request.onupgradeneeded = () => request.result.createObjectStore("runs");
        return done(request);
      };
      const [now, before] = [await open("nearfar /nearfar/"), await open("nearfar")];
      const store = (database) => database.transaction("runs", "readwrite").objectStore("runs");
      const [run] = await done(store(now).getAll());
      await done(store(before).put(run, JSON.parse(run.text).id));
      await done(store(now).clear());
      localStorage.setItem("nearfar.theme", "dark");
    });
    await page.page.goto("about:blank");
    await page.page.goto(href.replace("/nearfar/", "/another/"));
    await page.status(/^Ready/);
    assert.equal(await page.text("theme"), "◐ Dark");
    await page.click("view-runs");
    await listed(page, 1);
    const names = await page.page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name));
    assert.ok(names.includes("nearfar /another/") && !names.includes("nearfar"), names.join());
    await page.page.goto(href);
    await page.status(/^Ready/);
    await page.click("view-runs");
    await page.says("shelf", /^0 kept runs take 0 B/);
    page.requests.length = 0;
  });
});

test("a kept run on a file asks for its file by name, over a reload, and opens with it", async () => {
  // The older dialog, which can be driven.
  const init = () => delete self.showOpenFilePicker;
  await on("?engine=cpu#steps=20&evaluate_every=20&batch_size=12&memory_size=24&hidden_layers=[8]", { init }, async (page) => {
    await page.upload(tree("trees.csv"));
    await page.summary(/^trees\.csv: 60 rows/);
    await ran(page);
    const verdict = await page.text("verdict");
    await page.click("view-runs");
    await listed(page, 1);
    const name = page.find("runs").locator("input[type=text]");
    await name.fill("leaves");
    await name.blur();
    await page.says("shelf", /^One kept run takes/);
    await page.page.reload();
    await page.status(/^Choose a sample, or drop a table/);
    await page.click("view-runs");
    await listed(page, 1);
    assert.equal((await rows(page))[0].name, "leaves");
    await page.find("open-run").click();
    await page.says("saved-run", /^A run on trees\.csv \(60 rows\) is kept, at step 20 of 20\. Its rows are not: choose that file again to see it again\./);
    assert.equal(await page.text("choose-its-file"), "Choose trees.csv ..");
    const [chooser] = await Promise.all([page.page.waitForEvent("filechooser"), page.click("choose-its-file")]);
    await chooser.setFiles(tree("trees.csv"));
    await page.status(/^Done: 20 steps/);
    assert.equal(await page.text("verdict"), verdict);
    page.requests.length = 0;
  });
});
