// A person's own files: read, refused, and never in the way of what was there.
import assert from "node:assert/strict";
import { mkdtemp, readFile, truncate, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

import { columns, pages, SMALL, test, tree, written } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages();

const STILL = "Nothing was changed: Many classes is still in use, with its settings.";

test("while data is read the page says so, and Run waits", async () => {
  // Enough that a key can be pressed meanwhile.
  const rows = Array.from({ length: 80_000 }, (_, i) => `${Array.from({ length: 40 }, (_, j) => (i * j) % 97).join()},${"abc"[i % 3]}`);
  const header = `${rows[0].split(",").map((_, i) => `x${i}`).slice(1).join()},label`;
  const file = await written("many.csv", [header, ...rows].join("\n"));
  await on("?engine=cpu", {}, async (page) => {
    await page.upload(file);
    assert.match(await page.text("status"), /^Reading the data/);
    assert.ok(await page.find("run").isDisabled());
    await page.page.locator("h1").click();
    await page.page.keyboard.press("Space");
    await page.status(/^Ready/);
    assert.match(await page.text("dataset-summary"), /^many.csv: 80\s000 rows of 40 features/);
    await page.page.waitForTimeout(300);
    assert.match(await page.text("status"), /^Ready/);
    await page.upload(path.join(root, "tests/data/labels_text.npy"));
    await page.status(/^Ready/);
    assert.match(await page.error(), /give the two files at once/);
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.error(), "");
  });
});

test("own files are read, their label column shown and changed", async () => {
  const data = (name) => path.join(root, "tests/data", name);
  await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
    await page.upload(data("trees.csv"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("trees.csv"));
    assert.match(await page.text("dataset-summary"), /60 rows of 5 features; 3 classes of 20 rows each: ash, birch, château/);
    assert.equal(await page.find("label-column").inputValue(), "species");
    for (const [label, value] of [["Steps", "20"], ["Batch rows", "12"], ["Memory rows", "24"]]) await page.set(label, value);
    // A memory smaller than the batch is refused on the way; set from the larger to the smaller, it is not.
    assert.equal(await page.error(), "");
    await page.click("run");
    await page.status(/^Done/);
    assert.ok((await page.page.innerText(".classes")).includes("château"), "class names are shown");
    await page.upload(data("features.npy"), data("labels_text.npy"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("features.npy"));
    await page.upload(data("labelled_deflated.npz"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("labelled_deflated.npz"));
    assert.match(await page.text("dataset-summary"), /60 rows of 5 features; 3 classes of 20 rows each: 0, 1, 2\. Features = "embeddings" \(60, 5\)\. Label = "labels" \(60,\)\./);
    // The menu names the column that labels of a second file come from, and what was chosen there outlives a reload of the file.
    const kinds = Array.from({ length: 60 }, (_, i) => `${["oak", "elm"][i % 2]},${["shore", "hill", "wood"][i % 3]}`);
    await page.upload(data("features.npy"), await written("labels.csv", ["species,site", ...kinds].join("\n")));
    await page.summary(/^features\.npy: 60 rows of 5 features; 2 classes/);
    const label = page.find("label-column");
    assert.equal(await label.inputValue(), "species");
    await label.selectOption("site");
    await page.summary(/^features\.npy: 60 rows of 5 features; 3 classes/);
    assert.equal(await label.inputValue(), "site");
    // Two arrays fit as labels: the page offers both.
    await page.upload(data("two_labels.npz"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent.startsWith("two_labels.npz: several arrays can be the labels"));
    await page.find("label-column").selectOption("coarse");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("two_labels.npz: 60 rows of 5 features; 2 classes"));
    await page.upload(data("trees_parts.csv"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("trees_parts.csv"));
    await page.find("label-column").selectOption("part");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("test, train, validation"));
  });
});

test("before training the first rows are shown, what stands out, and what to do about cells without a number", async () => {
  const row = (i) => `${i},${(i * 37) % 101},${i === 17 ? "" : i % 11},7,${"uvw"[i % 3]}`;
  const rows = Array.from({ length: 90 }, (_, i) => row(i));
  // The last row is the first one again.
  const file = await written("holes.csv", ["id,height,mass,always,kind", ...rows, rows[0]].join("\n"));
  await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
    await page.upload(file);
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent.startsWith("holes.csv, line 19"));
    assert.match(await page.error(), /column "mass" has an empty cell: choose what becomes of such cells/);
    const cells = page.find("missing-cells");
    assert.equal(await cells.inputValue(), "refuse");
    // What is wrong comes with what mends it.
    await page.click("mend-median");
    await page.summary(/^holes.csv: 91 rows of 3 features.*Filled 1 cell that holds no number with the median/);
    assert.equal(await cells.inputValue(), "median");
    await cells.selectOption("drop-columns");
    await page.summary(/^holes.csv: 91 rows of 2 features.*Left out, as a cell holds no number: "mass"/);
    await cells.selectOption("drop-rows");
    await page.summary(/^holes.csv: 90 rows of 3 features/);
    assert.equal(await page.error(), "");
    // What is chosen late can be chosen otherwise.
    await cells.selectOption("refuse");
    await page.says("error", /choose what becomes of such cells\.?\nNothing was changed: holes.csv is still in use/);
    assert.equal(await cells.inputValue(), "drop-rows");
    await cells.selectOption("median");
    await page.summary(/^holes.csv: 91 rows of 3 features/);
    await cells.selectOption("drop-rows");
    await page.summary(/^holes.csv: 90 rows of 3 features/);
    const findings = await page.text("data-findings");
    assert.match(findings, /1 column never changes, .*"always"/);
    assert.match(findings, /Row 89, counted from 0, is equal to row 0\./);
    assert.deepEqual(await columns(page), [
      ["id", "0, 1, 2", "id", "called like a row number"], ["height", "0, 37, 74", "feature", "numbers"],
      ["mass", "0, 1, 2", "feature", "numbers"], ["always", "7, 7, 7", "feature", "numbers"],
      ["kind", "u, v, w", "label", "the only text column"],
    ]);
  });
});

