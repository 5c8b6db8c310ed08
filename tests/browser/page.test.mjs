// The page in a real browser, on a software GPU and on the CPU.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, truncate, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { Page, launch, root, serve } from "./support.mjs";

const PLOTS = ["chart-precision", "chart-mining", "chart-similarities", "chart-memory", "chart-loss", "embedding-map"];
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

/** Writes a file of its own to load. */
async function written(name, text) {
  const file = path.join(await mkdtemp(path.join(os.tmpdir(), "nearfar-")), name);
  await writeFile(file, text);
  return file;
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
    assert.ok(page.page.url().endsWith("#data=many-classes"), page.page.url());
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

test("a pause or a resume that comes too late leaves no run that is not there", async () => {
  // Pauses when the last scores of the validation side come: while the worker scores the test side.
  const pauseAtTheEnd = () => {
    window.Worker = class extends Worker {
      constructor(...parts) {
        super(...parts);
        this.addEventListener("message", ({ data: [json] }) => {
          if (JSON.parse(json).Evaluated?.evaluation.step === 20) document.querySelector("[data-testid=pause]").click();
        });
      }
    };
  };
  await on("?engine=cpu#data=digits&steps=20", { init: pauseAtTheEnd }, async (page) => {
    await page.click("run");
    await page.status(/^(Done|Paused)/);
    if ((await page.text("status")).startsWith("Paused")) await page.click("run");
    await page.status(/^Done/);
    await page.page.waitForTimeout(300);
    assert.match(await page.text("status"), /^Done/);
  });
  await on("?engine=cpu#data=digits&steps=4000", {}, async (page) => {
    const resetThenSpace = () => page.page.evaluate(() => {
      for (const key of ["r", " "]) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    });
    for (const state of [/^Training/, /^Paused/]) {
      await page.click("run");
      await page.status(/^Training/);
      if (state.test("Paused")) {
        await page.click("pause");
        await page.status(state);
      }
      await resetThenSpace();
      await page.status(/^Ready/);
      await page.page.waitForTimeout(300);
      assert.match(await page.text("status"), /^Ready/);
    }
    await page.click("run");
    await page.status(/^Training/);
  });
});

test("a key that is held counts once, S steps no run that goes on, and the focus stays where it was", async () => {
  await on("?engine=cpu#data=digits&steps=4000", {}, async (page) => {
    await page.click("run");
    await page.status(/^Training/);
    assert.ok(await page.find("run").evaluate((button) => button === document.activeElement));
    await page.page.keyboard.press("s");
    await page.page.waitForTimeout(300);
    assert.match(await page.text("status"), /^Training/);
    // Run has the focus and nothing to do: Space pauses, once while it is held.
    await page.page.keyboard.down("Space");
    await page.page.keyboard.down("Space");
    await page.status(/^Paused/);
    await page.page.keyboard.down("Space");
    await page.page.waitForTimeout(300);
    assert.match(await page.text("status"), /^Paused/);
  });
});

test("while data is read the page says so, and Run waits", async () => {
  const rows = Array.from({ length: 20_000 }, (_, i) => `${Array.from({ length: 40 }, (_, j) => (i * j) % 97).join()},${"abc"[i % 3]}`);
  const header = `${rows[0].split(",").map((_, i) => `x${i}`).slice(1).join()},label`;
  const file = await written("many.csv", [header, ...rows].join("\n"));
  await on("?engine=cpu", {}, async (page) => {
    await page.upload(file);
    assert.match(await page.text("status"), /^Reading the data/);
    assert.ok(await page.find("run").isDisabled());
    await page.page.locator("h1").click();
    await page.page.keyboard.press("Space");
    await page.status(/^Ready/);
    assert.match(await page.text("dataset-summary"), /^many.csv: 20000 rows of 40 features/);
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

test("what does not hold in a link is named, and the rest of it holds", async () => {
  await on("?engine=tpu#batch_size=0&steps=33&colour=red&memory_size=99&split=column:side", {}, async (page) => {
    const error = await page.error();
    for (const part of ["tpu", "batch_size is 0: it must be between", "no setting `colour`", 'no text column "side"']) {
      assert.ok(error.includes(part), `${part} in ${error}`);
    }
    assert.equal(await page.knob("Steps"), "33");
    assert.equal(await page.knob("Memory rows"), "99");
    assert.equal(await page.knob("Batch rows"), "32");
    assert.equal(await page.knob("Split"), "by-class", "the default of this data");
    assert.ok(page.page.url().endsWith("#data=many-classes&memory_size=99&steps=33"), page.page.url());
  });
  await on("?engine=cpu#data=nosuch&steps=33", {}, async (page) => {
    assert.match(await page.error(), /no sample "nosuch"/);
    assert.equal(await page.knob("Steps"), "33");
    assert.equal(await page.find("dataset-select").inputValue(), "many-classes");
  });
});

test("a link that is pasted into the open page is followed, but not under a run", async () => {
  await on("?engine=cpu#data=sample:digits&steps=4000", {}, async (page) => {
    const paste = (hash) => page.page.evaluate((hash) => { location.hash = hash; }, hash);
    assert.match(await page.text("dataset-summary"), /^1797 rows/);
    await paste("#data=digits&steps=33&miner.type_of_triplets=hard");
    await page.page.waitForFunction(() => document.getElementById("knob-steps").value === "33");
    await page.page.waitForFunction(() => document.getElementById("knob-miner-type_of_triplets").value === "hard");
    await paste("#data=many-classes&batch_size=48");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.startsWith("6500 rows"));
    assert.equal(await page.knob("Batch rows"), "48");
    assert.equal(await page.knob("Steps"), "400");
    await page.click("run");
    await page.status(/^Training/);
    await paste("#data=digits");
    await page.page.waitForFunction(() => location.hash === "#data=many-classes&batch_size=48");
    assert.match(await page.error(), /a run is under way: press Reset/);
    assert.match(await page.text("status"), /^Training/);
  });
});

test("a link whose data is a file says so, and its settings hold once the file is there", async () => {
  let link;
  await on("?engine=cpu", {}, async (page) => {
    await page.upload(path.join(root, "tests/data/trees.csv"));
    await page.summary(/^trees.csv/);
    await page.set("Steps", "33");
    link = new URL(page.page.url()).hash;
    assert.match(link, /^#data=file%3Atrees.csv&steps=33$/);
  });
  await on(`?engine=cpu${link}`, {}, async (page) => {
    assert.match(await page.error(), /the file trees.csv, which a link cannot carry/);
    assert.match(await page.text("status"), /^Choose/);
    assert.ok(await page.find("run").isDisabled());
    assert.equal(await page.find("dataset-select").locator("option:checked").innerText(), "choose ..");
    await page.upload(path.join(root, "tests/data/trees.csv"));
    await page.summary(/^trees.csv/);
    assert.equal(await page.knob("Steps"), "33");
    assert.equal(await page.find("dataset-select").locator("option:checked").innerText(), "your files");
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
    assert.match(await page.error(), /^The link: .*no setting `batchsize`/);
  });
});

test("a setting out of range is refused with the range, and the old one stays", async () => {
  await on("?engine=cpu", {}, async (page) => {
    await page.set("Batch rows", "0");
    assert.equal(await page.error(), "batch_size is 0: it must be between 2 and 32768, or 1 with a memory");
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

test("settings past what a browser can address are refused with their numbers", async () => {
  for (const [settings, needs] of [
    ["memory_size=16777216&embedding_size=256", /^"training" needs 16\.\d GiB, /],
    ["hidden_layers=[65536,65536]", /^"training" needs 64\.\d GiB, /],
  ]) {
    await on(`?engine=cpu#${settings}`, {}, async (page) => {
      await page.click("run");
      await page.status(/^Ready/);
      assert.match(await page.error(), needs);
    });
  }
});

test("the banner moves no control: a click that leaves a bad value still runs", async () => {
  await on("?engine=cpu#steps=4000", {}, async (page) => {
    const where = () => page.find("run").boundingBox();
    const fits = () => page.find("chart-loss").evaluate((canvas) => canvas.height === Math.round(canvas.clientHeight * devicePixelRatio));
    const before = await where();
    await page.page.getByLabel("Batch rows", { exact: true }).fill("0");
    await page.page.mouse.click(before.x + before.width / 2, before.y + before.height / 2);
    await page.status(/^Training/);
    assert.match(await page.error(), /^batch_size is 0/);
    assert.deepEqual(await where(), before);
    await page.page.waitForFunction(() => {
      const canvas = document.querySelector("[data-testid=chart-loss]");
      return canvas.height === Math.round(canvas.clientHeight * devicePixelRatio);
    });
    assert.ok(await fits());
    await page.set("Loss margin", ".5");
    assert.equal(await page.knob("Loss margin"), "0.5");
    assert.equal(await page.error(), "");
  });
});

test("a refused start leaves the comparison as it was", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}`, {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    await page.click("without-memory");
    await page.page.locator(".faint", { hasText: "the run before" }).waitFor();
    await page.status(/^Done/);
    const shown = async () => [await page.page.innerText(".faint"), await page.text("precision-at-1"), await page.drawn("chart-precision")];
    const before = await shown();
    await page.set("Memory rows", "65536");
    await page.set("Budget, MiB", "1");
    await page.click("run");
    await page.status(/^Ready/);
    assert.match(await page.error(), /^"training" needs/);
    assert.equal(before[0], (await shown())[0]);
    assert.deepEqual((await shown()).slice(0, 2), before.slice(0, 2));
    assert.ok(Math.abs((await shown())[2] - before[2]) < 0.4 * before[2], "both runs are still drawn");
  });
});

test("without memory the last run is repeated, and the settings on the page stay", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}`, {}, async (page) => {
    assert.ok(await page.find("without-memory").isDisabled());
    await page.click("run");
    await page.status(/^Done/);
    await page.set("Steps", "60");
    await page.click("without-memory");
    await page.page.locator(".faint", { hasText: "the run before" }).waitFor();
    await page.status(/^Done: 40 steps/);
    assert.match(await page.page.innerText(".faint"), /the run before, memory_size 256, precision@1 \d/);
    assert.equal(await page.knob("Memory rows"), "256");
    assert.ok(await page.find("without-memory").isDisabled());
    await page.click("run");
    await page.status(/^Done: 60 steps/);
    assert.match(await page.page.innerText(".faint"), /the run before, memory_size 0, steps 40, precision@1 \d/);
  });
});

test("where nothing steers, the training side is named and no other side's baseline drawn", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}&validation_fraction=0`, {}, async (page) => {
    await page.click("step");
    await page.status(/^Paused/);
    assert.equal(await page.page.getByRole("heading", { name: "Retrieval" }).innerText(), "Retrieval, training rows");
    assert.equal(await page.text("baseline-precision-at-1"), "–");
    assert.ok((await page.drawn("chart-precision")) > 5, "one evaluation is a dot");
    await page.click("run");
    await page.status(/^Done/);
    assert.notEqual(await page.text("baseline-precision-at-1"), "–");
  });
});

test("a lost device costs the run at most, and the next one opens another", async () => {
  await on("?engine=gpu#data=digits&steps=4000", {}, async (page) => {
    const [worker] = page.page.workers();
    await worker.evaluate(() => {
      const ask = GPUAdapter.prototype.requestDevice;
      GPUAdapter.prototype.requestDevice = async function (...how) {
        return (self.opened = await ask.apply(this, how));
      };
    });
    const lose = () => worker.evaluate(async () => {
      self.opened.destroy();
      await self.opened.lost;
    });
    // Another budget opens another device.
    await page.set("Budget, MiB", "128");
    await page.click("run");
    await page.status(/^Training/);
    await page.click("pause");
    await page.status(/^Paused/);
    await lose();
    await page.click("run");
    await page.status(/^Ready/);
    assert.match(await page.error(), /lost.*Press Run to start again/s);
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.error(), "");
    await page.click("reset");
    await page.status(/^Ready/);
    await lose();
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.error(), "");
  });
});

test("a worker that ends is said, and Run starts another with the same data", async () => {
  await on("?engine=cpu#data=digits&steps=4000&batch_size=48", {}, async (page) => {
    const end = () => page.page.workers()[0].evaluate(() => { setTimeout(() => { throw new Error("boom"); }); });
    await page.click("run");
    await page.status(/^Training/);
    await end();
    await page.status(/^The worker stopped/);
    assert.match(await page.error(), /boom.*press Run/);
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.knob("Batch rows"), "48");
    await end();
    await page.status(/^The worker stopped/);
    await page.find("dataset-select").selectOption("many-classes");
    await page.status(/^Ready/);
    assert.equal(await page.error(), "");
    // The worker's own files are all that was asked for, and its end all that was complained of.
    assert.ok(page.requests.every((url) => url.startsWith(site.url)));
    page.requests.length = 0;
    assert.ok(page.problems.every((problem) => problem.includes("boom")), page.problems.join());
    page.problems.length = 0;
  });
});

test("a worker that does not start is said", async () => {
  const noWasm = (page) => page.route("**/worker.js*", (route) => route.abort());
  await on("", { prepare: noWasm, ready: /^The worker stopped/ }, async (page) => {
    assert.match(await page.error(), /^The worker did not start/);
    page.problems.length = 0;
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
    await page.upload(data("labelled_deflated.npz"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=dataset-summary]").textContent.includes("labelled_deflated.npz"));
    assert.match(await page.text("dataset-summary"), /60 rows of 5 features; 3 classes of 20 rows: 0, 1, 2\. features = "embeddings" \(60, 5\)\. label = "labels" \(60,\)\./);
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
  for (const file of [large, alone]) await truncate(file, 1.5 * 2 ** 30);
  await on("?engine=cpu", {}, async (page) => {
    await page.upload(large);
    assert.equal(
      await page.error(),
      "large.csv: 1.5 GiB, and a page can hold 1 GiB of files at most: save the features as NPY, use fewer rows, or the command line (nearfar train)",
    );
    await page.upload(alone);
    await page.says("error", /large.npy: an NPY file holds features or labels, not both: give the two files at once/);
    const devtools = await page.page.context().newCDPSession(page.page);
    for (const type of ["dragEnter", "dragOver", "drop"]) {
      const data = { items: [], files: [path.join(root, "tests/data")], dragOperationsMask: 1 };
      await devtools.send("Input.dispatchDragEvent", { type, x: 700, y: 400, data });
    }
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent === "data: folders cannot be read: drop the files themselves");
    assert.match(await page.text("status"), /^Ready/);
  });
});

test("bad files give the command line's sentence, and the data there was stays", async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const cases = [
    ["ragged.csv", "x,label\n1,a\n2\n", "ragged.csv, line 3: 1 value, expected 2 as in the first line"],
    ["word.csv", "x,label\n1,a\nfoo,b\n3,c\n", 'word.csv, line 3: column "x" holds "foo", which is not a number'],
    ["nan.csv", "x,label\n1,a\nNaN,b\n", 'nan.csv, line 3: column "x" holds "NaN", a missing value: fill or drop such rows; pandas drops them: `import pandas as pd; pd.read_csv("nan.csv").dropna().to_csv("nan_clean.csv", index=False)`'],
    ["plain.csv", "x,w\n1.5,2\n2.5,2.5\n", 'plain.csv: no label column can be told from the others: choose one of "x", "w"'],
    ["one.csv", "x,label\n1,a\n2,a\n", 'one.csv: every row has the label "a": metric learning needs two classes at least'],
    ["empty.csv", "", "empty.csv: the file is empty"],
    ["cat.png", "\x89PNG", "cat.png: only CSV, NPY and NPZ files are read: save the data as one of these"],
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

/** The panel of hardest triplets: what is said, and the lines of the table. */
async function hardest(page) {
  const panel = page.find("hardest-triplets");
  const triplets = await panel.locator("tbody tr").evaluateAll((lines) => lines.map((line) => {
    const [anchor, positive, negative] = [...line.cells].map((cell) => cell.innerText.match(/-?\d+(\.\d+)?/g).map(Number));
    return { anchor: anchor[0], class: anchor[1], positive: positive[0], ap: positive[1], negative: negative[0], an: negative[1], other: negative[2] };
  }));
  return { said: await panel.getByRole("status").innerText(), triplets };
}

test("the similarities of a step are drawn and said, and its hardest triplets shown by a click or by keys", async () => {
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#steps=2000&evaluate_every=2000`, {}, async (page) => {
      assert.match((await hardest(page)).said, /^Click the plot of triplets at a step, or press its button/);
      assert.ok(await page.find("show-hardest").isDisabled());
      assert.match(await page.find("chart-similarities").getAttribute("aria-label"), /none yet$/);
      await page.click("run");
      await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 60);
      await page.click("pause");
      await page.status(/^Paused/);
      const last = await page.number("step-count");

      const label = await page.find("chart-similarities").getAttribute("aria-label");
      const said = label.match(/^Similarities of the pairs of step (\d+): half of the positive pairs are above (-?[\d.]+); of the negative pairs ([\d.]+) % are above that, hard, and ([\d.]+) % between (-?[\d.]+) and that/);
      assert.ok(said, label);
      assert.equal(Number(said[1]), last);
      assert.ok(Math.abs(said[2] - said[5] - 0.2) < 0.011, "the band is as wide as the miner's margin");
      assert.ok((await page.drawn("chart-similarities")) > 100);
      assert.match(await page.text("memory-age"), /^Memory rows: 15\.5 steps old, 31 at most\.$/);

      // By keys: the last step that is kept.
      await page.find("show-hardest").focus();
      await page.page.keyboard.press("Enter");
      const { said: latest, triplets } = await hardest(page);
      const newest = Number(latest.match(/^Rows of step (\d+):$/)[1]);
      assert.ok(newest > 0 && newest <= last, latest);
      assert.equal(triplets.length, 5);
      let before = Infinity;
      for (const { anchor, class: own, positive, ap, negative, an, other } of triplets) {
        // Ten rows of a class stand together, and rows are counted from 1.
        for (const [row, label] of [[anchor, own], [positive, own], [negative, other]]) assert.equal(label, Math.floor((row - 1) / 10), `row ${row}`);
        assert.notEqual(other, own);
        assert.ok(an - ap <= before + 0.0021, "the most violated first");
        before = an - ap;
      }
      // By a click near the plot's left edge: the nearest step that is kept, and it says which.
      await page.find("chart-mining").click({ position: { x: 56, y: 60 } });
      const first = await hardest(page);
      const kept = first.said.match(/^Rows of step (\d+)(?:, the nearest to step (\d+) that is kept)?:$/);
      assert.ok(kept && Number(kept[1]) < newest, first.said);
      // Nearer to what was asked for than the newest is.
      const asked = Number(kept[2] ?? kept[1]);
      assert.ok(asked > 0 && Math.abs(kept[1] - asked) <= newest - asked, first.said);
      assert.notDeepEqual(first.triplets, triplets);
      await page.screenshot(`hardest-${engine}`);
      await page.click("reset");
      await page.status(/^Ready/);
      assert.equal((await hardest(page)).triplets.length, 0);
      assert.ok(await page.find("memory-age").isHidden());
    });
  }
});

/** The panel of neighbours: the row that was asked for, what was said, and the lines of the table. */
async function neighbours(page) {
  const panel = page.find("neighbours");
  const lines = await panel.locator("tbody tr").evaluateAll((lines) => lines.map((line) => {
    const [, row, name, verdict, similarity] = [...line.cells].map((cell) => cell.textContent);
    return { row: Number(row), name, verdict, similarity: Number(similarity) };
  }));
  return { row: Number(await page.find("neighbour-row").inputValue()), said: await panel.getByRole("status").innerText(), lines };
}

/** Waits until the neighbours of a row are there, of this one where it is given. */
async function found(page, row) {
  await page.page.waitForFunction((row) => {
    const panel = document.querySelector("[data-testid=neighbours]");
    const chosen = document.querySelector("[data-testid=neighbour-row]").value;
    return panel.querySelector("tbody tr") && (row === undefined || chosen === String(row));
  }, row);
  return neighbours(page);
}

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
  execFileSync(path.join(root, "target/debug/nearfar"), ["train", "--set", "steps=20", "--out", out], { stdio: "ignore" });
  const embeddings = await matrix(path.join(out, "test_embeddings.npy"));
  const product = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#steps=20`, {}, async (page) => {
      assert.ok(await page.find("neighbours").isHidden());
      await page.click("run");
      await page.status(/^Done/);
      const before = await page.find("embedding-map").screenshot();
      const position = await page.point("embedding-map");
      await page.find("embedding-map").click({ position });
      const { row, said, lines } = await found(page);
      const own = row - 1 - 5000;
      assert.ok(own >= 0 && own < 1500, `row ${row} is of the test side`);
      const expected = embeddings.map((other, i) => [i, product(embeddings[own], other)]).filter(([i]) => i !== own);
      expected.sort((a, b) => b[1] - a[1]);
      assert.equal(lines.length, 10);
      lines.forEach(({ row: other, name, verdict, similarity }, i) => {
        assert.ok(Math.abs(similarity - expected[i][1]) < 2e-3, `neighbour ${i + 1}: ${similarity}, expected ${expected[i][1]}`);
        const sameClass = Math.floor(own / 10) === Math.floor((other - 5001) / 10);
        assert.equal(verdict, sameClass ? "right" : "wrong", `row ${other} for row ${row}`);
        assert.ok(name.length > 0);
      });
      const right = lines.filter(({ verdict }) => verdict === "right").length;
      assert.match(said, new RegExp(`^Class \\d+: ${right} of the 10 nearest test rows are right, at step 20$`));
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
    assert.match(first.said, /nearest validation rows/);
    await page.page.keyboard.press("ArrowUp");
    const second = await page.page.waitForFunction((first) => Number(document.querySelector("[data-testid=neighbour-row]").value) > first, first.row);
    await second.dispose();
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
    await row.fill("1797");
    await row.press("Enter");
    await page.page.waitForFunction((waits) => document.querySelector("[data-testid=neighbours] [role=status]").textContent.endsWith(`at step ${waits}`), waits);
    assert.match(await page.text("status"), /^Paused/);
    assert.equal(await page.number("step-count"), waits, "asking takes no step");
    await page.page.getByRole("button", { name: "Clear" }).click();
    assert.match((await neighbours(page)).said, /^Click a point/);
    assert.equal((await neighbours(page)).lines.length, 0);
    await page.find("dataset-select").selectOption("many-classes");
    await page.summary(/^6500/);
    assert.ok(await page.find("neighbours").isHidden());
  });
});

