// The plots over the steps, and the similarities of a step.
import assert from "node:assert/strict";

import { pages, test } from "./playing.mjs";

const on = pages();

test("the similarities are those of rows and proxies with a loss that learns proxies, and have no band without a margin", async () => {
  for (const [sets, of] of [["loss.name=arc-face", "the rows with the proxies"], ["loss.name=multi-similarity&miner.name=multi-similarity", "the pairs"]]) {
    await on(`?engine=cpu#data=many-classes&steps=20&${sets}`, {}, async (page) => {
      await page.click("run");
      await page.status(/^Done/);
      const label = await page.find("chart-similarities").getAttribute("aria-label");
      assert.match(label, new RegExp(`^Similarities of ${of} of step 20: half of the positive pairs are above -?[\\d.]+; of the negative pairs [\\d.]+ % are above that$`));
      assert.ok((await page.drawn("chart-similarities")) > 100);
      const figure = page.page.locator("figure", { has: page.find("chart-similarities") });
      assert.equal(await figure.getByText("semi-hard").count(), 0);
    });
  }
});

test("what a step takes in PML stands beside what a step takes here, not beside all that is in use", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    const planned = await page.page.waitForFunction(() => document.querySelector("[data-testid=forecast-pml]")?.textContent.match(/one step take (.+) of it at most/)?.[1]);
    await page.click("run");
    await page.status(/^Done/);
    await page.tab("Memory");
    assert.equal(await page.text("memory-step"), await planned.jsonValue());
    const [step, pml, peak] = await Promise.all(["memory-step", "memory-pml", "memory-peak"].map((id) => page.bare(id, "bytes")));
    assert.ok(0 < step && step < peak && 0 < pml, `${step}, ${peak}, ${pml}`);
    const said = await page.find("chart-memory").getAttribute("aria-label");
    assert.match(said, /; the triplets or pairs of one step take [\d.]+ [KM]iB of it, and in PML about [\d.]+ [KMG]iB$/);
  });
});

test("noisy lines are as smooth as a person wants, and the loss stands on powers of ten where asked for", async () => {
  await on("?engine=cpu#data=digits&steps=60", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    const loss = () => page.settled("chart-loss");
    const [smoothed, mining] = [await loss(), await page.settled("chart-mining")];
    const smoothing = page.find("smoothing");
    assert.equal(await smoothing.inputValue(), "90");
    await smoothing.fill("0");
    const bare = await loss();
    assert.notEqual(bare, smoothed);
    assert.notEqual(await page.settled("chart-mining"), mining);
    await page.find("log-loss").check();
    assert.notEqual(await loss(), bare);
    await page.find("log-loss").uncheck();
    assert.equal(await loss(), bare);
    await smoothing.fill("90");
    assert.equal(await loss(), smoothed, "there and back");
  });
});

test("the similarities of a step are drawn and said, and the age of the memory's rows", async () => {
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#data=many-classes&steps=2000&evaluate_every=2000`, {}, async (page) => {
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
      await page.tab("Memory");
      assert.match(await page.text("memory-age"), /^Memory rows are 15\.5 steps old on average, 31 at most\.$/);
      await page.click("reset");
      await page.status(/^Ready/);
      assert.ok(await page.find("memory-age").isHidden());
    });
  }
});

test("another loss is chosen and set, trains, and its plot counts pairs", async () => {
  await on("?engine=cpu#data=digits&steps=40", {}, async (page) => {
    await page.set("Loss", "sup-con");
    await page.set("Temperature", "0.2");
    await page.click("run");
    await page.status(/^Done/);
    assert.match(await page.find("chart-mining").getAttribute("aria-label"), /^Pairs of step 40: \d+ valid, \d+ mined, \d+ active/);
    assert.match(await page.page.locator("figure.mining h2").innerText(), /^Pairs/);
    assert.ok((await page.number("loss")) > 0);
    assert.match(page.page.url(), /loss\.name=sup-con/);
    await page.screenshot("another-loss");
  });
});