test("a file with a gap in every column says so, and what becomes of its cells can be chosen otherwise", async () => {
  const row = (i) => `${i === 3 ? "" : i},${i === 5 ? "" : i % 7},${"uv"[i % 2]}`;
  const file = await written("gaps.csv", ["a,b,kind", ...Array.from({ length: 40 }, (_, i) => row(i))].join("\n"));
  await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
    await page.upload(file);
    await page.click("mend-drop-columns");
    await page.says("error", /gaps.csv: every column holds a cell without a number, and nothing is left of the features: choose otherwise/);
    await page.click("mend-drop-rows");
    await page.summary(/^gaps.csv: 38 rows of 2 features/);
  });
});

test("JSON Lines are read, and a long table says how far it is", async () => {
  const line = (i) => JSON.stringify({ text: `item ${i}`, label: "abc"[i % 3], vector: [(i * 5) % 7, (i * 7) % 5, 0.5] });
  const lines = await written("items.jsonl", Array.from({ length: 60 }, (_, i) => line(i)).join("\n"));
  const row = (value, label) => `${value.repeat(40)}${label}\n`;
  const long = [row("1.25,", "a"), row("2.5,", "b"), row("2.5,", "a"), row("1.25,", "b")].join("").repeat(75_000);
  const table = await written("long.csv", `${Array.from({ length: 40 }, (_, i) => `f${i}`).join()},label\n${long}`);
  await on("?engine=cpu", {}, async (page) => {
    await page.upload(lines);
    await page.summary(/^items.jsonl: 60 rows of 3 features; 3 classes of 20 rows each: a, b, c/);
    assert.deepEqual((await columns(page)).map(([name, , role]) => [name, role]), [["text", "id"], ["label", "label"], ["vector", "feature"]]);
    await page.upload(table);
    await page.page.waitForFunction(() => /^Reading long.csv: \d+ of \d+ MiB/.test(document.querySelector("[data-testid=working]").textContent));
    // Another choice stops it, without a word of complaint.
    await page.find("dataset-select").selectOption("digits");
    await page.summary(/^1.?797 rows of 64/);
    assert.equal(await page.error(), "");
    // So does its button: the data stays, and the file can be chosen again.
    await page.upload(table);
    await page.says("stop-reading", /Stop reading/);
    await page.click("stop-reading");
    await page.status(/^Ready/);
    assert.match(await page.text("dataset-summary"), /^1.?797 rows of 64/);
    assert.equal(await page.text("working"), "");
    assert.equal(await page.error(), "");
    await page.upload(table);
    await page.summary(/^long.csv: 300\s000 rows of 40 features; 2 classes/);
    assert.equal(await page.text("working"), "");
  });
});

