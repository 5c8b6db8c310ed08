// The core with threads, which a page fetches that shares its memory with no other: the same numbers as on one thread, on as many
// threads as it says, in Chromium and in Firefox; and helpers end with the worker that they help.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { after, before } from "node:test";
import puppeteer from "puppeteer-core";

import { saved, test, tree } from "./playing.mjs";
import { ended, leaving } from "./saving.mjs";
import { Page, launch, root, serve } from "./support.mjs";

const ALONE = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const RUN = "data=digits&steps=60&evaluate_every=20&batch_size=64&memory_size=4096";
// From a click until the page rests: a slice of work is 50 ms, the rest is a busy machine.
const MOST_MS = 300;

/** What a worker runs before it is the page's: the machine has so many cores, and a helper may crash at its work. */
const cores = (count) => `Object.defineProperty(WorkerNavigator.prototype, "hardwareConcurrency", { get: () => ${count} });\n`;
const crashes = (worker) => worker.replace(/(\W)help\(\)/, '$1(()=>{throw new Error("planted")})()');

let browser, plain;
before(async () => {
  browser = await launch({ webgpu: false });
  plain = await serve();
});
after(async () => {
  await browser.close();
  plain.close();
});

/** Opens the page from a host that isolates it, on so many threads, and runs the check; `asked` has what was fetched by then. */
async function on(threads, where, check, { change = (worker) => worker, ready } = {}) {
  const asked = [];
  const instead = async (name, read) => {
    asked.push(name);
    return name === "worker.js" ? cores(threads) + change(String(await read(name))) : undefined;
  };
  const site = await serve({ instead, headers: () => ALONE });
  const page = await Page.open(browser, site.url + where, { ...leaving, ready });
  try {
    await check(page, asked, site);
    assert.deepEqual(page.problems, [], "the console is clean");
  } finally {
    await page.page.close();
    site.close();
  }
}

const core = (asked) => [...new Set(asked.filter((name) => /^nearfar-(web|threads)-.*wasm$/.test(name)).map((name) => name.split("-")[1]))];

/** Runs to the end; what came of it, to the last bit of weights and scores, but for times. */
async function history(page) {
  await page.click("run");
  const end = await ended(page);
  await page.click("evaluate-all");
  await page.says("evaluation", /precision@1/);
  const evaluated = await page.text("evaluation");
  await page.click("take-home");
  const { bytes } = await saved(page, "history");
  const steps = JSON.parse(bytes, (key, value) => (/_ms$|seconds/.test(key) ? undefined : value));
  assert.ok(JSON.stringify(steps).length > 5000, "sixty steps");
  return { end, evaluated, steps };
}

test("a page that shares its memory with no other runs on all cores, with the core for that alone, and with the same bits", async () => {
  let expected;
  const page = await Page.open(browser, `${plain.url}?engine=cpu#${RUN}`, leaving);
  assert.equal(await page.text("device"), "Runs on the CPU.");
  expected = await history(page);
  await page.page.close();
  for (const threads of [1, 2, 3]) {
    await on(threads, `?engine=cpu#${RUN}`, async (page, asked) => {
      assert.deepEqual(core(asked), ["threads"]);
      assert.equal(await page.text("device"), threads === 1 ? "Runs on the CPU." : `Runs on ${threads} threads of the CPU.`);
      assert.equal(asked.filter((name) => name === "worker.js").length, threads, "a helper for every core but one");
      assert.deepEqual(await history(page), expected);
    });
  }
});

test("where a GPU computes, or no memory may be shared, the page fetches the core without threads", async () => {
  await on(2, "?engine=gpu#data=mirrored", async (page, asked) => assert.deepEqual(core(asked), ["web"]), { ready: /^Nothing can run/ });
  const asked = [];
  const site = await serve({ instead: (name) => void asked.push(name) });
  const page = await Page.open(browser, `${site.url}?engine=cpu#data=mirrored`);
  assert.deepEqual(core(asked), ["web"]);
  await page.page.close();
  site.close();
});

