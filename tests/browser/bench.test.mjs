// The page that measures: what it says in JSON, and what it refuses.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, serve } from "./support.mjs";

let site, browser;
before(async () => {
  site = await serve();
  browser = await launch();
});
after(async () => {
  await browser.close();
  site.close();
});

/** Opens the page and waits for its end: the status, the report or nothing, and what was said of an error. */
async function bench(query) {
  const page = await browser.newPage({ serviceWorkers: "block" });
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(`${site.url}?bench=${query}`);
  const status = page.locator("[data-testid=status]").filter({ hasText: /Done|Failed/ });
  await status.waitFor({ timeout: 240_000 });
  const [said, json, error] = [
    await status.innerText(),
    await page.locator("[data-testid=bench]").textContent(),
    await page.locator("[data-testid=error]").textContent(),
  ];
  await page.close();
  assert.deepEqual(problems, [], "the console is clean");
  return { said, report: json && JSON.parse(json), error };
}

test("a bench in the browser answers as the binary does, on both engines", async () => {
  for (const engine of ["gpu", "cpu"]) {
    const { said, report } = await bench(`knn&engine=${engine}&queries=20&references=300,500&dim=8&k=3&answers=20`);
    assert.equal(said, "Done");
    assert.equal(report.engine, engine);
    assert.ok(report.peak_gflops > 0);
    const [small, large] = report.lines;
    assert.deepEqual([small.what, small.k, small.queries, small.references, small.dim], ["knn", 3, 20, 300, 8]);
    assert.equal(large.references, 500);
    assert.ok(0 < large.p10_ms && large.p10_ms <= large.median_ms && large.median_ms <= large.p90_ms);
    assert.ok(large.gflops > 0 && large.share_of_peak > 0 && large.submits > 0);
    assert.ok(0 < large.scratch_bytes && large.scratch_bytes < large.memory_bytes);
    assert.equal(large.found.ids.length, 60);
    assert.ok(large.dispatches > 0);
    for (const count of [large.waits, large.uploaded_bytes, large.fetched_bytes]) assert.equal(count > 0, engine === "gpu");
    assert.equal(large.device_ms !== null, report.features.includes("timestamp-query"), "timed where the browser has timestamps");
  }
  const { report } = await bench("evaluate&engine=cpu&queries=60&references=200&dim=16&classes=5&budget=8MiB");
  assert.deepEqual([report.lines[0].what, report.lines[0].classes], ["evaluate", 5]);
  assert.ok(report.lines[0].memory_bytes <= 8 * 2 ** 20);
});

test("what makes no sense is refused in a sentence", async () => {
  const refusals = {
    mine: 'there is no bench "mine": knn, evaluate or mining',
    "knn&dim=0": 'dim is "0": numbers above 0 with commas are expected',
    "knn&classes=5": 'there is no "classes": queries, references, dim, k, answers',
    "knn&engine=cpu&references=5&k=6": "k is 6: there are 5 references, so 1 to 5 can be asked for",
    "knn&budget=5": 'budget is "5": 512MiB is expected, or other MiB',
  };
  for (const [query, sentence] of Object.entries(refusals)) {
    const { said, report, error } = await bench(query);
    assert.deepEqual([said, report, error], ["Failed", "", sentence]);
  }
});