test("a refused file leaves the label column alone, or offers its own", async () => {
  await on("?engine=cpu", {}, async (page) => {
    const label = page.find("label-column");
    await page.upload(path.join(root, "tests/data/trees_parts.csv"));
    await page.summary(/^trees_parts.csv/);
    const there = await page.text("dataset-summary");
    const column = await label.inputValue();
    await page.set("Steps", "33");
    // A table that no other column would mend, and a column that cannot be the label.
    await page.upload(await written("ragged.csv", "x,label\n1,a\n2\n"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent.startsWith("ragged.csv"));
    assert.equal(await label.inputValue(), column);
    await page.upload(await written("plain.csv", "x,w,one\n1.5,2,7\n2.5,2.5,7\n3.5,2,7\n"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent.startsWith("plain.csv"));
    assert.equal(await page.text("dataset-summary"), there);
    // The select follows in the next frame.
    await label.locator("option:checked", { hasText: "choose .." }).waitFor({ state: "attached", timeout: 5000 });
    await label.selectOption("one");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent.includes('every row has the label "7"'));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=label-column]").value === "");
    await label.selectOption("w");
    await page.summary(/^plain.csv: 3 rows of 2 features; 2 classes/);
    assert.equal(await label.inputValue(), "w");
    assert.equal(await page.error(), "");
    // Another column of the same file: refused, the one there was stays; taken, settings stay.
    await page.set("Steps", "44");
    await label.selectOption("one");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent.includes('every row has the label "7"'));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=label-column]").value === "w");
    await label.selectOption("x");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("3 classes"));
    assert.equal(await page.knob("Steps"), "44");
  });
});

test("files that are too large and folders are refused before they are read", async () => {
  const [large, alone] = [await written("large.csv", ""), await written("large.npy", "")];
  for (const file of [large, alone]) await truncate(file, 2.5 * 2 ** 30);
  await on("?engine=cpu#data=many-classes", {}, async (page) => {
    await page.upload(large);
    assert.equal(
      await page.error(),
      "large.csv: 2.5 GiB, and a page can hold 1 GiB of arrays or a table twice as long: save the features as NPY, use fewer rows, or the command line (nearfar train)\n" + STILL,
    );
    await page.upload(alone);
    await page.says("error", /large.npy: an NPY file holds features or labels, not both: give the two files at once/);
    const devtools = await page.page.context().newCDPSession(page.page);
    for (const type of ["dragEnter", "dragOver", "drop"]) {
      const data = { items: [], files: [path.join(root, "tests/data")], dragOperationsMask: 1 };
      await devtools.send("Input.dispatchDragEvent", { type, x: 700, y: 400, data });
    }
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent === "data is a folder, and folders cannot be read: drop the files in it. Of pictures make vectors first, as \"Only pictures?\" says");
    assert.match(await page.text("status"), /^Ready/);
  });
});

test("a comma that can be read in two ways is refused, and read as a button says", async () => {
  const rows = Array.from({ length: 40 }, (_, i) => `${1 + (i % 8)},${100 + i}\t${i % 7}\t${"uvw"[i % 3]}`);
  const file = await written("price.tsv", ["price\tcount\tkind", ...rows].join("\n"));
  // Thousands of another column's scale, or numbers of its own.
  for (const [button, isLarge] of [["mend-thousands", true], ["mend-decimal", false]]) {
    await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
      await page.upload(file);
      const said = "is 1100 where the comma stands between thousands, and 1.100 where it is a decimal comma";
      await page.page.waitForFunction((said) => document.querySelector("[data-testid=error] span").textContent.includes(said), said);
      await page.screenshot("two-readings");
      await page.click(button);
      await page.summary(/^price.tsv: 40 rows of 2 features; 3 classes/);
      assert.equal((await page.text("data-findings")).includes("different scales"), isLarge);
    });
  }
});