/** Threads of workers that the browsers of this machine have: no other test may run one. */
function workers() {
  const comm = (file) => {
    try {
      return readFileSync(file, "utf8");
    } catch {
      return "";
    }
  };
  const ids = readdirSync("/proc").filter((id) => /^\d+$/.test(id) && comm(`/proc/${id}/cmdline`).includes("--type=renderer"));
  const tasks = (id) => {
    try {
      return readdirSync(`/proc/${id}/task`).map((task) => comm(`/proc/${id}/task/${task}/comm`));
    } catch {
      return [];
    }
  };
  return ids.flatMap(tasks).filter((name) => /^DedicatedWorker/.test(name)).length;
}

test("helpers are as many after 50 files and 30 runs as before, and end with their worker", async () => {
  // Those of pages that were closed just now take a moment to end.
  for (const until = Date.now() + 5000; workers() > 0 && Date.now() < until;) await new Promise((then) => setTimeout(then, 50));
  const none = workers();
  await on(3, "?engine=cpu#data=mirrored&steps=2&batch_size=16&memory_size=64", async (page) => {
    const before = workers();
    assert.equal(before - none, 3, "the worker and two helpers");
    for (let at = 0; at < 50; at += 1) {
      await page.upload(path.join(root, "tests/corpus/components.h5ad"));
      await page.summary(/^components.h5ad: 12 rows/);
      await page.upload(tree("trees.csv"));
      await page.summary(/^trees.csv/);
      if (at >= 30) continue;
      await page.click("run");
      await page.status(/^Done/);
      await page.click("reset");
      await page.status(/^Ready/);
    }
    for (const until = Date.now() + 5000; workers() !== before && Date.now() < until;) await page.page.waitForTimeout(50);
    assert.equal(workers(), before);
  });
  for (const until = Date.now() + 5000; workers() !== none && Date.now() < until;) await new Promise((soon) => setTimeout(soon, 50));
  assert.equal(workers(), none);
}, 600);

test("a stop comes as soon on several threads, and a map and a saved run are as on one", async () => {
  await on(2, `?engine=cpu#data=digits&steps=4000&evaluate_every=4000&batch_size=64&memory_size=4096`, async (page) => {
    await page.click("run");
    await page.says("step-count", /^[1-9]\d/);
    const ms = await page.page.evaluate(() => new Promise((stopped) => {
      const started = performance.now();
      const status = document.querySelector("[data-testid=status]");
      new MutationObserver(() => /^Paused/.test(status.textContent) && stopped(performance.now() - started)).observe(status, { childList: true, characterData: true, subtree: true });
      document.querySelector("[data-testid=pause]").click();
    }));
    console.log(`# paused in ${ms.toFixed(0)} ms`);
    assert.ok(ms < MOST_MS, `${ms} ms`);
    await page.draws("embedding-map", (pixels) => pixels > 500);
    await page.page.reload();
    await page.status(/^(Ready|Choose)/);
    assert.ok(await page.find("saved-run").isVisible(), "it was saved");
    page.problems.length = 0;
  });
});

test("a helper that crashes is told of, and another worker takes its place", async () => {
  await on(2, `?engine=cpu#${RUN}`, async (page) => {
    assert.match(await page.error(), /^The worker, which does the computing, stopped unexpectedly \(planted\): press Run/);
    page.problems.length = 0;
  }, { change: crashes, ready: /^The computing stopped/ });
});

test("a host that sends no headers: the page runs on threads from the second load on, and without its server", async () => {
  const asked = [];
  const site = await serve({ instead: (name) => void asked.push(name) });
  const page = await Page.open(browser, `${site.url}?engine=cpu#steps=20`, { serviceWorkers: "allow" });
  try {
    await page.page.waitForFunction(() => navigator.serviceWorker.controller);
    await page.page.waitForLoadState("networkidle");
    assert.deepEqual(core(asked), ["web"]);
    asked.length = 0;
    for (const _ of ["second", "third"]) {
      await page.page.reload();
      await page.status(/^Ready/);
      assert.match(await page.text("device"), /^Runs on \d+ threads of the CPU\.$/);
      await page.page.waitForLoadState("networkidle");
    }
    assert.deepEqual(core(asked), ["threads"], "once for its worker and itself, from what is kept");
    site.close();
    await page.page.reload();
    await page.status(/^Ready/);
    await page.click("run");
    await page.status(/^Done: 20 steps/);
    assert.match(await page.text("device"), /^Runs on \d+ threads of the CPU\.$/);
  } finally {
    await page.page.context().close();
    site.close();
  }
});

