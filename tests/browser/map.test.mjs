// The map: the data before a run, the embeddings after it, and what a person does there.
import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";

import { pages, test, written } from "./playing.mjs";

const on = pages();

test("the data is on the map before a run, and goes from features to embeddings and back", async () => {
  await on("?engine=cpu#data=cells&steps=60", {}, async (page) => {
    await page.status(/^Ready/);
    await page.page.waitForFunction(() => /^3990 rows as they are now/.test(document.querySelector("[data-testid=map-caption]").textContent));
    const canvas = page.find("embedding-map");
    await page.draws("embedding-map", (drawn) => drawn > 1000);
    // A row and its class stand under the pointer; there is nothing to compare yet.
    const position = await page.point("embedding-map");
    await canvas.hover({ position });
    assert.match(await page.page.locator(".hover").innerText(), /^row \d+, class \S+$/);
    await canvas.click({ position });
    assert.ok(await page.find("neighbours").isHidden());

    await page.click("run");
    await page.status(/^Done/);
    await page.placed();
    assert.match(await page.text("map-caption"), /^1995 test rows$/);
    const settled = () => page.settled("embedding-map");
    const after = await settled();
    await page.click("map-before");
    const before = await settled();
    assert.notEqual(before, after);
    await page.click("map-after");
    assert.equal(await settled(), after, "there and back");

    // One class alone, and all again.
    const legend = page.page.locator(".classes button").first();
    const all = await page.drawn("embedding-map");
    const rings = await page.page.locator(".classes button i").evaluateAll((rings) => rings.slice(0, 3).map((ring) => getComputedStyle(ring).backgroundColor));
    assert.equal(new Set(rings).size, 3, `each class has its colour: ${rings}`);
    await legend.click();
    await settled();
    const alone = await page.drawn("embedding-map");
    assert.ok(alone > 100 && alone < 0.8 * all, `${alone} of ${all} pixels`);
    await legend.click();
    assert.equal(await settled(), after);

    // Nearer, and the whole again.
    await canvas.hover();
    await page.page.mouse.wheel(0, -400);
    assert.notEqual(await settled(), after);
    await page.click("map-whole");
    await page.page.mouse.move(0, 0);
    assert.equal(await settled(), after);
  });
});

test("rows are picked out with a box and a lasso, and saved as a list", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    const canvas = page.find("embedding-map");
    const { x, y, width, height } = await canvas.boundingBox();
    const drag = async (tool, ...corners) => {
      await page.find("map-tool").selectOption(tool);
      const [first, ...rest] = corners.map(([along, down]) => [x + along * width, y + down * height]);
      await page.page.mouse.move(...first);
      await page.page.mouse.down();
      for (const corner of rest) {
        await page.page.mouse.move(...corner, { steps: 4 });
      }
      await page.page.mouse.up();
    };
    const picked = async () => Number((await page.text("picked")).match(/^(\d+) rows?: /)[1]);
    const list = async () => {
      const [download] = await Promise.all([page.page.waitForEvent("download"), page.click("picked-save")]);
      assert.equal(download.suggestedFilename(), "picked_rows.csv");
      const [head, ...lines] = (await readFile(await download.path(), "utf8")).trim().split("\n");
      assert.equal(head, "row,label");
      return lines;
    };
    assert.ok(await page.find("picked").isHidden());
    // A row that the pointer names is in a box around it, with its class.
    const position = await page.point("embedding-map");
    await canvas.hover({ position });
    const [, row, name] = (await page.page.locator(".hover").innerText()).match(/^row (\d+), class (\S+)$/);
    const [along, down] = [position.x / width, position.y / height];
    await drag("box", [along - 0.02, down - 0.02], [along + 0.02, down + 0.02]);
    const few = await list();
    assert.equal(few.length, await picked());
    assert.ok(few.includes(`${row},"${name}"`), `row ${row} is among ${few.join(" ")}`);
    // All of them, and by a triangle fewer.
    await drag("box", [0.001, 0.001], [0.999, 0.999]);
    const all = await list();
    const shown = Number((await page.text("map-caption")).match(/^(\d+) test rows$/)[1]);
    assert.deepEqual([all.length, await picked()], [shown, shown]);
    await page.screenshot("picked");
    const full = await page.drawn("embedding-map");
    await drag("lasso", [0.001, 0.001], [0.999, 0.001], [0.001, 0.999]);
    const half = await list();
    // A person closes a line where it began.
    await drag("lasso", [0.001, 0.001], [0.999, 0.001], [0.001, 0.999], [0.001, 0.001]);
    assert.deepEqual(await list(), half);
    assert.ok(half.length > 0 && half.length < shown && half.every((line) => all.includes(line)), `${half.length} of ${shown}`);
    // Around all but a strip from above that ends below the named row.
    const [left, right, below] = [along - 0.01, along + 0.01, down + 0.02];
    await drag("lasso", [0.001, 0.001], [left, 0.001], [left, below], [right, below], [right, 0.001], [0.999, 0.001], [0.999, 0.999], [0.001, 0.999]);
    const around = await list();
    assert.ok(around.length > half.length && around.length < shown, `${around.length} of ${shown}`);
    assert.ok(!around.includes(`${row},"${name}"`), "the named row is left out");
    // What is not picked is pale, until the choice is cleared.
    await page.draws("embedding-map", (drawn) => drawn < full);
    await page.click("picked-clear");
    assert.ok(await page.find("picked").isHidden());
    await page.draws("embedding-map", (drawn) => drawn >= full);
    // A click still chooses a row.
    await canvas.click({ position });
    await page.says("neighbours", /of the 10 closest test rows/);
  });
});