test("bad files give the command line's sentence, and the data there was stays", async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const cases = [
    ["ragged.csv", "x,label\n1,a\n2\n", "ragged.csv, line 3: 1 value, expected 2 as in the first line"],
    ["word.csv", "x,label\n1,a\nfoo,b\n3,c\n", 'word.csv, line 3: column "x" holds "foo", which is not a number: choose what becomes of such cells'],
    ["nan.csv", "x,label\n1,a\nNaN,b\n", 'nan.csv, line 3: column "x" holds "NaN", a missing value: choose what becomes of such cells'],
    ["plain.csv", "x,w\n1.5,2\n2.5,2.5\n", 'plain.csv: no label column can be told from the others: choose one of "x", "w"'],
    ["one.csv", "x,label\n1,a\n2,a\n", 'one.csv: every row has the label "a": metric learning needs two classes at least'],
    ["empty.csv", "", "empty.csv: the file is empty"],
    ["cat.doc", "?", "cat.doc: only CSV, JSON Lines, Parquet, NPY, NPZ, safetensors and AnnData files are read: save the data as one of these"],
  ];
  await on("?engine=cpu#data=many-classes", {}, async (page) => {
    const summary = await page.text("dataset-summary");
    for (const [name, text, message] of cases) {
      const file = path.join(folder, name);
      await writeFile(file, text);
      await page.upload(file);
      await page.page.waitForFunction((start) => document.querySelector("[data-testid=error] span").textContent.startsWith(start), name);
      assert.equal(await page.error(), `${message}\n${STILL}`);
      assert.equal(await page.text("dataset-summary"), summary);
    }
    for (const [file, labels, message] of [
      ["features_cut.npy", "labels_text.npy", /features_cut.npy: the shape \(60, 5\) needs 1200 bytes of data, the file has 1193/],
      ["features_huge.npy", "labels_text.npy", /larger than any file/],
      ["features.npy", "labels_objects.npy", /a pickle/],
      ["features.npy", "labels_objects.npz", /labels_objects.npz:y: an array of Python objects/],
      ["bomb_hidden.npz", "labels_text.npy", /bomb_hidden.npz:X: the data is damaged/],
      ["features.npy", "labels_short.npy", /60 rows of features, 59 labels/],
    ]) {
      await page.upload(path.join(root, "tests/data", file), path.join(root, "tests/data", labels));
      await page.page.waitForFunction((source) => new RegExp(source).test(document.querySelector("[data-testid=error] span").textContent), message.source);
    }
    assert.equal(await page.text("dataset-summary"), summary);
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.error(), "");
  });
});

test("other data asks before it ends a run, and what the run brought stays", async () => {
  await on("?engine=cpu#data=digits&steps=40000&evaluate_every=40000", {}, async (page) => {
    await page.click("run");
    await page.status(/^Training/);
    const goesOn = async () => {
      const step = await page.number("step-count");
      await page.page.waitForFunction((step) => Number(document.querySelector("[data-testid=step-count]").textContent) > step, step);
      assert.match(await page.text("dataset-summary"), /^1797 rows/);
      assert.equal(await page.find("dataset-select").inputValue(), "digits");
    };
    // Kept by its button, and by Escape; the focus is on what keeps it.
    await page.upload(tree("trees.csv"));
    assert.match(await page.text("question"), /^A run is going\. It ends when other data is opened/);
    assert.equal(await page.text("open"), "Stop, keep its result, open trees.csv");
    assert.ok(await page.find("keep").evaluate((button) => button === document.activeElement));
    await page.page.keyboard.press("r");
    await page.screenshot("ask-light");
    await page.click("keep");
    await goesOn();
    await page.find("dataset-select").selectOption("many-classes");
    assert.equal(await page.text("open"), "Stop, keep its result, open Many classes");
    await page.page.keyboard.press("Escape");
    assert.ok(await page.find("question").isHidden());
    await goesOn();
    // A file that is refused ends nothing.
    await page.upload(await written("ragged.csv", "x,label\n1,a\n2\n"));
    await page.click("open");
    await page.says("error", /ragged.csv, line 3: .*Nothing was changed: Handwritten digits is still in use/s);
    await page.status(/^Training/);
    await goesOn();
    await page.upload(tree("trees.csv"));
    await page.click("open");
    await page.summary(/^trees.csv/);
    assert.match(await page.text("notice"), /The run on Handwritten digits was stopped at step \d+\. What it brought is under Runs\.$/);
    assert.equal(await page.page.innerText(".faint"), "");
    assert.equal(await page.text("status"), "Ready. Press Run, or Space.");
  });
});

