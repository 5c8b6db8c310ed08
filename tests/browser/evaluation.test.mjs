// What a run will take, and every row scored.
import assert from "node:assert/strict";
import path from "node:path";

import { SMALL, found, memoryIsWithinBudget, native, pages, scores, test, written } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages();

test("what a run will take is said before it starts, and is what it holds", async () => {
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#data=digits&${SMALL}`, {}, async (page) => {
      const forecast = page.find("forecast");
      await page.says("forecast", /of the 256 MiB that you allow/);
      assert.match(await forecast.innerText(), /^This run will take (about [\d.]+|less than a) (s|second|min) and [\d.]+ MiB of device memory, of the 256 MiB that you allow\.$/);
      const bytes = () => page.bare("forecast", "bytes");
      const small = await bytes();
      await page.set("Memory rows", "16384");
      await page.page.waitForFunction((small) => Number(document.querySelector("[data-testid=forecast]").dataset.bytes) > small + 2 ** 21, small);
      assert.match(await page.find("forecast-by-purpose").locator("span").first().getAttribute("title"), /^memory bank: [\d.]+ MiB$/);
      // Refused before Run, with the least budget that does.
      await page.set("Budget, MiB", "5");
      await page.says("forecast", /This run cannot start/);
      const [, least] = (await forecast.innerText()).match(/^This run cannot start: "training" needs [\d.]+ MiB, [\d.]+ MiB of the 5 MiB budget is free: raise the budget to (\d+) MiB, or lower memory_size, batch_size or the widths\.$/);
      if (engine === "gpu") await page.screenshot("forecast-refused-light");
      // One click takes the largest memory that fits.
      await page.find("fits").first().click();
      await page.says("forecast", /of the 5 MiB that you allow/);
      assert.ok((await bytes()) <= 5 * 2 ** 20);
      await page.set("Memory rows", "16384");
      await page.says("forecast", /This run cannot start/);
      await page.set("Budget, MiB", least);
      await page.says("forecast", new RegExp(`of the ${least} MiB that you allow`));
      const expected = await bytes();
      assert.ok(expected <= Number(least) * 2 ** 20);
      if (engine === "gpu") await page.screenshot("forecast-light");
      await page.click("step");
      await page.status(/^Paused/);
      assert.ok(await forecast.isHidden());
      await page.click("run");
      await page.status(/^Done/);
      assert.equal(await page.bare("memory-peak", "bytes"), expected, "the run held what was forecast");
      assert.ok(await forecast.isHidden(), "these settings have run");
      await page.set("Steps", "44");
      assert.ok(await forecast.isVisible());
    });
  }
});