test("UMAP places the rows by itself at the end of a run, before and after training, and each picture is said by name", async () => {
  await on("?engine=cpu#data=digits&steps=100", {}, async (page) => {
    assert.ok(await page.find("map-by").isHidden(), "before a run there are no embeddings");
    const picture = () => page.settled("embedding-map");
    const by = page.find("map-by");
    const named = async (text) => assert.equal((await page.page.locator(".map figcaption > .muted:visible").last().innerText()).trim(), text);
    await page.page.evaluate(() => {
      const caption = document.querySelector("[data-testid=map-caption]");
      self.captions = [];
      new MutationObserver(() => self.captions.push(caption.textContent)).observe(caption, { childList: true, characterData: true, subtree: true });
    });
    await page.click("run");
    // PCA, and nothing to choose, while it runs: one look, as a short run may be over at the next.
    await page.page.waitForFunction(() => {
      const [caption, by] = ["map-caption", "map-by"].map((name) => document.querySelector(`[data-testid=${name}]`));
      return /^90 validation rows$/.test(caption.textContent) && by.value === "pca" && by.disabled;
    });
    await page.status(/^Done/);
    const placed = await picture();
    const progress = (await page.page.evaluate(() => self.captions)).filter((text) => /^899 test rows, epoch \d+ of 500(, (about [\d.]+ s|less than a second) left)?$/.test(text));
    assert.ok(progress.length > 0, "the epochs are counted");
    assert.match(await page.text("map-caption"), /^899 test rows$/);
    assert.equal(await by.inputValue(), "umap");
    await named("UMAP of embeddings");
    await page.screenshot("umap");
    const position = await page.point("embedding-map");
    await page.find("embedding-map").click({ position });
    await page.says("neighbours", /of the 10 closest test rows/);
    await page.page.getByRole("button", { name: "Clear" }).last().click();
    // Back, also midway, and before a point has moved: nothing is said of that.
    await by.selectOption("pca");
    const principal = await picture();
    assert.notEqual(principal, placed);
    await named("PCA of embeddings");
    for (const begun of [/epoch/, /./]) {
      await by.selectOption("umap");
      await page.says("map-caption", begun);
      await by.selectOption("pca");
      assert.equal(await picture(), principal);
      assert.ok(await page.find("error").isHidden());
    }
    await by.selectOption("umap");
    assert.equal(await picture(), placed, "there again");
    // The features are placed likewise, and whoever looks at them goes on doing so.
    await page.click("map-before");
    const before = await picture();
    await named("UMAP of features");
    await by.selectOption("pca");
    const principalBefore = await picture();
    await named("PCA of features");
    assert.equal(await page.find("map-before").getAttribute("aria-pressed"), "true");
    assert.equal(new Set([before, principalBefore, placed, principal]).size, 4);
    await by.selectOption("umap");
    assert.equal(await picture(), before, "the features, there again");
    await page.click("map-after");
    // What the next run brings is placed by the same: UMAP.
    await page.click("run");
    await page.status(/^Done/);
    assert.equal(await picture(), placed);
    // And PCA, once it is chosen.
    await by.selectOption("pca");
    await page.click("run");
    await page.status(/^Done/);
    assert.equal(await picture(), principal);
    assert.equal(await by.inputValue(), "pca");
  });
});