test("a file that cannot be read leaves no label picker behind", async () => {
  await on("?engine=cpu#data=digits", {}, async (page) => {
    const picker = page.find("label-column");
    await page.upload(await written("gaps.csv", "x,w,label\n1,2,a\n,3,b\n3,4,a\n"));
    await page.says("error", /gaps.csv, line 3/);
    assert.ok(await picker.isHidden(), "no other column would help");
    // One whose label cannot be told offers its columns; the next one that is refused takes them away.
    await page.upload(await written("plain.csv", "x,w\n1.5,2\n2.5,2.5\n"));
    await page.says("error", /plain.csv/);
    assert.ok(await picker.isVisible());
    await page.upload(await written("ragged.csv", "x,label\n1,a\n2\n"));
    await page.says("error", /ragged.csv/);
    assert.ok(await picker.isHidden());
    assert.match(await page.text("dataset-summary"), /^1797 rows/);
  });
});

test("settings stay when other data is opened, but for those that cannot hold there", async () => {
  await on("?engine=cpu#data=digits", {}, async (page) => {
    await page.set("Steps", "33");
    await page.set("Loss margin", "0.3");
    // Two columns read like a split: the first is used, and the other can be.
    const lines = Array.from({ length: 60 }, (_, row) => `${row % 7},${row % 3},${["ash", "birch"][row % 2]},${["train", "test"][row % 5 >> 2]},${["test", "train"][row % 4 >> 1]}`);
    await page.upload(await written("parts.csv", ["x,y,tree,part,fold", ...lines].join("\n")));
    await page.summary(/60 rows/);
    assert.deepEqual([await page.knob("Steps"), await page.knob("Loss margin")], ["33", "0.3"]);
    assert.ok(await page.find("notice").isHidden());
    await page.set("Split", "column:fold");
    await page.find("dataset-select").selectOption("digits");
    await page.summary(/^1797/);
    assert.equal(await page.knob("Steps"), "33");
    assert.equal(await page.knob("Split"), "random");
    assert.equal(
      await page.text("notice"),
      'Not every setting can hold for Handwritten digits. Back at its default: split: there is no text column "fold".',
    );
  });
});

test("the cells are fetched when they are chosen, and train", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    await page.find("dataset-select").selectOption("cells");
    await page.summary(/^3990 rows of 50 features; 11 classes/);
    const fetched = page.requests.map((url) => path.basename(new URL(url).pathname));
    assert.deepEqual(fetched, ["cells.npz", "worker.js", "nearfar-files.js", "nearfar-files_bg.wasm"]);
    page.requests.length = 0;
    assert.equal(await page.knob("Split"), "stratified");
    await page.click("run");
    await page.status(/^Done/);
    assert.ok((await page.number("precision-at-1")) > 0.9);
  });
});

test("cells that cannot be fetched leave the data as it was, with the reason", async () => {
  const prepare = (page) => page.route("**/cells.npz", (route) => route.fulfill({ status: 404 }));
  await on("?engine=cpu#data=digits", { prepare }, async (page) => {
    await page.find("dataset-select").selectOption("cells");
    await page.says("error", /cells.npz could not be fetched \(status 404\): try again, or choose another sample/);
    await page.summary(/^1797/);
    page.requests.length = 0;
  });
});

test("what other programs wrote opens with its rows, columns and classes", async () => {
  const folder = path.join(root, "tests/corpus");
  const cases = JSON.parse(await readFile(path.join(folder, "expected.json"), "utf8"));
  const exactly = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  await on("?engine=cpu#data=digits", {}, async (page) => {
    // The page chooses no array of features, and goes by name and size which of two files holds the labels.
    const openable = cases.filter(({ files, features }) => !features && /^(y|labels)|^undefined$/.test(files[1]));
    for (const { files, values, labels } of openable) {
      await page.upload(...files.map((file) => path.join(folder, file)));
      // Numbers have one spelling: 1.0 is the class 1.
      const classes = [...new Set(labels.map((label) => (/^-?\d+\.\d+$/.test(label) ? String(Number(label)) : label)))];
      const read = `${files[0]}: ${values.length} rows of ${values[0].length} feature${values[0].length === 1 ? "" : "s"}; ${classes.length} classes`;
      // Two cases may differ in their classes alone.
      const named = classes.map((name) => `(?=.*${exactly(name).replace("\n", "\\s")})`).join("");
      await page.summary(new RegExp(`^${named}${exactly(read)}`, "s"));
      assert.equal(await page.error(), "");
    }
  });
});

