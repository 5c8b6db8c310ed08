// Places stay: what a person looks at or is about to press does not move by itself, at load and over a run.
import assert from "node:assert/strict";

import { pages, test } from "./playing.mjs";

const on = pages({ webgpu: false });

/** Runs in the page before it does: adds up how far things move, as Cumulative Layout Shift does, but over all of the time. */
const watching = () => {
  self.moved = 0;
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) self.moved += value;
  }).observe({ type: "layout-shift", buffered: true });
};

/** The words on the screen that are smaller than 13 pixels. */
const small = () => {
  const has = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
  const seen = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility() && has(element));
  return seen.filter((element) => parseFloat(getComputedStyle(element).fontSize) < 13).map((element) => element.textContent);
};

for (const [width, height] of [[1280, 720], [1440, 900], [1920, 1080], [390, 844]]) {
  test(`nothing moves at load and over a run, and all words can be read, ${width} pixels wide`, async () => {
    await on("?engine=cpu#data=digits&steps=1500&memory_size=1024", { init: watching, viewport: { width, height } }, async (page) => {
      const moved = async () => {
        await page.page.waitForTimeout(500);
        return page.page.evaluate(() => self.moved);
      };
      const atLoad = await moved();
      assert.ok(atLoad < 0.05, `${atLoad} at load`);
      // What moves within half a second of a click is left out: scores and the end come later.
      await page.click("run");
      const began = Date.now();
      await page.status(/^Done/);
      assert.ok(Date.now() - began > 1500, "a run that one can watch");
      assert.notEqual(await page.text("warnings"), "");
      const overRun = (await moved()) - atLoad;
      assert.ok(overRun < 0.05, `${overRun} over a run`);
      // What moves is seen: a line that comes above everything else.
      await page.page.evaluate(() => document.querySelector("main").style.setProperty("margin-top", "200px"));
      assert.ok((await moved()) - atLoad - overRun > 0.05);
      await page.page.locator(".help:visible").first().click();
      for (const view of ["view-run", "view-compare", "view-runs"]) {
        await page.click(view);
        assert.deepEqual(await page.page.evaluate(small), [], view);
      }
    });
  });
}

test("on a phone, Run shows the run", async () => {
  await on("?engine=cpu#data=digits", { viewport: { width: 390, height: 844 } }, async (page) => {
    const scrolled = () => page.page.evaluate(() => scrollY);
    await page.page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    assert.ok((await scrolled()) > 300);
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await scrolled(), 0);
    assert.ok(await page.find("step-count").evaluate((count) => count.getBoundingClientRect().bottom < innerHeight));
  });
});

test("?large has letters of 16 px and more everywhere, and scrolls sideways nowhere", async () => {
  await on("?engine=cpu&large#data=digits&steps=40", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    for (const [width, height] of [[1280, 720], [1920, 1080]]) {
      await page.page.setViewportSize({ width, height });
      const found = await page.page.evaluate(() => {
        const said = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility() && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
        const small = said.filter((element) => Number.parseFloat(getComputedStyle(element).fontSize) < 16);
        return { said: said.length, small: small.map((element) => element.textContent.slice(0, 40)), beside: document.scrollingElement.scrollWidth - innerWidth };
      });
      assert.ok(found.said > 60);
      assert.deepEqual(found.small, []);
      assert.ok(found.beside <= 0, `${found.beside} px at ${width}`);
      await page.screenshot(`large-${width}`);
    }
  });
});