test("what a run will take is said before it starts, and is what it holds", async () => {
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#data=digits&${SMALL}`, {}, async (page) => {
      const forecast = page.find("forecast");
      await page.says("forecast", /of the budget of 256 MiB/);
      assert.match(await forecast.innerText(), /^This run will take (about \d+|less than a) (s|second|min) and [\d.]+ MiB of the budget of 256 MiB\.$/);
      const bytes = () => page.bare("forecast", "bytes");
      const small = await bytes();
      await page.set("Memory rows", "16384");
      await page.page.waitForFunction((small) => Number(document.querySelector("[data-testid=forecast]").dataset.bytes) > small + 2 ** 21, small);
      assert.match(await page.find("forecast-by-purpose").locator("span").first().getAttribute("title"), /^memory bank: [\d.]+ MiB$/);
      // Refused before Run, with the least budget that does.
      await page.set("Budget, MiB", "5");
      await page.says("forecast", /This run would be refused/);
      const [, least] = (await forecast.innerText()).match(/^This run would be refused: "training" needs [\d.]+ MiB, [\d.]+ MiB of the 5 MiB budget is free: raise the budget to (\d+) MiB, or lower memory_size, batch_size or the widths\.$/);
      if (engine === "gpu") await page.screenshot("forecast-refused-light");
      await page.set("Budget, MiB", least);
      await page.says("forecast", new RegExp(`of the budget of ${least} MiB`));
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

/** The table of every row's scores, as an object. */
function scores(page) {
  return page.find("evaluation").locator("table").evaluate((table) => {
    const [head, line] = table.rows;
    const cells = [...head.cells].map((cell, i) => [cell.textContent, line.cells[i].innerText.trim()]);
    return { caption: table.caption.textContent, ...Object.fromEntries(cells) };
  });
}

test("every row is evaluated: validation while the run goes on, the test side when it is over", async () => {
  // So many steps that the run is still going on when the button is pressed.
  for (const [engine, steps] of [["gpu", 200], ["cpu", 800]]) {
    const settings = [`steps=${steps}`, "evaluate_queries=100"];
    const { final } = native(...settings);
    await on(`?engine=${engine}#${settings.join("&")}`, {}, async (page) => {
      assert.ok(await page.find("evaluate-all").isHidden());
      await page.click("run");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=precision-at-1]").textContent !== "–");
      assert.match(await page.text("evaluate-all-forecast"), /^All 500 validation rows as queries: .* s(econd)?, in [\d.]+ [KM]iB that the run holds for it$/);
      await page.click("evaluate-all");
      await page.find("evaluation").locator("table").waitFor();
      const mid = await scores(page);
      assert.match(mid.caption, /^500 validation rows at step \d+, each against all others/);
      await page.status(/^Done/);
      assert.deepEqual(await scores(page), mid, "it stays until it is asked for again");
      assert.match(await page.text("evaluate-all-forecast"), /^All 1500 test rows/);
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
    await page.page.waitForFunction(() => /^[1-9]\d* of 17100 queries$/.test(document.querySelector("[data-testid=evaluate-all-forecast]").textContent));
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
    await page.status(/^Ready/, 5);
    assert.match(await page.text("dataset-summary"), /^1797 rows/);
  });
});

/** An NPY file of 20,000 rows of 64 numbers, 5 MB, ten classes in it and a few numbers changed; and its labels. */
async function large(name, changes = {}) {
  const [rows, dim] = [20_000, 64];
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${dim}), }`.padEnd(117) + "\n";
  const start = Buffer.concat([Buffer.from("\x93NUMPY\x01\x00", "latin1"), Buffer.from([118, 0]), Buffer.from(header)]);
  const values = new Float32Array(rows * dim);
  let noise = 1;
  for (let i = 0; i < values.length; i += 1) {
    noise = (noise * 48_271) % 2_147_483_647;
    const [label, column] = [Math.floor(i / dim) % 10, i % dim];
    values[i] = noise / 2 ** 31 + (column % 10 === label ? 0.4 : 0);
  }
  for (const [at, value] of Object.entries(changes)) values[at] = value;
  const file = await written(name, Buffer.concat([start, Buffer.from(values.buffer)]));
  const labels = await written("labels.csv", ["label", ...Array.from({ length: rows }, (_, i) => `c${i % 10}`)].join("\n"));
  return [file, labels];
}

test("a large NPY stays on the disk, and the run is the same", async () => {
  const files = await large("large.npy");
  const settings = `${SMALL}&data=file:large.npy&test_fraction=0.05&validation_fraction=0.02`;
  const ran = async (query, settings, check) => {
    let shown;
    await on(`?engine=cpu&${query}#${settings}`, {}, async (page) => {
      const [worker] = page.page.workers();
      await worker.evaluate(() => {
        self.sizes = [];
        const whole = Blob.prototype.arrayBuffer;
        Blob.prototype.arrayBuffer = function () {
          self.sizes.push(this.size);
          return whole.call(this);
        };
      });
      await page.upload(...files);
      await page.summary(/^large.npy: 20000 rows of 64 features; 10 classes of 2000 rows/);
      const summary = await page.text("dataset-summary");
      await page.click("run");
      await page.status(/^Done/);
      await page.click("evaluate-all");
      await page.find("evaluation").locator("table").waitFor();
      shown = [await page.text("loss"), await page.text("baseline-linear-precision-at-1"), await scores(page)];
      check(await worker.evaluate(() => self.sizes), summary);
    });
    return shown;
  };
  const whole = await ran("", settings, (sizes, summary) => {
    assert.ok(sizes.includes(20_000 * 256 + 128) && !summary.includes("stay in the file"));
  });
  const inSlices = (sizes, summary) => {
    assert.match(summary, /features stay in the file and are read as they are needed/);
    assert.ok(Math.max(...sizes) <= 2 ** 20, `slices of ${Math.max(...sizes)} bytes`);
  };
  // All on the device, read once from end to end; and batch by batch, with little room.
  assert.deepEqual(await ran("stream_from=1000000", settings, (sizes, summary) => {
    inSlices(sizes, summary);
    assert.ok(sizes.filter((size) => size > 2 ** 19).length >= 4, "rows that follow are read ahead");
  }), whole);
  assert.deepEqual(await ran("stream_from=1000000", `${settings}&budget_bytes=2097152`, inSlices), whole);
});