test("cells open in a reader that is fetched with the first of them, and train", async () => {
  const corpus = (name) => path.join(root, "tests/corpus", name);
  const fetched = (page) => page.requests.filter((url) => url.includes("nearfar-files_bg.wasm")).length;
  await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
    assert.equal(fetched(page), 0);
    await page.upload(corpus("two_labels.h5ad"));
    await page.says("error", /two_labels.h5ad: several arrays can be the labels, "obs\/batch" \(12,\), "obs\/donor" \(12,\)/);
    await page.find("label-column").selectOption("donor");
    await page.summary(/^two_labels.h5ad: 12 rows of 3 features; 3 classes/);
    await page.upload(corpus("components.h5ad"));
    await page.summary(/^components.h5ad: 12 rows of 3 features; 3 classes of 4 rows each: NK, T cell, β cell\. Features = "obsm\/X_pca" \(12, 3\)/);
    assert.equal(await page.find("label-column").inputValue(), "cell_type");
    assert.ok(fetched(page) > 0);
    for (const [label, value] of [["Steps", "20"], ["Batch rows", "4"], ["Memory rows", "8"]]) await page.set(label, value);
    await page.click("run");
    await page.status(/^Done/);
    for (const { file, said } of JSON.parse(await readFile(corpus("refused.json"), "utf8"))) {
      await page.upload(corpus(file));
      await page.page.waitForFunction((name) => document.querySelector("[data-testid=error] span").textContent.startsWith(name), file);
      assert.ok((await page.error()).includes(said), `${await page.error()}, not ${said}`);
    }
  });
});

test("Parquet opens in the same reader, alone and with labels, and trains", async () => {
  const corpus = (name) => path.join(root, "tests/corpus", name);
  await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
    await page.upload(corpus("vectors.parquet"));
    await page.summary(/^vectors.parquet: 12 rows of 3 features; 3 classes of 4 rows each: château, fir, oak/);
    const told = (await columns(page)).map(([name, , role]) => `${name} ${role}`);
    assert.ok(["id id", "text ignored"].every((line) => told.includes(line)), told.join());
    assert.ok(page.requests.some((url) => url.includes("nearfar-files_bg.wasm")));
    await page.find("label-column").selectOption("text");
    await page.says("error", /vectors.parquet: each of the 12 rows has a label of its own/);
    await page.upload(corpus("pandas.parquet"), corpus("labels_alone.csv"));
    await page.summary(/^pandas.parquet: 12 rows of 3 features; 3 classes/);
    await page.upload(corpus("hole.parquet"));
    await page.says("error", /hole.parquet, row 3: column "width" has an empty cell/);
    await page.upload(corpus("zstd_packed.parquet"));
    await page.summary(/^zstd_packed.parquet: 12 rows of 3 features; 3 classes/);
    for (const [label, value] of [["Steps", "20"], ["Batch rows", "4"], ["Memory rows", "8"]]) await page.set(label, value);
    await page.click("run");
    await page.status(/^Done/);
  });
});

test("a reader that comes down or does not come takes nothing with it", async () => {
  const cells = path.join(root, "tests/corpus/dense.h5ad");
  const down = "export default async () => { self.onmessage = () => { throw new WebAssembly.RuntimeError('unreachable'); }; };";
  let body = down;
  const prepare = (page) =>
    page.context().route("**/nearfar-files.js*", (route) => (body ? route.fulfill({ contentType: "text/javascript", body }) : route.fulfill({ status: 404 })));
  await on("?engine=cpu#data=many-classes", { prepare }, async (page) => {
    const summary = await page.text("dataset-summary");
    await page.upload(cells);
    await page.says("error", /dense.h5ad: the reader of such files stopped unexpectedly \(.*unreachable.*\): the file is damaged or too large/);
    assert.equal(await page.text("dataset-summary"), summary);
    body = null;
    await page.upload(cells);
    await page.says("error", /dense.h5ad: the reader of such files could not be loaded: try again when the network answers, or reload the page/);
    assert.match(await page.text("status"), /^Ready/);
    // The console is told of both.
    page.problems.length = 0;
  });
});

test("the page says how far long work is", async () => {
  // 40,000 rows that each look for their class among all of them.
  await on("?engine=cpu#data=large&validation_fraction=0.5&evaluate_rows=0&evaluate_queries=0", {}, async (page) => {
    await page.click("run");
    await page.says("working", /^Scoring the validation rows: raw features: [\d\s]+ of 40\s000 queries, .+ left$/);
    await page.click("reset");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=working]").textContent === "");
  });
});