test("vectors of every size are scored, the whole ones as the run's own test rows are", async () => {
  await on("?engine=cpu#data=digits&steps=60", {}, async (page) => {
    assert.ok(await page.find("measure-sizes").isHidden());
    await page.click("run");
    await page.status(/^Done/);
    await page.click("measure-sizes");
    const tables = page.find("sizes").locator("details");
    await tables.nth(2).waitFor();
    const read = await tables.evaluateAll((all) => all.map((table) => ({
      name: table.querySelector("summary").textContent,
      said: table.querySelector("p").textContent,
      cells: [...table.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.innerText.trim() || cell.textContent)),
      advised: table.querySelector(".advised").textContent,
    })));
    assert.deepEqual(read.map(({ name }) => name), ["Head", "Linear map", "Rows as in the file"]);
    // Of the page's own comparison, which has the features scaled.
    const own = await page.find("gains").locator("tbody").evaluate((body) => [...body.rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
    for (const [at, name] of [/^This head/, /linear map/i].entries()) {
      const [, nearest, groups] = own.find(([row]) => name.test(row));
      const [, whole] = read[at].cells[0];
      // Halves down to eight: of the linear map's few directions and a constant there are none.
      const numbers = read[at].cells.map(([cell]) => Number.parseInt(cell));
      assert.deepEqual(numbers, at === 1 ? numbers.slice(0, 1) : [64, 32, 16, 8]);
      assert.ok(whole.startsWith(nearest) && whole.includes(groups), `${name}: ${whole}, expected ${nearest} and ${groups}`);
      assert.ok(read[at].cells.every((row) => row.length === 5), "four formats");
      const score = read[at].said.match(/precision@1 ([\d.]+)/)?.[1] ?? nearest;
      assert.ok(read[at].advised.startsWith(score), read[at].said);
    }
    await page.screenshot("sizes-light");
    await page.click("reset");
    await page.status(/^Ready/);
    assert.equal(await tables.count(), 0, "they were of that run");
  });
});

test("every row is evaluated: validation while the run goes on, the test side when it is over", async () => {
  // So many steps that the run is still going on when the button is pressed.
  for (const [engine, steps] of [["gpu", 200], ["cpu", 800]]) {
    const settings = [`steps=${steps}`, "evaluate_queries=100"];
    const { final } = native("many-classes", ...settings);
    await on(`?engine=${engine}#data=many-classes&${settings.join("&")}`, {}, async (page) => {
      assert.ok(await page.find("evaluate-all").isHidden());
      await page.click("run");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=precision-at-1]").textContent !== "–");
      assert.match(await page.text("evaluate-all-forecast"), /^Each of the 500 validation rows looks for its class among the others: .* s(econd)?, within [\d.]+ [KM]iB that the run holds already$/);
      await page.click("evaluate-all");
      await page.find("evaluation").locator("table").waitFor();
      const mid = await scores(page);
      assert.match(mid.caption, /^500 validation rows at step \d+, each compared with all others/);
      await page.status(/^Done/);
      assert.deepEqual(await scores(page), mid, "it stays until it is asked for again");
      assert.match(await page.text("evaluate-all-forecast"), /^Each of the 1500 test rows/);
      await page.click("evaluate-all");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=evaluation] caption").textContent.startsWith("1500 test rows"));
      await page.status(/^Done/);
      const all = await scores(page);
      assert.match(all.caption, new RegExp(`at step ${steps},`));
      const expected = {
        "precision@1": final.test.precision_at_1,
        "R-precision": final.test.r_precision,
        "MAP@R": final.test.mean_average_precision_at_r,
        MAP: final.test.mean_average_precision,
        MRR: final.test.mean_reciprocal_rank,
      };
      for (const [name, value] of Object.entries(expected)) {
        assert.ok(Math.abs(Number.parseFloat(all[name]) - value) < 0.02, `${name}: ${all[name]}, expected ${value}`);
      }
      assert.equal(Number.parseFloat(all["precision@1"]).toFixed(2), (await page.number("precision-at-1")).toFixed(2), "the number of the verdict");
      const recalls = [1, 2, 4, 8, 16].map((k) => Number.parseFloat(all[k === 1 ? "precision@1" : `recall@${k}`]));
      assert.deepEqual(recalls, [...recalls].sort(), "recall grows with k");
      for (const name of ["precision@1", "recall@2"]) assert.match(all[name], /^0\.\d{3}\s*± 0\.0\d\d$/);
      await memoryIsWithinBudget(page);
      if (engine === "gpu") {
        await page.find("embedding-map").click({ position: await page.point("embedding-map") });
        await found(page);
        await page.screenshot("evaluation-light");
        await page.page.emulateMedia({ colorScheme: "dark" });
        await page.screenshot("evaluation-dark");
        await page.page.setViewportSize({ width: 420, height: 900 });
        await page.page.screenshot({ path: path.join(root, "tests/browser/screenshots/narrow-dark.png"), fullPage: true });
      }
      await page.click("reset");
      await page.status(/^Ready/);
      assert.ok(await page.find("evaluate-all").isHidden());
    });
  }
});

test("a long evaluation shows how far it is, stops at once, and the run goes on as if it had not been", async () => {
  const rows = Array.from({ length: 20_000 }, (_, i) => `${(i * 7919) % 1009},${(i * 104_729) % 997},${i % 50},c${i % 400}`);
  const file = await written("wide.csv", ["a,b,c,label", ...rows].join("\n"));
  const settings = "test_fraction=0.05&validation_fraction=0.9&evaluate_queries=50&steps=4000&hidden_layers=[16]&embedding_size=16";
  await on(`?engine=cpu#data=file:wide.csv&${settings}`, {}, async (page) => {
    await page.upload(file);
    await page.summary(/^wide.csv/);
    await page.click("run");
    await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 0);
    await page.click("evaluate-all");
    await page.status(/^Scoring every row/);
    assert.ok(await page.find("pause").isDisabled());
    await page.page.waitForFunction(() => /^[1-9][\d\s]* of 17\s100 rows scored, (about [\d.]+ (s|min)|less than a second) left$/.test(document.querySelector("[data-testid=evaluate-all-forecast]").textContent));
    const waited = await page.page.evaluate(() => new Promise((resolve) => {
      const started = performance.now();
      new MutationObserver(() => resolve(performance.now() - started)).observe(document.querySelector("[data-testid=status]"), { childList: true, characterData: true, subtree: true });
      document.querySelector("[data-testid=evaluate-all]").click();
    }));
    assert.match(await page.text("status"), /^Training/);
    assert.ok(waited < 300, `it stopped after ${waited} ms`);
    assert.equal(await page.find("evaluation").locator("table").count(), 0);
    const step = await page.number("step-count");
    await page.page.waitForFunction((step) => Number(document.querySelector("[data-testid=step-count]").textContent) > step, step);
    // A new choice of data does not wait for it, either.
    await page.click("evaluate-all");
    await page.status(/^Scoring every row/);
    await page.find("dataset-select").selectOption("digits");
    await page.click("open");
    await page.status(/^Ready/, 5);
    assert.match(await page.text("dataset-summary"), /^1797 rows/);
  });
});
