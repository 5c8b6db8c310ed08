// The map, and the rows nearest to one.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

import { found, neighbours, pages, test, written } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages();

/** The rows of an NPY file of f32, as this core writes it. */
async function matrix(file) {
  const bytes = await readFile(file);
  const start = 10 + bytes.readUInt16LE(8);
  const [rows, dim] = bytes.toString("latin1", 10, start).match(/\((\d+), (\d+)\)/).slice(1).map(Number);
  return Array.from({ length: rows }, (_, i) => Array.from({ length: dim }, (_, j) => bytes.readFloatLE(start + 4 * (i * dim + j))));
}

test("a click on the map shows the nearest rows, those of the trained head, on both engines", async () => {
  // The test side of this sample is its last 1,500 rows, ten of a class.
  const out = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  execFileSync(path.join(root, "target/debug/nearfar"), ["train", "--data", "sample:many-classes", "--set", "steps=20", "--out", out], { stdio: "ignore" });
  const embeddings = await matrix(path.join(out, "test_embeddings.npy"));
  const product = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#data=many-classes&steps=20`, {}, async (page) => {
      assert.ok(await page.find("neighbours").isHidden());
      await page.click("run");
      await page.status(/^Done/);
      await page.placed();
      const before = await page.find("embedding-map").screenshot();
      const position = await page.point("embedding-map");
      await page.find("embedding-map").click({ position });
      const { row, said, lines } = await found(page);
      const own = row - 5000;
      assert.ok(own >= 0 && own < 1500, `row ${row} is of the test side`);
      const expected = embeddings.map((other, i) => [i, product(embeddings[own], other)]).filter(([i]) => i !== own);
      expected.sort((a, b) => b[1] - a[1]);
      assert.equal(lines.length, 10);
      lines.forEach(({ row: other, name, verdict, similarity }, i) => {
        assert.ok(Math.abs(similarity - expected[i][1]) < 2e-3, `neighbour ${i + 1}: ${similarity}, expected ${expected[i][1]}`);
        const sameClass = Math.floor(own / 10) === Math.floor((other - 5000) / 10);
        assert.equal(verdict, sameClass ? "right" : "wrong", `row ${other} for row ${row}`);
        assert.ok(name.length > 0);
      });
      const right = lines.filter(({ verdict }) => verdict === "right").length;
      assert.match(said, new RegExp(`^Class \\d+: ${right} of the 10 closest test rows are of it, at step 20$`));
      assert.notDeepEqual(await page.find("embedding-map").screenshot(), before, "they are marked on the map");
      await page.screenshot(`neighbours-${engine}`);
      await page.click("reset");
      await page.status(/^Ready/);
      assert.ok(await page.find("neighbours").isHidden());
    });
  }
});

test("neighbours are found by keys, while a run goes on, waits or is over, and follow it", async () => {
  await on("?engine=cpu#data=digits&steps=4000", {}, async (page) => {
    const row = page.find("neighbour-row");
    await page.click("run");
    await page.page.waitForFunction(() => !document.querySelector("[data-testid=neighbours]").hidden);
    await row.focus();
    await page.page.keyboard.press("ArrowUp");
    const first = await found(page);
    assert.match(first.said, /closest validation rows/);
    await page.page.keyboard.press("ArrowUp");
    await page.page.waitForFunction((first) => Number(document.querySelector("[data-testid=neighbour-row]").value) > first, first.row);
    const second = await row.inputValue();
    await page.page.keyboard.press("ArrowDown");
    await found(page, first.row);
    // The run goes on, and the answer follows it.
    const step = () => neighbours(page).then(({ said }) => Number(said.match(/step (\d+)$/)?.[1]));
    const asked = await step();
    await page.page.waitForFunction((asked) => Number(document.querySelector("[data-testid=neighbours] [role=status]").textContent.match(/step (\d+)$/)?.[1]) > asked, asked);
    assert.match(await page.text("status"), /^Training/);
    await page.click("pause");
    await page.status(/^Paused/);
    const waits = await page.number("step-count");
    await row.fill(String(second));
    await row.press("Enter");
    await page.page.waitForFunction((waits) => document.querySelector("[data-testid=neighbours] [role=status]").textContent.endsWith(`at step ${waits}`), waits);
    assert.match(await page.text("status"), /^Paused/);
    assert.equal(await page.number("step-count"), waits, "asking takes no step");
    await page.page.getByRole("button", { name: "Clear" }).click();
    assert.match((await neighbours(page)).said, /^Click a point/);
    assert.equal((await neighbours(page)).lines.length, 0);
    await page.find("dataset-select").selectOption("many-classes");
    await page.click("open");
    await page.summary(/^6500/);
    assert.ok(await page.find("neighbours").isHidden());
  });
});