/** A matrix of unit-free random numbers around centres, and its labels. */
function clusters(rows, dim, classes) {
  let state = 1;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const centres = Array.from({ length: classes * dim }, random);
  const values = new Float32Array(rows * dim);
  for (let i = 0; i < values.length; i += 1) {
    const [row, column] = [Math.floor(i / dim), i % dim];
    values[i] = centres[(row % classes) * dim + column] + 0.7 * random();
  }
  const head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${dim}), }`;
  const length = Math.ceil((head.length + 11) / 64) * 64 - 10;
  const start = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, length & 255, length >> 8]);
  const labels = Array.from({ length: rows }, (_, row) => `class ${row % classes}`);
  return [Buffer.concat([start, Buffer.from(head.padEnd(length - 1) + "\n"), Buffer.from(values.buffer)]), ["label", ...labels].join("\n")];
}

/** Seconds that the workers of the browser have computed. */
async function worked(page) {
  const session = await page.page.context().browser().newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  let ticks = 0;
  for (const { id } of processInfo.filter(({ type }) => type === "renderer")) {
    for (const task of await readdir(`/proc/${id}/task`)) {
      const stat = await readFile(`/proc/${id}/task/${task}/stat`, "utf8");
      if (/\(DedicatedWorker/.test(stat)) ticks += Number(stat.split(") ")[1].split(" ")[11]);
    }
  }
  return ticks / 100;
}

test("50,000 rows of 64 numbers are placed by UMAP at the end of a run, and the page answers meanwhile", async () => {
  const [matrix, labels] = clusters(60_000, 64, 20);
  const files = [await written("rows.npy", matrix), await written("labels.csv", labels)];
  const init = () => {
    self.long = [];
    new PerformanceObserver((list) => self.long.push(...list.getEntries().map((entry) => Math.round(entry.duration)))).observe({ type: "longtask" });
  };
  const settings = "steps=20&evaluate_every=20&test_fraction=0.8333334&test_queries=100&evaluate_queries=100&hidden_layers=[]&batch_size=32&memory_size=0";
  await on(`?engine=cpu#${settings}`, { init }, async (page) => {
    await page.upload(...files);
    await page.summary(/^rows.npy: 60.?000 rows/);
    await page.status(/^Ready/);
    await page.click("run");
    await page.status(/^Done/);
    const began = [Date.now(), await worked(page)];
    await page.page.evaluate(() => { self.long = []; });
    await page.placed(400);
    const [wall, seconds] = [(Date.now() - began[0]) / 1000, (await worked(page)) - began[1]];
    assert.match((await page.text("map-caption")).replace(/\s/g, " "), /^50 000( of 50 00\d)? test rows/);
    assert.equal(await page.find("map-by").inputValue(), "umap");
    await page.screenshot("umap-50000");
    const long = await page.page.evaluate(() => self.long);
    console.log(`# ${seconds.toFixed(1)} s of computing in ${wall.toFixed(1)} s, tasks over 50 ms: ${long.join(", ") || "none"}`);
    // How long it takes is the machine's; a layout on the page's own thread would hold it for all of that.
    assert.deepEqual(long.filter((task) => task > 1000), []);
  });
}, 600);

