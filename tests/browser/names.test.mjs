// Names of rows: the column that tells rows apart is shown, searched and saved with them, and another can be chosen.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

import { found, pages, saved, test, written } from "./playing.mjs";

const on = pages({ webgpu: false });
const SETTINGS = "steps=20&evaluate_every=20&hidden_layers=[8]&embedding_size=4&batch_size=16";

/** 200 leaves of four species at five sites; the last is named like a formula. */
function leaves() {
  let state = 7;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const line = (i) => {
    const kind = i % 4;
    const values = Array.from({ length: 5 }, (_, at) => ((at === kind ? 2 : 0) + random()).toFixed(3));
    return [i === 199 ? "=last" : `leaf-${1000 + i}`, `site ${i % 5}`, ["ash", "birch", "cedar", "elm"][kind], ...values].join();
  };
  return ["leaf,site,species,a,b,c,d,e", ...Array.from({ length: 200 }, (_, i) => line(i))].join("\n");
}

const look = async (page, text) => {
  await page.find("neighbour-row").fill(text);
  await page.find("neighbour-row").blur();
};

test("rows are called by the column that tells them apart: under the pointer, in the panel, in lists and in files", async () => {
  const file = await written("leaves.csv", leaves());
  await on(`?engine=cpu#${SETTINGS}`, {}, async (page) => {
    await page.upload(file);
    await page.summary(/^leaves.csv: 200 rows/);
    await page.page.waitForFunction(() => document.querySelector("[data-testid=named-by]").value === "leaf");
    await page.click("run");
    await page.status(/^Done/);
    assert.match(await page.text("verdict"), /less close together: MAP@R 0\.\d\d, by the raw features 1\.00/);
    const position = await page.point("embedding-map");
    await page.find("embedding-map").hover({ position });
    const card = page.page.locator(".hover");
    await card.filter({ hasText: /^(leaf-1\d\d\d|=last), row \d+, class \w+$/ }).waitFor();
    const [, name, row] = (await card.innerText()).match(/^(\S+), row (\d+)/);
    assert.equal(name, row === "199" ? "=last" : `leaf-${1000 + Number(row)}`);

    await page.find("embedding-map").click({ position });
    await page.says("row-name", new RegExp(`^${name}$`));
    assert.equal((await page.text("row-cells")).replace(/\s+/g, " ").trim(), `leaf ${name} site site ${Number(row) % 5}`);
    await page.page.waitForFunction(() => [...document.querySelectorAll("[data-testid=neighbours] tbody td:nth-child(2)")].every((cell) => /^(leaf-1\d\d\d|=last)$/.test(cell.textContent)));
    const near = await page.find("neighbours").locator("tbody tr td:nth-child(2)").evaluateAll((cells) => cells.map((cell) => [cell.title, cell.textContent]));
    assert.equal(near.length, 10);
    for (const [title, called] of near) assert.ok(title === "Row 199" ? called === "=last" : title === `Row ${Number(called.slice(5)) - 1000}`, `${title}: ${called}`);
    await page.screenshot("names");

    // A name or a part of it; what is not on the map is told.
    const [other] = near;
    await look(page, other[1]);
    await page.says("row-name", new RegExp(`^${other[1]}$`));
    await look(page, other[1].slice(2).toUpperCase());
    await page.says("row-name", new RegExp(`^${other[1]}$`));
    // Rows of other sides are found, too, and say that they are not drawn.
    let said = "";
    for (let row = 0; !/^A training row, not on the map, which shows test rows\. Class \w+: /.test(said); row += 1) {
      await look(page, `leaf-${1000 + row}`);
      await page.says("row-name", new RegExp(`^leaf-${1000 + row}$`));
      ({ said } = await found(page, row));
    }
    await look(page, "no such leaf");
    await page.says("notice", /^No row has "no such leaf" in its name\.$/);
  });
});

test("what is saved has the names, and another column can name the rows at once, also after a run", async () => {
  const file = await written("leaves.csv", leaves());
  await on(`?engine=cpu#${SETTINGS}`, {}, async (page) => {
    await page.upload(file);
    await page.summary(/^leaves.csv: 200 rows/);
    await page.click("run");
    await page.status(/^Done/);
    const table = async () => {
      await page.click("take-home");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=export-csv]")?.getAttribute("aria-disabled") === "false");
      const [head, ...lines] = (await saved(page, "csv")).bytes.toString().trim().split("\n").map((line) => line.split(","));
      await page.page.keyboard.press("Escape");
      return { head, lines };
    };
    const { head, lines } = await table();
    assert.deepEqual(head.slice(0, 3), ["row", "leaf", "label"]);
    for (const [row, name] of lines) assert.equal(name, row === "199" ? "'=last" : `leaf-${1000 + Number(row)}`);
    await page.find("named-by").selectOption("site");
    const other = await table();
    assert.deepEqual(other.head.slice(0, 3), ["row", "site", "label"]);
    for (const [row, name] of other.lines) assert.equal(name, `site ${Number(row) % 5}`);
    // Rows that are picked on the map.
    await page.find("map-tool").selectOption("box");
    const box = await page.find("embedding-map").boundingBox();
    await page.page.mouse.move(box.x + 2, box.y + 2);
    await page.page.mouse.down();
    await page.page.mouse.move(box.x + box.width - 2, box.y + box.height - 2, { steps: 5 });
    await page.page.mouse.up();
    const [download] = await Promise.all([page.page.waitForEvent("download"), page.click("picked-save")]);
    const [first, ...picked] = (await readFile(await download.path(), "utf8")).trim().split("\n");
    assert.equal(first, "row,name,label");
    assert.ok(picked.length > 10);
    for (const line of picked) assert.match(line, new RegExp(`^(\\d+),"site ${Number(line.split(",")[0]) % 5}","\\w+"$`));
  });
});

test("rows without a column that tells them apart keep their numbers", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    assert.ok(await page.find("named-by").isHidden());
    assert.equal(await page.find("neighbour-row").getAttribute("type"), "number");
  });
});
