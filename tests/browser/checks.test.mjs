// Rows to check: labels that were changed by hand are found, shown on the map, and saved.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { found, pages, saved as takenHome, test, written } from "./playing.mjs";
import { root } from "./support.mjs";

const cli = path.join(root, "target/debug/nearfar");

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

/** The suspects as the table has them. */
const suspects = (page) => page.find("suspects").locator("tbody tr").evaluateAll((lines) => lines.map((line) => {
  const [name, label, likely, head, features] = [...line.cells].map((cell) => cell.textContent);
  return { row: Number(line.querySelector("[data-suspect]").title.slice(4)), name, label, likely, head: parseInt(head, 10), features: parseInt(features, 10), is: line.className };
}));

test("every row is checked by a head that did not train on it, labels are accepted by keys, and the changed ones saved", async () => {
  const { text, changed } = clouds();
  // Each row has a name.
  const named = text.split("\n").map((line, at) => `${at === 0 ? "id" : `tree-${String(at - 1).padStart(3, "0")}x`},${line}`).join("\n");
  const file = await written("trees.csv", named);
  await on("?engine=cpu", {}, async (page) => {
    await page.upload(file);
    await page.summary(/600 rows/);
    await page.set("Steps", "60");
    await page.click("run");
    await page.status(/^Done/);
    await page.page.getByRole("tab", { name: "Rows" }).click();
    await page.click("check-every-row");
    await page.says("check-every-row", /^Stop checking$/);
    await page.click("check-every-row");
    await page.says("check-every-row", /^Check the label of every row$/);
    assert.equal(await page.find("suspects").count(), 0, "stopped before the end, nothing is said");
    await page.click("check-every-row");
    await page.says("rows-to-check", /of 600 rows look like another class, \d+ by head and features, \d+ by the head only, \d+ by the features only:/);
    const found = await suspects(page);
    const right = found.filter(({ row }) => changed.includes(row));
    console.log(`${right.length} of ${changed.length} changed labels among ${found.length} rows to check`);
    // Training rows are among them, which the head of the run has learned by heart.
    assert.ok(right.length >= 0.75 * changed.length && right.length >= 0.6 * found.length, `${right.length} of ${found.length}`);
    for (const { row, name, label, likely, head, features } of found) {
      assert.equal(name, `tree-${String(row).padStart(3, "0")}x`);
      assert.notEqual(label, likely);
      assert.ok(head >= 8 || features >= 8, `${head} ${features}`);
    }
    await page.screenshot("checks");
    // Keys: the first is accepted, the second passed over, the third accepted and taken back.
    await page.find("suspects").locator("[data-suspect='0']").focus();
    for (const key of ["a", "p", "a", "ArrowUp", "A"]) await page.page.keyboard.press(key);
    await page.says("checked", new RegExp(`^1 accepted, 1 passed, ${found.length - 2} left\\.$`));
    const after = await suspects(page);
    assert.deepEqual(after.slice(0, 3).map(({ is }) => is.trim()), ["accepted", "passed", ""]);
    const place = await page.page.evaluate(() => document.activeElement.dataset.suspect);
    assert.equal(place, "3");
    const [download] = await Promise.all([page.page.waitForEvent("download"), page.click("save-changes")]);
    assert.equal(download.suggestedFilename(), "changed_labels.csv");
    const [first] = found;
    assert.equal(await readFile(await download.path(), "utf8"), `row,name,label,new_label\n${first.row},"${first.name}","${first.label}","${first.likely}"\n`);
    // Enter shows a row among its neighbours, also one that trained.
    const trained = found.findIndex(({ row }) => row % 5 === 0);
    await page.find("suspects").locator(`[data-suspect='${Math.max(trained, 0)}']`).press("Enter");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=neighbours] tbody tr"));
    // All of them as a file, which the command line makes of the same run.
    const [all] = await Promise.all([page.page.waitForEvent("download"), page.click("save-rows-to-check")]);
    const lines = (await readFile(await all.path(), "utf8")).trim().split("\n");
    assert.equal(lines[0], "row,name,label,likely_label,neighbours_of_likely,neighbours_of_label,neighbours,similarity,margin,by_head,neighbours_of_likely_by_features");
    assert.deepEqual(lines.slice(1).map((line) => Number(line.split(",")[0])), found.map(({ row }) => row));
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
    const archive = path.join(path.dirname(file), "run.zip");
    await writeFile(archive, (await takenHome(page, "zip")).bytes);
    const out = path.join(path.dirname(file), "to_check.csv");
    execFileSync(cli, ["export", archive, "--format", "rows-to-check", "--folds", "5", "--data", file, "--engine", "cpu", "--out", out], { stdio: "ignore" });
    const native = (await readFile(out, "utf8")).trim().split("\n").slice(1).map((line) => Number(line.split(",")[0]));
    const both = native.filter((row) => found.some((of) => of.row === row)).length;
    // A browser has no fused multiply-add: a row at the bound may fall on the other side.
    assert.ok(both >= 0.9 * Math.max(native.length, found.length), `${native} natively`);
  });
});

test("rows of pictures are checked with their pictures", async () => {
  await on("?engine=cpu#data=digits&steps=20&batch_size=32", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    await page.page.getByRole("tab", { name: "Rows" }).click();
    await page.click("check-every-row");
    await page.says("rows-to-check", /of 1797 rows look like another class/);
    const lines = page.find("suspects").locator("tbody tr");
    assert.ok((await lines.count()) > 5);
    const inked = await lines.locator("canvas").evaluateAll((all) => all.map((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.some((value, at) => at % 4 === 0 && value < 100) && data.some((value, at) => at % 4 === 0 && value > 200);
    }));
    assert.equal(inked.length, await lines.count(), "each has one, trained on or not");
    assert.ok(inked.every(Boolean));
  });
});