const chromium = { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] };
const firefox = { browser: "firefox", protocol: "webDriverBiDi", executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr" };

/** Opens the page in a browser of its own, on so many threads, or with the core that has one; `said` waits for what an element says. */
async function within(options, threads, where, check) {
  const instead = async (name, read) => (name === "worker.js" ? cores(threads ?? 1) + (await read(name)) : undefined);
  const site = await serve({ instead, headers: () => (threads ? ALONE : {}) });
  const own = await puppeteer.launch({ headless: true, protocolTimeout: 240_000, ...options });
  try {
    const page = await own.newPage();
    const problems = [];
    page.on("pageerror", (error) => problems.push(error.message));
    const said = (id, pattern) => page.waitForFunction((id, source) => new RegExp(source).test(document.querySelector(`[data-testid="${id}"]`)?.textContent ?? ""), { timeout: 240_000, polling: 50 }, id, pattern.source);
    const click = (id) => page.$eval(`[data-testid=${id}]`, (button) => button.click());
    await page.goto(site.url + where);
    await said("status", /^Ready/);
    await check({ page, said, click });
    assert.deepEqual(problems, []);
  } finally {
    await own.close();
    site.close();
  }
}

test("in Firefox, too", async () => {
  await within(firefox, 2, "?engine=cpu#data=digits&steps=20&batch_size=64&memory_size=4096", async ({ said, click }) => {
    await said("device", /^Runs on 2 threads of the CPU\.$/);
    await click("run");
    await said("status", /^Done: 20 steps/);
  });
});

/** Milliseconds from a click until an element says something. */
const lasted = (page, id, where, pattern) => page.evaluate(([id, where, source]) => new Promise((over) => {
  const [place, started] = [document.querySelector(`[data-testid=${where}]`), performance.now()];
  const look = () => new RegExp(source).test(place.textContent) && over(performance.now() - started);
  new MutationObserver(look).observe(place, { childList: true, characterData: true, subtree: true });
  document.querySelector(`[data-testid=${id}]`).click();
}), [id, where, pattern.source]);

// What one thread and two take, printed: `NEARFAR_TIMES=1 node run.mjs threads`.
for (const [name, options] of process.env.NEARFAR_TIMES ? [["Chromium", chromium], ["Firefox", firefox]] : []) {
  for (const threads of [undefined, 1, 2]) {
    test(`the time that work takes in ${name} ${threads ? `on ${threads} of the threads` : "in the core without threads"}`, async () => {
      const settings = "data=large&test_fraction=0.5&validation_fraction=0.2&steps=100000&evaluate_every=100000&evaluate_queries=100&batch_size=64&memory_size=16384";
      await within(options, threads, `?engine=cpu#${settings}`, async ({ page, said, click }) => {
        const speed = await page.$eval("[data-testid=device-why]", (why) => /([\d.]+) GFLOP/.exec(why.getAttribute("aria-description"))[1]);
        const steps = () => page.$eval("[data-testid=step-count]", (count) => [Number(count.textContent), performance.now()]);
        await click("run");
        // The memory is full after 256.
        await said("step-count", /^(2[6-9]\d|[3-9]\d\d|\d{4,})/);
        const [first, from] = await steps();
        await new Promise((over) => setTimeout(over, 8000));
        const [last, to] = await steps();
        await click("pause");
        await said("status", /^Paused/);
        const evaluation = await lasted(page, "evaluate-all", "evaluation", /precision@1/);
        const search = await lasted(page, "find-rows-to-check", "rows-to-check", /stands? out|look/);
        console.log(`# ${name}, ${threads ?? "no"} threads: ${speed} GFLOP/s, ${((1000 * (last - first)) / (to - from)).toFixed(1)} steps/s, evaluation ${evaluation.toFixed(0)} ms, rows to check ${search.toFixed(0)} ms`);
      });
    });
  }
}