test("what is wrong with a file that stays on the disk is a sentence, and the page goes on", async () => {
  const at = 4500 * 64 + 2;
  await on(`?engine=cpu&stream_from=1000000#${SMALL}`, {}, async (page) => {
    for (const [name, value, said] of [
      ["nan.npy", NaN, "nan.npy: row 4501, column 3: the value is not finite: fill or drop such rows"],
      ["huge.npy", -1e20, "huge.npy: row 4501, column 3: -1e20 is too large to square: scale the features"],
    ]) {
      await page.upload(...(await large(name, { [at]: value })));
      await page.summary(new RegExp(`^${name}`));
      await page.click("run");
      await page.says("error", /row/);
      await page.status(/^Ready/);
      assert.equal(await page.error(), said);
    }
    const [file, labels] = await large("cut.npy");
    await page.upload(file, labels);
    await page.summary(/^cut.npy/);
    await truncate(file, 3_000_000);
    await page.click("run");
    await page.says("error", /^cut.npy: row \d+: the file changed while it was read \(/);
    await page.status(/^Ready/);
    await page.upload(file, labels);
    await page.says("error", /^cut.npy: the shape \(20000, 64\) needs 5120000 bytes of data, the file has 2999872/);
    await page.find("dataset-select").selectOption("digits");
    await page.summary(/^1797/);
    await page.click("run");
    await page.status(/^Done/);
    assert.equal(await page.error(), "");
  });
});
