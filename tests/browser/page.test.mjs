// The page in a real browser, on a software GPU, on the CPU, and without WebGPU.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { Page, launch, root, serve } from "./support.mjs";

const PLOTS = ["chart-precision", "chart-mining", "chart-memory", "chart-loss", "embedding-map"];
const SMALL = "steps=40&batch_size=16&hidden_layers=[32]&memory_size=256";

let site, browser;
before(async () => {
  site = await serve();
  browser = await launch();
});
after(async () => {
  await browser.close();
  site.close();
});

/** Opens the page, runs the test, and fails on anything that went by in the console or over the network. */
async function on(where, options, check) {
  const page = await Page.open(options.browser ?? browser, site.url + where, options);
  await check(page);
  assert.deepEqual(page.problems, [], "the console is clean");
  // A browser looks at the icon again whenever the link changes.
  assert.deepEqual(page.requests.filter((url) => !url.endsWith(".svg")), [], "nothing leaves the page");
  await page.page.close();
}

/** What the command line gives for the same settings. */
function native(...settings) {
  const cli = path.join(root, "target/debug/nearfar");
  const sets = settings.flatMap((set) => ["--set", set]);
  return JSON.parse(execFileSync(cli, ["train", "--json", ...sets], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
}

async function memoryIsWithinBudget(page) {
  const [live, peak, budget] = await Promise.all(
    ["memory-live", "memory-peak", "memory-budget"].map((id) => page.bare(id, "bytes")),
  );
  assert.ok(0 < live && live <= peak && peak <= budget, `${live} <= ${peak} <= ${budget}`);
}

test("the default demo learns on a GPU, and less without memory", async () => {
  await on("?engine=gpu", {}, async (page) => {
    assert.match(await page.text("device"), /webgpu, software.*buffers up to \d/);
    await page.click("run");
    await page.page.waitForFunction(() => {
      const number = (id) => Number(document.querySelector(`[data-testid="${id}"]`).textContent);
      return number("precision-at-1") - number("baseline-precision-at-1") >= 0.3;
    }, null, { timeout: 120_000 });
    for (const plot of PLOTS) assert.ok((await page.drawn(plot)) > 100, `${plot} has drawn data`);
    await memoryIsWithinBudget(page);
    await page.status(/^Done/);
    const [withMemory, raw] = [await page.number("precision-at-1"), await page.number("baseline-precision-at-1")];
    assert.ok(withMemory >= 0.85, `${withMemory} with memory`);
    assert.ok(raw > 0.08 && raw < 0.18, `${raw} raw`);
    const linear = await page.number("baseline-linear-precision-at-1");
    const { test: expected } = native("steps=1").baseline.linear;
    assert.equal(linear.toFixed(2), expected.precision_at_1.toFixed(2), "the linear map is the command line's");
    const said = await page.text("verdict");
    const better = said.match(/^(0\.\d\d) ± 0\.01 on classes it never saw: better than raw features by (0\.\d\d), better than a linear map \(LDA\) by (0\.\d\d)$/);
    assert.ok(better, said);
    assert.equal(Number(better[1]), withMemory);
    // Each is rounded by itself.
    assert.ok(Math.abs(better[2] - (withMemory - raw)) < 0.011 && Math.abs(better[3] - (withMemory - linear)) < 0.011, said);
    const [valid, mined, active] = await Promise.all(["mining-valid", "mining-mined", "mining-active"].map((id) => page.bare(id, "count")));
    assert.ok(valid > mined && mined >= active && active > 0, `${valid} > ${mined} >= ${active} > 0`);
    await page.screenshot("demo-light");
    const before = await page.drawn("chart-precision");

    await page.click("without-memory");
    await page.status(/^Training/);
    await page.status(/^Done/);
    const without = await page.number("precision-at-1");
    assert.ok(without <= 0.5 && withMemory - without >= 0.38, `${without} without memory`);
    assert.ok((await page.drawn("chart-precision")) > before, "the run before stays, faint");
    assert.ok((await page.page.innerText("footer")).includes("the run before, memory_size 1024"));
    assert.ok(page.page.url().endsWith("#data=many-classes&memory_size=0"), page.page.url());
    await memoryIsWithinBudget(page);
    await page.screenshot("without-memory-light");
  });
});

test("the CPU engine gives the same picture, in the dark", async () => {
  await on("?engine=cpu", { colorScheme: "dark" }, async (page) => {
    assert.match(await page.text("device"), /^Running on the CPU/);
    await page.page.keyboard.press("Space");
    await page.status(/^Done/);
    assert.ok((await page.number("precision-at-1")) >= 0.85);
    for (const plot of PLOTS) assert.ok((await page.drawn(plot)) > 100, `${plot} has drawn data`);
    await memoryIsWithinBudget(page);
    await page.screenshot("demo-dark");
  });
});

test("the first twenty losses are those of the command line, on both engines", async () => {
  const expected = native("steps=20").history.map((step) => step.loss);
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#steps=20`, {}, async (page) => {
      for (let step = 1; step <= 20; step += 1) {
        await page.click("step");
        await page.page.waitForFunction((n) => document.querySelector("[data-testid=step-count]").textContent === String(n), step);
        const loss = await page.number("loss");
        assert.ok(Math.abs(loss - expected[step - 1]) < 1e-4, `${engine}, step ${step}: ${loss}, expected ${expected[step - 1]}`);
      }
    });
  }
});