/** 240 plants at three sites, one in twelve without a site, with a depth. */
function plants() {
  let state = 5;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const line = (i) => {
    const site = i % 12 === 0 ? "" : ["north", "south", "north", "east"][i % 4];
    return [`p-${i}`, site, ((i * 37) % 240) + 0.5, i % 3, ["ash", "elm"][i % 2], ...Array.from({ length: 4 }, (_, at) => ((at === i % 2 ? 1 : 0) + random()).toFixed(3))].join();
  };
  return ["plant,site,depth,plate,species,a,b,c,d", ...Array.from({ length: 240 }, (_, i) => line(i))].join("\n");
}

test("rows are coloured by any column of the file, before a run and after it, without a new run", async () => {
  const file = await written("plants.csv", plants());
  await on("?engine=cpu#steps=20&hidden_layers=[8]&embedding_size=4&batch_size=16", {}, async (page) => {
    await page.upload(file);
    await page.summary(/^plants.csv: 240 rows/);
    const by = page.find("colour-by");
    const picture = () => page.settled("embedding-map");
    await by.locator("option", { hasText: "site" }).waitFor({ state: "attached" });
    const options = (await by.locator("option").allInnerTexts()).map((text) => text.trim());
    assert.equal(options[0], "species (the label)");
    for (const column of ["plant", "site", "depth", "plate", "a", "d"]) assert.ok(options.includes(column), `${column} of ${options}`);
    const keys = async () => (await page.page.locator(".classes button").allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim());
    assert.deepEqual(await keys(), ["ash (120)", "elm (120)"]);
    const classes = await picture();
    await by.selectOption("site");
    await page.says("class-count", /^3 values$/);
    assert.deepEqual(await keys(), ["north (100)", "south (60)", "east (60)"]);
    assert.equal(await page.text("colour-none"), "Grey: 20 without a value");
    const sites = await picture();
    assert.notEqual(sites, classes);
    assert.match(await page.text("status"), /^Ready/);
    // One alone, and what the pointer says.
    await page.page.locator(".classes button", { hasText: "east" }).click();
    const position = await page.point("embedding-map");
    await page.find("embedding-map").hover({ position });
    assert.match(await page.page.locator(".hover").innerText(), /row \d+, class elm, site east$/);
    // Few numbers are names, many are a scale.
    await by.selectOption("plate");
    await page.says("class-count", /^3 values$/);
    assert.deepEqual(await keys(), ["0 (80)", "1 (80)", "2 (80)"]);
    assert.equal(await page.page.locator(".classes button[aria-pressed=true]").count(), 0, "another column begins with all");
    await by.selectOption("depth");
    await page.says("colour-scale", /^2\.5\s*237\.5$/);
    const depths = await picture();
    assert.equal(new Set([classes, sites, depths]).size, 3);
    await page.screenshot("colour-number");
    // A run goes on with it, and ends with it; the choice is no setting.
    const link = await page.page.evaluate(() => location.hash);
    await page.click("run");
    await page.status(/^Done/);
    await picture();
    assert.equal(await by.inputValue(), "depth");
    assert.ok(await page.find("colour-scale").isVisible());
    const step = await page.text("step-count");
    await by.selectOption("site");
    await page.says("class-count", /^3 values$/);
    const counts = (await keys()).map((text) => Number(text.match(/\((\d+)\)$/)[1]));
    const none = Number((await page.text("colour-none")).match(/\d+/)[0]);
    const shown = Number((await page.text("map-caption")).match(/^\d+/)[0]);
    assert.equal(counts.reduce((sum, count) => sum + count, none), shown);
    await page.screenshot("colour-site");
    await by.selectOption("");
    await page.says("class-count", /^2 classes$/);
    assert.ok(await page.find("colour-none").isHidden());
    assert.deepEqual([await page.text("step-count"), await page.page.evaluate(() => location.hash)], [step, link], "no new run, and no other settings");
  });
});