test("rows of every side can be drawn and found, and one that is not drawn says so", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    const row = page.find("neighbour-row");
    const ask = async (number) => {
      await row.fill(String(number));
      await row.press("Enter");
    };
    const shows = (side) => page.says("map-caption", new RegExp(`\\d ${side} rows`));
    await page.click("step");
    await page.status(/^Paused/);
    await shows("validation");
    assert.ok(await page.find("map-side").locator("option[value=test]").isDisabled(), "test rows stay unseen until the end");
    await page.find("map-side").selectOption("training");
    await shows("training");
    await page.find("embedding-map").click({ position: await page.point("embedding-map") });
    const trained = (await found(page)).row;
    assert.match((await neighbours(page)).said, /^Class \d: \d+ of the 10 closest training rows are of it, at step 1\. The head was trained with these/);
    await page.find("map-side").selectOption("validation");
    await shows("validation");
    await page.click("run");
    await page.status(/^Done/);
    await shows("validation");
    await page.find("map-side").selectOption("test");
    await shows("test");
    // The row that was chosen stays: of another side.
    await page.page.waitForFunction(() => document.querySelector("[data-testid=neighbours] [role=status]").textContent.includes("which shows test rows"));
    const { said, lines } = await found(page, trained);
    assert.match(said, /^A training row, not on the map, which shows test rows\. Class \d: /);
    assert.equal(lines.length, 10);
    assert.equal(await page.find("neighbours").locator("canvas").count(), 11, "with their pictures");
    await page.find("embedding-map").click({ position: await page.point("embedding-map") });
    await page.page.waitForFunction((before) => document.querySelector("[data-testid=neighbour-row]").value !== String(before), trained);
    const tested = (await found(page)).row;
    await ask(trained);
    assert.equal((await found(page, trained)).row, trained, "it is found by its number, not the nearest one on the map");
    await ask(1797);
    await page.says("notice", /^There is no row 1797: the data has 1797 rows, counted from 0\.$/);
    // Of a run that is not over, test rows are not told.
    await page.click("step");
    await page.status(/^Paused at step 1 /);
    await shows("validation");
    await ask(tested);
    await page.says("notice", new RegExp(`^Row ${tested} is a test row: it can be looked at once the run is over\\.$`));
    assert.equal((await neighbours(page)).lines.length, 0);
  });
});

test("rows of pixels are shown as the pictures that they are, on the map and beside their neighbours", async () => {
  const digits = await readFile(path.join(root, "src/data/samples/digits.npy"));
  /** What is drawn of a row: dark where its values are large. */
  const drawn = (row) => {
    const pixels = [...digits.subarray(128 + 65 * row, 128 + 65 * row + 64)];
    const [least, most] = [Math.min(...pixels), Math.max(...pixels)];
    return pixels.map((pixel) => 255 - Math.floor((255 * (pixel - least)) / (most - least)));
  };
  const read = (canvas) => canvas.evaluate((canvas) => [...canvas.getContext("2d").getImageData(0, 0, 8, 8).data].filter((_, i) => i % 4 === 0));
  await on("?engine=cpu#data=digits&steps=50", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    const position = await page.point("embedding-map");
    await page.find("embedding-map").hover({ position });
    const card = page.page.locator(".hover");
    const [, row] = /^row (\d+)/.exec(await card.innerText());
    assert.deepEqual(await read(card.locator("canvas")), drawn(Number(row)));
    await page.find("embedding-map").click({ position });
    const { row: chosen, lines } = await found(page);
    const pictures = await page.find("neighbours").locator("canvas").all();
    assert.equal(pictures.length, 11);
    const rows = [chosen, ...lines.map(({ row }) => row)];
    for (const [i, picture] of pictures.entries()) assert.deepEqual(await read(picture), drawn(rows[i]), `row ${rows[i]}`);
    await page.screenshot("pictures");
    await page.find("dataset-select").selectOption("cells");
    await page.status(/^Ready/);
    assert.equal(await page.page.locator("canvas.picture").count(), 0);
  });
});

test("long names of classes go on in the next line between their words, on a phone, too", async () => {
  const kinds = ["quercus_robur_subspecies_pedunculiflora", "fagus_sylvatica_variety_atropurpurea"];
  const lines = Array.from({ length: 80 }, (_, i) => `leaf-${1000 + i},${[0, 1, 2].map((at) => (3 * (i % 2) + ((7 * i + at) % 5) / 10).toFixed(2)).join()},${kinds[i % 2]}`);
  const file = await written("leaves.csv", ["leaf,a,b,c,kind", ...lines].join("\n"));
  await on("?engine=cpu#steps=20&batch_size=16&hidden_layers=[8]&embedding_size=4", { viewport: { width: 390, height: 844 } }, async (page) => {
    await page.upload(file);
    await page.summary(/^leaves\.csv: 80 rows/);
    await page.click("run");
    await page.status(/^Done/);
    await page.find("embedding-map").click({ position: await page.point("embedding-map") });
    await page.find("neighbours").locator("tbody tr").first().waitFor();
    const broken = await page.find("neighbours").locator("tbody td:nth-child(3)").evaluateAll((cells) => cells.flatMap((cell) => {
      const within = (node, from, to) => {
        const range = document.createRange();
        range.setStart(node, from);
        range.setEnd(node, to);
        return new Set([...range.getClientRects()].map(({ top }) => top)).size > 1;
      };
      const nodes = [...cell.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE);
      return nodes.flatMap((node) => [...node.data.matchAll(/[a-z]+/g)].filter(({ index, 0: word }) => within(node, index, index + word.length)).map(([word]) => word));
    }));
    assert.deepEqual(broken, []);
    assert.equal(await page.find("neighbours").locator("tbody td:nth-child(3)").first().evaluate((cell) => cell.textContent.includes(" ")), false);
  });
});