test("run, pause, step and reset do what they say, by buttons and by keys", async () => {
  await on("?engine=cpu#steps=4000", {}, async (page) => {
    const step = () => page.number("step-count");
    assert.ok(await page.find("pause").isDisabled());
    await page.click("run");
    await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 30);
    await page.click("pause");
    await page.status(/^Paused/);
    const paused = await step();
    await page.page.waitForTimeout(300);
    assert.equal(await step(), paused);
    await page.click("step");
    await page.status(new RegExp(`^Paused at step ${paused + 1} `));
    await page.page.locator("h1").click();
    await page.page.keyboard.press("s");
    await page.status(new RegExp(`^Paused at step ${paused + 2} `));
    await page.page.keyboard.press("Space");
    await page.status(/^Training/);
    await page.page.keyboard.press("Space");
    await page.status(/^Paused/);
    await page.page.keyboard.press("r");
    await page.status(/^Ready/);
    assert.equal(await step(), 0);
    assert.equal(await page.text("precision-at-1"), "–");
    await page.page.keyboard.press("?");
    assert.ok(await page.page.getByRole("dialog", { name: "Keyboard" }).isVisible());
    await page.page.keyboard.press("Escape");
    await page.click("run");
    await page.status(/^Training/);
    await page.click("reset");
    await page.status(/^Ready/);
  });
});

