// The page's link: what it carries, and what it does not.
import assert from "node:assert/strict";
import path from "node:path";

import { SMALL, pages, test } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages();

test("what does not hold in a link is named, and the rest of it holds", async () => {
  await on("?engine=tpu#data=many-classes&batch_size=0&steps=33&colour=red&memory_size=99&split=column:side", {}, async (page) => {
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
    assert.equal(await page.find("dataset-select").inputValue(), "digits");
  });
});

test("of a link with sixty thousand settings that there are not, three are named, and what is long in it is cut", async () => {
  const many = Array.from({ length: 60_000 }, (_, i) => `colour${i}=${i}`).join("&");
  const long = "x".repeat(100_000);
  await on(`?engine=cpu#${many}&steps=33`, {}, async (page) => {
    const error = await page.error();
    assert.match(error, /^The link: there is no setting `colour0`.*`colour2`.*; and 59.997 more$/);
    assert.ok(error.length < 6000, `${error.length} characters`);
    assert.equal(await page.knob("Steps"), "33");
  });
  for (const part of [`split=column:${long}`, `batch_size=${long}`, `${long}=1`, `hidden_layers=[${"8,".repeat(50_000)}8]`, `data=${long}`]) {
    await on(`?engine=cpu#${part}`, {}, async (page) => {
      const error = await page.error();
      assert.ok(error.length > 0 && error.length < 2000, `${error.length} characters for ${part.slice(0, 20)}`);
    });
  }
  await on(`?engine=cpu#data=file:${long}`, {}, async (page) => assert.ok((await page.text("notice")).length < 200));
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
    assert.equal(await page.text("notice"), "The link remembers settings, not your file: drop trees.csv again.");
    assert.equal(await page.error(), "");
    assert.match(await page.text("status"), /^Choose/);
    assert.ok(await page.find("run").isDisabled());
    assert.equal(await page.knob("Steps"), "33", "what the link asks for, before the file is there");
    assert.equal(await page.find("dataset-select").locator("option:checked").innerText(), "choose ..");
    await page.upload(path.join(root, "tests/data/trees.csv"));
    await page.summary(/^trees.csv/);
    assert.equal(await page.knob("Steps"), "33");
    assert.equal(await page.find("dataset-select").locator("option:checked").innerText(), "your files");
  });
});

test("settings stand in the link, and a link sets them", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}&miner.type_of_triplets=hard`, {}, async (page) => {
    assert.match(await page.text("dataset-summary"), /^1797 rows of 64 features; 10 classes of 174 to 183 rows each: 0, 1, 2/);
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

test("a teacher's link shows the settings it names and leaves parts out, and the rest stays as it says", async () => {
  const labels = (page) => page.page.locator(".controls .knob label:visible").allInnerTexts();
  await on("?engine=cpu&show=steps,dropout&hide=compare,runs,data,take-home#data=digits&steps=40&batch_size=16", {}, async (page) => {
    assert.deepEqual(await labels(page), ["Steps", "Dropout"]);
    for (const name of ["view-run", "dataset-select", "take-home", "recipe"]) assert.equal(await page.page.getByTestId(name).filter({ visible: true }).count(), 0, name);
    assert.equal(await page.find("notice").count(), 0);
    await page.set("Steps", "30");
    await page.click("run");
    await page.status(/^Done: 30 steps/);
    assert.match(page.page.url(), /[?]engine=cpu&show=steps,dropout&hide=.*#data=digits&batch_size=16&steps=30$/);
    await page.screenshot("lesson");
  });
  await on("?engine=cpu&hide=steps,colour&show=more#data=digits", {}, async (page) => {
    await page.unfold("Settings");
    const shown = await labels(page);
    assert.ok(shown.includes("Batch rows") && !shown.includes("Steps"), shown.join());
    assert.equal(await page.error(), "The link: `colour` cannot be hidden. What can is data, recipe, more, compare, runs, take-home, or a setting, such as steps; `more` cannot be shown. What can is `recipe`, or a setting, such as steps");
  });
});
