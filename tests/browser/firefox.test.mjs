// The way of a newcomer through the page, in Firefox and in Chromium, with WebGPU and without: it loads, takes a file that
// is dropped on it, trains, stops, goes on and evaluates.
import assert from "node:assert/strict";
import { access, readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";

import { root, serve } from "./support.mjs";

const seconds = 240_000;
const browsers = {
  firefox: (webgpu) => ({
    browser: "firefox",
    protocol: "webDriverBiDi",
    executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr",
    extraPrefsFirefox: {
      "dom.webgpu.enabled": webgpu,
      "dom.webgpu.workers.enabled": webgpu,
      "gfx.webgpu.ignore-blocklist": webgpu,
    },
  }),
  chromium: (webgpu) => ({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", ...(webgpu ? ["--enable-unsafe-webgpu"] : [])],
  }),
};

let site;
before(async () => {
  site = await serve();
});
after(() => site.close());

/** Opens the page in a browser of its own, and ends both; `prefs` are Firefox's. */
async function within(name, webgpu, where, check, prefs = {}) {
  const options = browsers[name](webgpu);
  options.extraPrefsFirefox = { ...options.extraPrefsFirefox, ...prefs };
  await access(options.executablePath).catch(() => {
    throw new Error(`${options.executablePath} is missing: run \`make browser\`, or set ${name.toUpperCase()} to where it is`);
  });
  const browser = await puppeteer.launch({ headless: true, protocolTimeout: seconds, ...options });
  try {
    const page = await browser.newPage();
    await page.setViewport({ width: 1920, height: 1080 });
    const problems = [];
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(site.url + where);
    await status(page, /^Ready/);
    await check(page);
    assert.deepEqual(problems, [], "nothing went wrong on the way");
  } finally {
    await browser.close();
  }
}

const text = (page, id) => page.$eval(`[data-testid="${id}"]`, (element) => element.textContent);
const click = (page, id) => page.$eval(`[data-testid="${id}"]`, (element) => element.click());

/** Waits until an element says so. */
const says = (page, id, pattern) =>
  page.waitForFunction(
    (id, source) => new RegExp(source).test(document.querySelector(`[data-testid="${id}"]`)?.textContent ?? ""),
    { timeout: seconds, polling: 50 },
    id,
    pattern.source,
  );
const status = (page, pattern) => says(page, "status", pattern);

/** Drops a file on the page. */
async function drop(page, file) {
  const content = await readFile(path.join(root, "tests/data", file), "utf8");
  await page.evaluate(
    (name, content) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([content], name, { type: "text/csv" }));
      const target = document.querySelector("main") ?? document.body;
      for (const type of ["dragenter", "dragover", "drop"]) {
        target.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer }));
      }
    },
    file,
    content,
  );
}

for (const name of ["firefox", "chromium"]) {
  for (const webgpu of [true, false]) {
    test(`a newcomer's way through the page in ${name}, ${webgpu ? "with" : "without"} WebGPU`, async () => {
      const engine = webgpu ? "?engine=gpu" : "";
      await within(name, webgpu, `${engine}#steps=4000&evaluate_every=4000&batch_size=16`, async (page) => {
        assert.match(await text(page, "device"), webgpu ? /GPU/ : /CPU/);
        await click(page, "run");
        await status(page, /^Training/);
        await says(page, "step-count", /^[1-9]/);
        await click(page, "pause");
        await status(page, /^Paused/);
        await click(page, "evaluate-all");
        await says(page, "evaluation", /precision@1.*MAP@R/s);
        await click(page, "reset");
        await status(page, /^Ready/);
        await drop(page, "trees.csv");
        await says(page, "dataset-summary", /trees\.csv/);
        await click(page, "step");
        await status(page, /^Paused at step 1 /);
        await click(page, "evaluate-all");
        await says(page, "evaluation", /at step 1/);
      });
    });
  }
}

test("in Firefox a run that the full storage does not take is said to be lost with the page, and what was kept before stays", async () => {
  const settings = "data=digits";
  const rows = (page, pattern) => says(page, "runs", pattern);
  // In kB: one run of digits fits, and no second.
  const prefs = { "dom.quotaManager.temporaryStorage.fixedLimit": 2200 };
  await within("firefox", false, `?engine=cpu#steps=40&${settings}`, async (page) => {
    await click(page, "run");
    await status(page, /^Done: 40 steps/);
    await click(page, "view-runs");
    await says(page, "shelf", /^One kept run takes/);
    await page.evaluate(() => { location.hash = location.hash.replace("steps=40", "steps=41"); });
    await page.waitForFunction(() => document.getElementById("knob-steps").value === "41");
    await click(page, "view-run");
    await click(page, "run");
    await status(page, /^Done: 41 steps/);
    await says(page, "unkept", /^A run is not kept, and is gone when this page is closed: the browser's storage for this page is full\. One kept run takes/);
    await page.reload();
    await status(page, /^Ready/);
    await click(page, "view-runs");
    await says(page, "shelf", /^One kept run takes/);
    await rows(page, /Open/);
    // Room for another is made by deleting the one that is there.
    for (const _ of ["asked", "sure"]) await click(page, "delete-run");
    await says(page, "shelf", /^0 kept runs take 0 B/);
  }, prefs);
});