/** Pixels of the map in the grey of rows without a label, and the middle of one of them, in CSS pixels from the corner. */
function greys(page) {
  return page.find("embedding-map").evaluate((canvas) => {
    const dot = getComputedStyle(document.querySelector(".classes button:last-of-type i")).backgroundColor.match(/\d+/g).map(Number);
    const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const is = (at) => data[at + 3] > 150 && dot.every((channel, i) => Math.abs(data[at + i] - channel) < 8);
    const all = Array.from({ length: width * height }, (_, pixel) => pixel).filter((pixel) => is(4 * pixel));
    const middle = all.find((pixel) => [-1, 1, -width, width].every((by) => is(4 * (pixel + by))));
    const at = { x: ((middle % width) * canvas.clientWidth) / width, y: (Math.floor(middle / width) * canvas.clientHeight) / height };
    return { count: all.length, at };
  });
}

test("rows without a label are left out at a click, and stand on the map at the end of a run, in grey", async () => {
  const lines = plants().split("\n").map((line, i) => (i > 0 && i % 3 === 0 ? line.replace(/,(ash|elm),/, ",,") : line));
  const file = await written("some.csv", lines.join("\n"));
  await on("?engine=cpu#steps=20&hidden_layers=[8]&embedding_size=4&batch_size=16", {}, async (page) => {
    await page.upload(file);
    await page.says("error", /some.csv, line 4: column "species" has an empty cell: every row needs a label: drop the rows without one/);
    assert.deepEqual(await page.page.locator(".ways button").allInnerTexts(), ["Leave such rows out"]);
    await page.click("mend-drop-rows");
    await page.summary(/^some.csv: 160 rows.*Left out 80 of 240 rows/);
    const keys = async () => (await page.page.locator(".classes button").allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim());
    assert.deepEqual((await keys()).length, 2);
    await page.click("run");
    await page.status(/^Done/);
    const picture = () => page.settled("embedding-map");
    const all = await picture();
    assert.deepEqual((await keys()).map((key) => key.replace(/\d+/, "N")), ["ash (N)", "elm (N)", "no label (N)"]);
    assert.equal((await keys())[2], "no label (80)");
    assert.equal(await page.text("class-count"), "2 classes");
    assert.match(await page.text("map-caption"), /^32 test rows$/);
    const among = await greys(page);
    assert.ok(among.count > 200, `${among.count} pixels in grey`);
    await page.screenshot("no-label");
    // Alone, they are what can be pointed at; there are no neighbours to list.
    const key = page.page.locator(".classes button", { hasText: "no label" });
    await key.click();
    await picture();
    assert.ok((await page.drawn("embedding-map")) < 50, "the others stand back");
    const { count, at } = await greys(page);
    assert.ok(count >= among.count, `${count} pixels in grey, ${among.count} among the others`);
    const canvas = page.find("embedding-map");
    await canvas.hover({ position: at });
    const said = await page.page.locator(".hover").innerText();
    assert.equal(Number(said.match(/^row (\d+) of the file, no label$/)[1]) % 3, 2, said);
    await canvas.click({ position: at });
    assert.match(await page.text("neighbours"), /Click a point, or enter a row's/);
    await key.click();
    await page.page.mouse.move(0, 0);
    assert.equal(await picture(), all);
    // A box picks rows of the data alone.
    const { x, y, width, height } = await canvas.boundingBox();
    await page.find("map-tool").selectOption("box");
    await page.page.mouse.move(x + 1, y + 1);
    await page.page.mouse.down();
    await page.page.mouse.move(x + width - 2, y + height - 2, { steps: 4 });
    await page.page.mouse.up();
    await page.says("picked", /^32 rows: /);
    await page.click("picked-clear");
    await page.find("colour-by").selectOption("depth");
    await page.says("colour-none", /^Grey: 80 without a label$/);
    await page.find("colour-by").selectOption("");
    // PCA has them, too; another run begins without them, and with nothing alone.
    await page.find("map-by").selectOption("pca");
    await picture();
    await key.click();
    assert.ok((await greys(page)).count > 200);
    await page.click("run");
    await page.status(/^Done/);
    await picture();
    assert.equal(await page.page.locator(".classes button[aria-pressed=true]").count(), 0);
  });
});

for (const [width, height] of [[1280, 720], [1920, 1080], [390, 844]]) {
  test(`all classes can be reached in the list, and the panel of a row covers nothing, ${width} pixels wide`, async () => {
    await on("?engine=cpu#data=digits&steps=20", { viewport: { width, height } }, async (page) => {
      await page.click("run");
      await page.status(/^Done/);
      assert.equal(await page.text("class-count"), "10 classes");
      const keys = page.page.locator(".classes .key");
      assert.equal(await keys.count(), 10);
      await page.find("embedding-map").click({ position: await page.point("embedding-map") });
      await page.says("neighbours", /of the 10 closest test rows/);
      const boxes = await page.page.evaluate(() => ["[data-testid=embedding-map]", ".legend", "[data-testid=neighbours]"].map((name) => document.querySelector(name).getBoundingClientRect().toJSON()));
      for (const [i, a] of boxes.entries()) {
        assert.ok(a.width > 100 && a.height > 60, JSON.stringify(a));
        for (const b of boxes.slice(i + 1)) {
          const apart = a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
          assert.ok(apart, JSON.stringify([a, b]));
        }
      }
      // One column, which scrolls to the last.
      const list = await page.page.evaluate(() => {
        const list = document.querySelector(".classes");
        const keys = [...list.querySelectorAll(".key")];
        const lefts = new Set(keys.map((key) => Math.round(key.getBoundingClientRect().left)));
        list.scrollTop = 1e6;
        const [last, box] = [keys.at(-1).getBoundingClientRect(), list.getBoundingClientRect()];
        return { lefts: lefts.size, last: last.bottom <= box.bottom + 1 && last.top >= box.top - 1 };
      });
      assert.deepEqual(list, { lefts: 1, last: true });
      await page.screenshot(`beside-the-map-${width}`);
    });
  });
}

test("fifty thousand rows are on the map before a run and while it goes on, and a class is found by its name", async () => {
  await on("?engine=cpu#data=large&steps=20&validation_fraction=0.9&evaluate_queries=100&test_queries=100", {}, async (page) => {
    const caption = (text) => page.page.waitForFunction((text) => document.querySelector("[data-testid=map-caption]").textContent.replace(/\s/g, " ").startsWith(text), text);
    await caption("50 000 of 100 000 rows, drawn by the seed, as they are now");
    assert.ok((await page.drawn("embedding-map")) > 10_000);
    assert.equal(await page.find("find-class").count(), 1, "30 classes are more than one looks through");
    await page.click("run");
    await caption("50 000 of 72 000 validation rows");
    assert.ok((await page.drawn("embedding-map")) > 10_000);
    await caption("20 000 test rows");
  });
  // Each question for a style has the browser lay out the page: a colour of the map is none.
  const prepare = (page) => page.addInitScript(() => {
    const ask = window.getComputedStyle;
    window.asked = 0;
    window.getComputedStyle = (...of) => {
      window.asked += 1;
      return ask.call(window, ...of);
    };
  });
  await on("?engine=cpu#data=mirrored&steps=20", { prepare }, async (page) => {
    await page.status(/^Ready/);
    assert.ok((await page.drawn("embedding-map")) > 1000);
    const asked = await page.page.evaluate(() => window.asked);
    assert.ok(asked > 0 && asked < 60, `${asked} questions for a style`);
    const keys = page.page.locator(".classes button");
    await page.find("find-class").waitFor();
    assert.equal(await page.text("class-count"), "650 classes");
    assert.equal(await keys.count(), 300);
    assert.match(await page.page.locator(".classes").innerText(), /and 350 more: find one by its name$/);
    await page.find("find-class").fill("12");
    const found = await keys.allInnerTexts();
    assert.ok(found.length > 1 && found.every((text) => /^\d*12\d*\s+\(\d+\)$/.test(text.trim())), found.join());
    await page.find("find-class").fill("no such class");
    assert.match(await page.page.locator(".classes").innerText(), /No class of this name is on the map\./);
  });
});

test("on a small screen nothing scrolls, and the plots stand in tabs", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    await page.page.setViewportSize({ width: 1280, height: 720 });
    await page.click("run");
    await page.status(/^Done/);
    const scrolls = await page.page.evaluate(() => document.documentElement.scrollHeight > innerHeight || document.documentElement.scrollWidth > innerWidth);
    assert.equal(scrolls, false);
    const tab = (name) => page.page.getByRole("tab", { name });
    for (const [name, plot] of [["Mining", "chart-mining"], ["Memory", "chart-memory"], ["Learning", "chart-loss"]]) {
      await tab(name).click();
      assert.equal(await tab(name).getAttribute("aria-selected"), "true");
      assert.ok(await page.find(plot).isVisible(), plot);
      await page.page.waitForFunction((id) => document.querySelector(`[data-testid=${id}]`).height > 40, plot);
    }
    await tab("Learning").focus();
    for (const name of ["Anchor", "Rows", "Scores"]) {
      await page.page.keyboard.press("ArrowLeft");
      assert.equal(await tab(name).getAttribute("aria-selected"), "true");
    }
    assert.equal(await tab("Scores").getAttribute("aria-selected"), "true");
    await page.click("evaluate-all");
    await page.find("evaluation").locator("table").waitFor();
    await page.screenshot("small");
  });
});