test("steps are looked at closer by a drag, a wheel or their numbers, in all plots at once; a double click shows all", async () => {
  await on("?engine=cpu#data=digits&steps=60&standardize=false", {}, async (page) => {
    await page.tab("Memory");
    await page.click("run");
    await page.status(/^Done/);
    const { mouse, keyboard } = page.page;
    const over = ["chart-precision", "chart-mining", "chart-memory", "chart-loss"];
    const drawn = async () => {
      await mouse.move(3, 3);
      const plots = [];
      for (const id of over) plots.push(await page.settled(id));
      return plots;
    };
    const span = async () => {
      const [first, last] = await Promise.all(["first-step", "last-step"].map((id) => page.find(id).inputValue()));
      return first === "" && last === "" ? null : [Number(first), Number(last)];
    };
    // A place of a plot: 54 pixels are left of its lines, 20 right.
    const at = async (id, share) => {
      const { x, y, width, height } = await page.find(id).boundingBox();
      return [x + 54 + share * (width - 74), y + height / 2];
    };
    const near = (found, first, last) => assert.ok(found && Math.abs(found[0] - first) <= 1 && Math.abs(found[1] - last) <= 1, `${found}: about ${first} to ${last}`);
    const differ = (some, others) => some.forEach((plot, i) => assert.notEqual(plot, others[i], over[i]));
    const whole = await drawn();
    assert.equal(await span(), null);

    // A drag, on another plot than the one that has the numbers.
    await mouse.move(...await at("chart-mining", 0.25));
    await mouse.down();
    await mouse.move(...await at("chart-mining", 0.5));
    await mouse.move(...await at("chart-mining", 0.75));
    await mouse.up();
    near(await span(), 15, 45);
    const closer = await drawn();
    differ(closer, whole);

    // Along, by as much as the wheel went; at the end it stands.
    await mouse.move(...await at("chart-precision", 0.5));
    await mouse.wheel(100, 0);
    await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=first-step]").value) > 18);
    near(await span(), 22.5, 52.5);
    await mouse.wheel(4000, 0);
    await page.page.waitForFunction(() => Number(document.querySelector("[data-testid=last-step]").value) === 60);
    near(await span(), 30, 60);
    differ(await drawn(), closer);
    await mouse.dblclick(...await at("chart-loss", 0.5));
    assert.equal(await span(), null);
    assert.deepEqual(await drawn(), whole, "there and back");

    // A pinch, or Ctrl and the wheel: half as many steps, the one under the pointer where it was.
    await mouse.move(...await at("chart-memory", 0.5));
    await keyboard.down("Control");
    await mouse.wheel(0, -200);
    await page.page.waitForFunction(() => document.querySelector("[data-testid=first-step]").value !== "");
    near(await span(), 15, 45);
    await mouse.wheel(0, 400);
    await keyboard.up("Control");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=first-step]").value === "");
    assert.deepEqual(await drawn(), whole);

    // By their numbers. What is none of the steps becomes the nearest, in either order.
    await page.click("axes");
    await page.find("first-step").fill("40");
    await page.find("first-step").blur();
    differ(await drawn(), whole);
    await page.screenshot("axes");
    near(await span(), 40, 60);
    await page.find("last-step").fill("20");
    await page.find("last-step").blur();
    near(await span(), 20, 40);
    await page.find("last-step").fill("1000");
    await page.find("last-step").blur();
    near(await span(), 20, 60);
    await page.click("all-steps");
    assert.deepEqual(await drawn(), whole);
    await page.find("first-step").fill("-5");
    await page.find("first-step").blur();
    assert.equal(await span(), null);
    await page.find("log-steps").check();
    differ(await drawn(), whole);
    await page.screenshot("log-steps");
    await page.find("log-steps").uncheck();
    assert.deepEqual(await drawn(), whole);

    // The highest line of the loss: below the top by a tenth of the axis, or on its edge.
    const top = () => page.find("chart-loss").evaluate((canvas) => {
      const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      for (let y = 0; y < height; y += 1) {
        for (let x = 60; x < width - 20; x += 1) {
          const [r, g, b, a] = data.subarray(4 * (y * width + x));
          if (a > 40 && Math.max(r, g, b) - Math.min(r, g, b) > 60) return y;
        }
      }
      return height;
    });
    assert.ok((await top()) > 8, "the largest value is inside");
    await page.find("clip-loss").check();
    await drawn();
    assert.ok((await top()) <= 7, "the largest values lie on the edge");
    await page.screenshot("outliers");
    // Another run is shown whole.
    await page.find("last-step").fill("30");
    await page.find("last-step").blur();
    near(await span(), 0, 30);
    await page.click("reset");
    await page.status(/^Ready/);
    assert.equal(await span(), null);
  });
});

