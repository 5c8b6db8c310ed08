// Files that stay on the disk.
import assert from "node:assert/strict";
import { readFile, truncate } from "node:fs/promises";

import { SMALL, pages, scores, test, written } from "./playing.mjs";

const on = pages();

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
      await page.summary(/^large.npy: 20\s000 rows of 64 features; 10 classes of 2000 rows/);
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
    // A worker of its own read it.
    assert.ok(sizes.every((size) => size < 2 ** 20) && !summary.includes("stay in the file"));
  });
  const inSlices = (sizes, summary) => {
    assert.match(summary, /[Ff]eatures stay in the file and are read as they are needed/);
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
      ["nan.npy", NaN, "nan.npy: row 4501, column 3: the value is not finite: choose what becomes of such cells"],
      ["huge.npy", -1e20, "huge.npy: row 4501, column 3: -1e20 is too large to square: scale the features"],
    ]) {
      await page.upload(...(await large(name, { [at]: value })));
      // A look at the rows comes before training.
      await page.says("error", new RegExp(`^${name}: row`));
      await page.status(/^Ready/);
      assert.ok((await page.error()).startsWith(`${said}\nNothing was changed`), await page.error());
    }
    const [file, labels] = await large("cut.npy");
    await page.upload(file, labels);
    await page.summary(/^cut.npy/);
    await truncate(file, 3_000_000);
    await page.click("run");
    await page.says("error", /^cut.npy: row \d+: the file changed while it was read: /);
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

test("cells without a number of a file that stays on the disk are dealt with as the menu says", async () => {
  const holes = { [4500 * 64 + 2]: NaN, [70 * 64 + 9]: Infinity, [71 * 64 + 9]: -Infinity };
  await on(`?engine=cpu&stream_from=1000000#${SMALL}`, {}, async (page) => {
    await page.upload(...(await large("holes.npy", holes)));
    await page.says("error", /^holes.npy: row 71, column 10: the value is not finite: choose what becomes of such cells/);
    const cells = page.find("missing-cells");
    for (const [policy, said] of [
      ["median", /^holes.npy: 20\s000 rows of 64 features.*Filled 3 cells that hold no number with the median.*stay in the file/],
      ["drop-columns", /^holes.npy: 20\s000 rows of 62 features.*Left out, as a cell holds no number: "column 3", "column 10"/],
      ["drop-rows", /^holes.npy: 19\s997 rows of 64 features.*Left out 3 of 20\s?000 rows/],
    ]) {
      await cells.selectOption(policy);
      await page.summary(said);
    }
    assert.equal(await page.error(), "");
    await page.click("run");
    await page.status(/^Done/);
  });
});

test("who does not want to wait has a sample of the test rows scored", async () => {
  const files = await large("large.npy");
  await on(`?engine=cpu#${SMALL}&data=file:large.npy&steps=10&test_fraction=0.8&test_queries=0`, {}, async (page) => {
    await page.upload(...files);
    await page.summary(/^large.npy/);
    await page.click("run");
    await page.find("score-fewer").filter({ visible: true }).waitFor();
    // How much is done shows, and how long it goes on.
    await page.says("working", /of .* left/);
    await page.click("score-fewer");
    await page.status(/^Done/);
    assert.ok(await page.find("score-fewer").isHidden());
    await page.click("take-home");
    const save = page.find("export-history");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-history]").getAttribute("aria-disabled") === "false");
    const [download] = await Promise.all([page.page.waitForEvent("download"), save.click()]);
    const report = JSON.parse(await readFile(await download.path(), "utf8"));
    assert.equal(report.final.test.queries, 1000);
    assert.equal(report.baseline.raw.test.queries, 1000);
    assert.equal(report.config.test_queries, 1000);
    assert.equal(report.data.test, 16_000);
  });
});