test("settings stand in the link, and a link sets them", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}&miner.type_of_triplets=hard`, {}, async (page) => {
    assert.match(await page.text("dataset-summary"), /^1797 rows of 64 features; 10 classes of 174 to 183 rows: 0, 1, 2/);
    assert.equal(await page.page.getByLabel("Batch rows", { exact: true }).inputValue(), "16");
    assert.equal(await page.page.getByLabel("Triplets", { exact: true }).inputValue(), "hard");
    await page.set("Loss margin", "0.3");
    await page.set("Miner", "none");
    assert.ok(await page.page.getByLabel("Triplets", { exact: true }).isHidden());
    const link = new URLSearchParams(new URL(page.page.url()).hash.slice(1));
    assert.equal(link.get("loss.margin"), "0.3");
    assert.equal(link.get("miner.name"), "none");
    assert.equal(link.get("hidden_layers"), "[32]");
    await page.click("run");
    await page.status(/^Done/);
    assert.match(await page.text("verdict"), /rows it never saw/);
  });
  await on("?engine=cpu#batchsize=3", {}, async (page) => {
    assert.match(await page.error(), /^The link: .*unknown field `batchsize`/);
  });
});

test("a setting out of range is refused with the range, and the old one stays", async () => {
  await on("?engine=cpu", {}, async (page) => {
    await page.set("Batch rows", "1");
    assert.equal(await page.error(), "batch_size is 1: it must be between 2 and 32768");
    assert.equal(await page.page.getByLabel("Batch rows", { exact: true }).inputValue(), "32");
    await page.set("Budget, MiB", "1");
    await page.click("run");
    await page.status(/^Ready/);
    assert.match(await page.error(), /^"training" needs .* of the 1 MiB budget is free: raise the budget/);
    await page.set("Budget, MiB", "64");
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.bare("memory-budget", "bytes"), 64 << 20);
  });
});

test("nothing learned is said, with the likely cause", async () => {
  await on("?engine=cpu#steps=40&miner.type_of_triplets=easy", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    const warnings = await page.text("warnings");
    assert.match(warnings, /Every loss is zero: the easy miner keeps s_ap - s_an above 0.2/);
    assert.match(warnings, /No active triplet for 20 steps/);
  });
});

test("own files are read, their label column shown and changed", async () => {
  const data = (name) => path.join(root, "tests/data", name);
  await on(`?engine=cpu#${SMALL}`, {}, async (page) => {
    await page.upload(data("trees.csv"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("trees.csv"));
    assert.match(await page.text("dataset-summary"), /60 rows of 5 features; 3 classes of 20 rows: ash, birch, château/);
    assert.equal(await page.find("label-column").inputValue(), "species");
    for (const [label, value] of [["Steps", "20"], ["Batch rows", "12"], ["Memory rows", "24"]]) await page.set(label, value);
    // A memory smaller than the batch is refused on the way; set from the larger to the smaller, it is not.
    assert.equal(await page.error(), "");
    await page.click("run");
    await page.status(/^Done/);
    assert.ok((await page.page.innerText(".classes")).includes("château"), "class names are shown");
    await page.upload(data("features.npy"), data("labels_text.npy"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("features.npy"));
    await page.upload(data("trees_parts.csv"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("trees_parts.csv"));
    await page.find("label-column").selectOption("part");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("test, train, validation"));
  });
});

test("bad files give the command line's sentence, and the data there was stays", async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const cases = [
    ["ragged.csv", "x,label\n1,a\n2\n", "ragged.csv, line 3: 1 values, expected 2 as in the header"],
    ["word.csv", "x,label\n1,a\nfoo,b\n3,c\n", 'word.csv, line 3: column "x" holds "foo", which is not a number'],
    ["nan.csv", "x,label\n1,a\nNaN,b\n", 'nan.csv, line 3: column "x" holds "NaN", which is not finite: fill or drop such rows'],
    ["plain.csv", "x,w\n1.5,2\n2.5,2.5\n", 'plain.csv: no label column can be told from the others: choose one of "x", "w"'],
    ["one.csv", "x,label\n1,a\n2,a\n", 'one.csv: every row has the label "a": metric learning needs two classes at least'],
    ["empty.csv", "", "empty.csv: the file is empty"],
    ["cat.png", "\x89PNG", "cat.png: only CSV (with a header) and NPY files are read: save the data as one of these"],
  ];
  await on("?engine=cpu", {}, async (page) => {
    const summary = await page.text("dataset-summary");
    for (const [name, text, message] of cases) {
      const file = path.join(folder, name);
      await writeFile(file, text);
      await page.upload(file);
      await page.page.waitForFunction((start) => document.querySelector("[data-testid=error] span").textContent.startsWith(start), name);
      assert.equal(await page.error(), message);
      assert.equal(await page.text("dataset-summary"), summary);
    }
    for (const [file, labels, message] of [
      ["features_cut.npy", "labels_text.npy", /features_cut.npy: the shape \(60, 5\) needs 1200 bytes of data, the file has 1193/],
      ["features_huge.npy", "labels_text.npy", /larger than any file/],
      ["features.npy", "labels_objects.npy", /a pickle/],
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

test("without WebGPU the page runs on the CPU, and a forced GPU is a sentence", async () => {
  const bare = await launch({ webgpu: false });
  try {
    await on(`#${SMALL}`, { browser: bare }, async (page) => {
      assert.match(await page.text("device"), /^Running on the CPU/);
      await page.click("run");
      await page.status(/^Done/);
    });
    await on("?engine=gpu", { browser: bare }, async (page) => {
      assert.match(await page.error(), /^no GPU adapter: .* or use the CPU engine$/);
    });
  } finally {
    await bare.close();
  }
});
