// The map: the data before a run, the embeddings after it, and what a person does there.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

import { pages, test } from "./playing.mjs";

const on = pages();

test("the data is on the map before a run, and goes from features to embeddings and back", async () => {
  await on("?engine=cpu#data=cells&steps=60", {}, async (page) => {
    await page.status(/^Ready/);
    await page.page.waitForFunction(() => /^3990 rows as they are now/.test(document.querySelector("[data-testid=map-caption]").textContent));
    const canvas = page.find("embedding-map");
    const raw = await page.drawn("embedding-map");
    assert.ok(raw > 1000, `${raw} pixels in colour`);
    // A row and its class stand under the pointer; there is nothing to compare yet.
    const position = await page.point("embedding-map");
    await canvas.hover({ position });
    assert.match(await page.page.locator(".hover").innerText(), /^row \d+, class \S+$/);
    await canvas.click({ position });
    assert.ok(await page.find("neighbours").isHidden());

    await page.click("run");
    await page.status(/^Done/);
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

test("rows are placed by UMAP, with progress, to the same places each time, and by principal components again", async () => {
  await on("?engine=cpu#data=digits&steps=100", {}, async (page) => {
    assert.ok(await page.find("map-by").isHidden(), "before a run there are no embeddings");
    await page.click("run");
    await page.status(/^Done/);
    const picture = () => page.settled("embedding-map");
    const principal = await picture();
    const place = async () => {
      await page.find("map-by").selectOption("umap");
      await page.says("map-caption", /^899 test rows, epoch \d+ of 500, (about [\d.]+ s|less than a second) left$/);
      await page.says("map-caption", /^899 test rows$/);
      return picture();
    };
    const placed = await place();
    assert.notEqual(placed, principal);
    await page.screenshot("umap");
    const position = await page.point("embedding-map");
    await page.find("embedding-map").click({ position });
    await page.says("neighbours", /of the 10 closest test rows/);
    await page.page.getByRole("button", { name: "Clear" }).last().click();
    // Back, also midway, and before a point has moved: nothing is said of that.
    await page.find("map-by").selectOption("pca");
    assert.equal(await picture(), principal);
    for (const begun of [/epoch/, /./]) {
      await page.find("map-by").selectOption("umap");
      await page.says("map-caption", begun);
      await page.find("map-by").selectOption("pca");
      assert.equal(await picture(), principal);
      assert.ok(await page.find("error").isHidden());
    }
    assert.equal(await place(), placed, "there again");
    // The features are placed likewise, and whoever looks at them goes on doing so.
    await page.click("map-before");
    const before = await picture();
    await page.find("map-by").selectOption("pca");
    const principalBefore = await picture();
    assert.equal(await page.find("map-before").getAttribute("aria-pressed"), "true");
    assert.notEqual(before, principalBefore);
    await page.find("map-by").selectOption("umap");
    await page.says("map-caption", /^899 test rows$/);
    assert.equal(await picture(), before, "the features, there again");
    await page.click("map-after");
    // What the next run brings is placed by the same, once it rests.
    await page.click("run");
    await page.status(/^Done/);
    await page.says("map-caption", /^899 test rows$/);
    assert.equal(await page.find("map-by").inputValue(), "umap");
    assert.equal(await picture(), placed);
  });
});

test("fifty thousand rows are on the map before a run and while it goes on, and a class is found by its name", async () => {
  await on("?engine=cpu#data=large&steps=20&validation_fraction=0.9&evaluate_queries=100&test_queries=100", {}, async (page) => {
    const caption = (text) => page.page.waitForFunction((text) => document.querySelector("[data-testid=map-caption]").textContent.replace(/\s/g, " ").startsWith(text), text);
    await caption("50 000 rows as they are now");
    assert.ok((await page.drawn("embedding-map")) > 10_000);
    assert.equal(await page.find("find-class").count(), 1, "30 classes are more than one looks through");
    await page.click("run");
    await caption("50 000 validation rows");
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
    assert.equal(await keys.count(), 30);
    await page.find("find-class").fill("12");
    const found = await keys.allInnerTexts();
    assert.ok(found.length > 1 && found.every((text) => /^\d*12\d* \(\d+\)$/.test(text.trim())), found.join());
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
    await touch("touchStart", [x + 5, y + 5]);
    for (const part of [0.3, 0.6, 0.95]) await touch("touchMove", [x + part * width, y + part * height]);
    await touch("touchEnd");
    await page.says("picked", /^\d+ rows?: /);
  });
});