test("the pointer over a plot has its step and what stood there in all plots, and a similarity its shares", async () => {
  await on("?engine=cpu#data=digits&steps=60", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    const { mouse } = page.page;
    const numbers = () => Promise.all([page.bare("mining-mined", "count"), page.bare("mining-active", "count"), page.bare("memory-live", "bytes"), page.number("loss")]);
    const over = async (id, share) => {
      await page.find(id).scrollIntoViewIfNeeded();
      const { x, y, width, height } = await page.find(id).boundingBox();
      await mouse.move(x + 54 + share * (width - 74), y + height / 2);
    };
    const last = await numbers();
    const plain = await page.settled("chart-loss");
    await over("chart-mining", 0.5);
    await page.page.waitForFunction((mined) => Number(document.querySelector("[data-testid=mining-mined]").dataset.count) !== mined, last[0]);
    const middle = await numbers();
    middle.forEach((number, i) => assert.ok(Number.isFinite(number) && (i === 2 || number !== last[i]), `${middle}, at the end ${last}`));
    // The step is written beside the line, in plots that the pointer is not over, too.
    const words = () => page.find("chart-loss").evaluate((canvas) => {
      const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 24);
      let dark = 0;
      for (let i = 0; i < width * 24 * 4; i += 4) if (data[i + 3] > 120 && data[i] < 90) dark += 1;
      return dark;
    });
    assert.notEqual(await page.settled("chart-loss"), plain);
    assert.ok((await words()) > 20, "a step is written");
    await page.screenshot("hover");
    await mouse.move(3, 3);
    await page.page.waitForFunction((mined) => Number(document.querySelector("[data-testid=mining-mined]").dataset.count) === mined, last[0]);
    assert.deepEqual(await numbers(), last);
    assert.equal(await page.settled("chart-loss"), plain, "there and back");
    const similarities = await page.settled("chart-similarities");
    await over("chart-similarities", 0.9);
    assert.notEqual(await page.settled("chart-similarities"), similarities);
    await mouse.move(3, 3);
    assert.equal(await page.settled("chart-similarities"), similarities);
    await page.click("find-threshold");
    await page.find("chart-threshold").waitFor();
    const rates = await page.settled("chart-threshold");
    await over("chart-threshold", 0.5);
    assert.notEqual(await page.settled("chart-threshold"), rates);
    await page.screenshot("hover-threshold");
  });
});

test("training rows have a thin line beside validation, and the step whose head is kept is marked", async () => {
  // So few validation rows that a step before the last has all of them right.
  const settings = "steps=200&evaluate_every=20&optimizer.lr=0.01&test_fraction=0.8&early_stop.metric=precision_at_1&early_stop.patience=0";
  await on(`?engine=cpu#data=digits&${settings}`, {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    assert.match(await page.text("train-precision"), /^(0\.9\d|1\.00)$/);
    const [, kept] = (await page.find("why").textContent()).match(/The head is that of step (\d+) of 200/);
    assert.equal(await page.text("kept-step"), kept);
    await page.screenshot("train-line-light");
  });
});

test("where validation rows are few, the chart and the data say among which others they are searched", async () => {
  const told = async (page) => {
    await page.find("scored-among").focus();
    return page.page.locator(".meaning").innerText();
  };
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    const data = page.page.getByRole("region", { name: "Data", exact: true });
    const [, train, among] = (await data.innerText()).match(/trains on (\d+) rows\. \d+ validation rows are scored while it goes on \(they are few, so each looks for its nearest rows among (\d+) training rows too\), \d+ test rows once/);
    assert.equal(among, train);
    assert.match(await told(page), new RegExp(`^Rows that are never trained on\\..* Here they are few, so each looks for its nearest rows among ${train} training rows too; MAP@R may come out higher than on the test rows, .*\\.$`));
  });
  // Of classes that never train, rows are compared with each other alone.
  await on("?engine=cpu#data=mirrored&steps=20", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    assert.match(await told(page), /^Rows that are never trained on\..* while training goes on\.$/);
  });
});