test("two fingers zoom the map, one moves it then, and picks rows", async () => {
  await on("?engine=cpu#data=digits", { hasTouch: true, viewport: { width: 390, height: 844 } }, async (page) => {
    const canvas = page.find("embedding-map");
    await canvas.scrollIntoViewIfNeeded();
    const protocol = await page.page.context().newCDPSession(page.page);
    const { x, y, width, height } = await canvas.boundingBox();
    const [middle, centre] = [x + width / 2, y + height / 2];
    const touch = (type, ...points) => protocol.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
    const action = () => canvas.evaluate((canvas) => canvas.style.touchAction);
    const drawn = () => page.settled("embedding-map");
    const whole = await drawn();
    // The page can be scrolled over it.
    assert.equal(await action(), "pan-y");
    await touch("touchStart", [middle - 20, centre], [middle + 20, centre]);
    for (const far of [40, 60, 80]) await touch("touchMove", [middle - far, centre], [middle + far, centre]);
    await touch("touchEnd");
    const closer = await drawn();
    assert.notEqual(closer, whole);
    assert.equal(await action(), "none");
    await page.screenshot("touch");
    // One finger moves what is close, up and down too, and chooses no row.
    await touch("touchStart", [middle, centre]);
    for (const far of [20, 40, 60]) await touch("touchMove", [middle, centre + far]);
    await touch("touchEnd");
    assert.notEqual(await drawn(), closer);
    await page.click("map-whole");
    assert.equal(await drawn(), whole);
    assert.equal(await action(), "pan-y");
    await page.find("map-tool").selectOption("box");
    assert.equal(await action(), "none");
    // The button of the whole map may have scrolled the page.
    await page.page.evaluate(() => document.querySelector("[data-testid=embedding-map]").scrollIntoView({ block: "center" }));
    // A finger lands where the last frame stands.
    await page.page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
    const box = await canvas.boundingBox();
    // Away from the tools: a finger that comes down beside one presses it.
    await touch("touchStart", [box.x + 60, box.y + 80]);
    for (const part of [0.4, 0.6, 0.75]) await touch("touchMove", [box.x + part * box.width, box.y + part * box.height]);
    await touch("touchEnd");
    await page.says("picked", /^\d+ rows?: /);
  });
});
