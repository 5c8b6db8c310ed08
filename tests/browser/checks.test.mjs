// Rows to check: labels that were changed by hand are found, shown on the map, and saved.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

import { found, pages, test, written } from "./playing.mjs";

const on = pages();

/** Three clouds of rows; every 25th row bears the name of another cloud. */
function clouds() {
  let state = 1;
  // A linear congruential generator: the same rows every time.
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const names = ["ash", "birch", "cedar"];
  const changed = [];
  const lines = Array.from({ length: 600 }, (_, row) => {
    const cloud = row % 3;
    const isChanged = row % 25 === 11;
    if (isChanged) changed.push(row);
    const values = [0, 1, 2, 3].map((axis) => ((axis === cloud ? 4 : 0) + random() + random()).toFixed(4));
    return [...values, names[(cloud + isChanged) % 3]].join(",");
  });
  return { text: ["a,b,c,d,tree", ...lines].join("\n"), changed };
}

test("labels that were changed are found, shown on the map with their neighbours, and saved", async () => {
  const { text, changed } = clouds();
  await on("?engine=cpu", {}, async (page) => {
    await page.upload(await written("trees.csv", text));
    await page.summary(/600 rows/);
    await page.status(/^Ready/);
    await page.page.getByRole("tab", { name: "Rows" }).click();
    assert.equal(await page.find("find-rows-to-check").getAttribute("aria-disabled"), "true");
    await page.set("Steps", "60");
    await page.click("run");
    await page.status(/^Done/);
    await page.click("find-rows-to-check");
    await page.says("rows-to-check", /of \d+ rows look like another class/);
    const lines = await page.find("suspects").locator("tbody tr").evaluateAll((lines) => lines.map((line) => [...line.cells].map((cell) => cell.textContent)));
    const rows = lines.map(([row]) => Number(row));
    assert.ok(rows.length >= 4, `${rows}`);
    for (const row of rows) assert.ok(changed.includes(row), `row ${row} was not changed`);
    for (const [, label, likely, votes] of lines) {
      assert.notEqual(label, likely);
      assert.match(votes, /^(8|9|10) of 10$/);
    }
    assert.match(await page.text("confused"), /ash for|birch for|cedar for/);
    // A click shows it, and the neighbours say the same.
    await page.page.getByRole("button", { name: `Show row ${rows[0]} on the map` }).click();
    const around = await found(page, rows[0]);
    assert.ok(around.lines.filter(({ name }) => name === lines[0][2]).length >= 8, JSON.stringify(around.lines));
    // The file counts rows as the page does.
    const [download] = await Promise.all([page.page.waitForEvent("download"), page.click("save-rows-to-check")]);
    const saved = (await readFile(await download.path(), "utf8")).trim().split("\n").slice(1);
    assert.deepEqual(saved.map((line) => Number(line.split(",")[0])), rows);
  });
});
