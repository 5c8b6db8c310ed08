// Places stay: what a person looks at or is about to press does not move by itself, at load and over a run.
import assert from "node:assert/strict";

import { found, pages, test, tree } from "./playing.mjs";

const on = pages({ webgpu: false });

/** Runs in the page before it does: adds up how far things move, as Cumulative Layout Shift does, but over all of the time, and keeps what moved. */
const watching = () => {
  self.moved = 0;
  self.what = [];
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries()) {
      if (hadRecentInput) continue;
      self.moved += value;
      for (const { node, previousRect, currentRect } of sources) {
        const name = node?.dataset?.testid ?? node?.className ?? node?.nodeName;
        self.what.push(`${name} from ${previousRect.x},${previousRect.y} to ${currentRect.x},${currentRect.y}`);
      }
    }
  }).observe({ type: "layout-shift", buffered: true });
};

/** The words on the screen that are smaller than 13 pixels. */
const small = () => {
  const has = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
  const seen = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility() && has(element));
  return seen.filter((element) => parseFloat(getComputedStyle(element).fontSize) < 13).map((element) => element.textContent);
};

const SIZES = [[1280, 720], [1920, 1080], [2560, 1440], [700, 900], [390, 844]];

for (const [width, height] of [...SIZES, [1440, 900]]) {
  test(`nothing moves at load and over a run, and all words can be read, ${width} pixels wide`, async () => {
    await on("?engine=cpu#data=digits&steps=1500&memory_size=1024", { init: watching, viewport: { width, height } }, async (page) => {
      const moved = async () => {
        await page.page.waitForTimeout(500);
        return page.page.evaluate(() => self.moved);
      };
      const what = () => page.page.evaluate(() => self.what.join("; "));
      const atLoad = await moved();
      assert.ok(atLoad < 0.05, `${atLoad} at load: ${await what()}`);
      // The browser leaves out what moves within half a second of a click; a busy machine takes longer to show the run.
      await page.click("run");
      await page.status(/^(Training|Done)/);
      await moved();
      await page.page.evaluate(() => ([self.moved, self.what] = [0, []]));
      const began = Date.now();
      await page.status(/^Done/);
      assert.ok(Date.now() - began > 1500, "a run that one can watch");
      assert.notEqual(await page.text("warnings"), "");
      const overRun = await moved();
      assert.ok(overRun < 0.05, `${overRun} over a run: ${await what()}`);
      // What moves is seen: a line that comes above everything else.
      await page.page.evaluate(() => document.querySelector("main").style.setProperty("margin-top", "200px"));
      assert.ok((await moved()) - overRun > 0.05);
      await page.page.locator(".help:visible").first().click();
      for (const view of ["view-run", "view-compare", "view-runs"]) {
        await page.click(view);
        assert.deepEqual(await page.page.evaluate(small), [], view);
      }
    });
  });
}

/**
 * What is not seen whole: words beyond what cuts them off without a mark, or beside the card that they are of; parts that scroll
 * sideways, but for code and tables; plots without room. And how far the page scrolls sideways.
 */
const cut = () => {
  const CARDS = "figure, aside, .verdict, .forecast, .legend, .neighbours, .gains, .evaluation, .threshold, .sizes, .checks, .anchor, .board, dialog";
  const ABOVE = ".unseen, .skip, .meaning, .hover, .axes > div, .why p";
  const lost = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { parentElement: own, data } = texts.currentNode;
    if (!data.trim() || own.closest(ABOVE) || !own.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const rects = [...range.getClientRects()].filter(({ width, height }) => width > 0 && height > 0);
    const said = `"${data.trim().slice(0, 40)}"`;
    const past = (box, axis) => rects.some((rect) => (axis === "x" ? rect.left < box.left - 1 || rect.right > box.right + 1 : rect.top < box.top - 1 || rect.bottom > box.bottom + 1));
    const card = own.closest(CARDS);
    let scrolls = false;
    for (let box = own; box; box = box.parentElement) {
      const { overflowX, overflowY, textOverflow } = getComputedStyle(box);
      const hides = (overflow) => ["hidden", "clip"].includes(overflow);
      const place = box.getBoundingClientRect();
      if (hides(overflowX) && textOverflow !== "ellipsis" && !scrolls && past(place, "x")) lost.push(`${said} is cut by ${box.className || box.tagName}`);
      if (hides(overflowY) && !scrolls && past(place, "y")) lost.push(`${said} is cut below by ${box.className || box.tagName}`);
      scrolls ||= ["auto", "scroll"].includes(overflowX) || textOverflow === "ellipsis";
      if (box === card && !scrolls && past(place, "x")) lost.push(`${said} stands beside ${box.className || box.tagName}`);
    }
  }
  for (const box of document.querySelectorAll("body *:not(pre, .scroll, .leaderboard, .evaluation > div, .sizes > div)")) {
    const { overflowX } = getComputedStyle(box);
    const beside = box.scrollWidth - box.clientWidth;
    if (["auto", "scroll"].includes(overflowX) && beside > 1 && box.checkVisibility()) lost.push(`${box.className || box.tagName} scrolls ${beside} px sideways`);
  }
  for (const canvas of document.querySelectorAll("figure canvas:not(.picture)"))
    if (canvas.checkVisibility() && canvas.clientHeight < 72) lost.push(`${canvas.dataset.testid} is ${canvas.clientHeight} px high`);
  const beside = document.scrollingElement.scrollWidth - document.documentElement.clientWidth;
  if (beside > 0) lost.push(`the page scrolls ${beside} px sideways`);
  return lost;
};

/** What is cut in any size, in the light and in the dark. */
async function cuts(page, where) {
  const lost = [];
  for (const [width, height] of SIZES) {
    for (const colorScheme of ["light", "dark"]) {
      await page.page.setViewportSize({ width, height });
      await page.page.emulateMedia({ colorScheme });
      await page.page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 50))));
      lost.push(...(await page.page.evaluate(cut)).map((what) => `${where}, ${width}, ${colorScheme}: ${what}`));
    }
  }
  return lost;
}

test("nothing is cut and nothing scrolls sideways, in five sizes, in the light and in the dark, from the data to every tab of a run", async () => {
  const lost = [];
  await on("?engine=cpu", {}, async (page) => {
    const look = async (where) => lost.push(...(await cuts(page, where)));
    await look("first");
    await page.upload(tree("trees.csv"));
    await page.summary(/^trees\.csv/);
    await look("file");
    await page.find("dataset-select").selectOption("digits");
    await page.status(/^Ready/);
    await page.unfold("Settings");
    await page.unfold("More settings");
    await page.set("Steps", "40");
    await page.click("run");
    await page.status(/^Done/);
    await page.placed();
    await page.find("neighbour-row").fill("449");
    await page.find("neighbour-row").blur();
    await page.find("neighbours").locator("tbody tr").first().waitFor();
    for (const tab of ["Learning", "Mining", "Memory", "Scores", "Rows", "Anchor"]) {
      await page.page.setViewportSize({ width: 1280, height: 720 });
      await page.tab(tab);
      if (tab === "Scores") {
        await page.click("evaluate-all");
        await page.find("evaluation").locator("table").waitFor();
        await page.click("find-threshold");
        await page.find("threshold-rates").waitFor();
      }
      if (tab === "Rows") {
        await page.click("find-rows-to-check");
        await page.page.waitForTimeout(1000);
      }
      if (tab === "Anchor") await page.find("anchor-dots").waitFor();
      await look(`run, ${tab}`);
    }
    await page.click("only-pictures");
    await look("pictures");
    await page.page.keyboard.press("Escape");
    for (const view of ["view-compare", "view-runs"]) {
      await page.click(view);
      await look(view);
    }
  });
  assert.equal(lost.join("\n"), "");
}, 600);

test("what was asked for is in sight: the ten neighbours of a row, and the threshold", async () => {
  for (const [width, height] of [[1280, 720], [1440, 900], [1920, 1080]]) {
    await on("?engine=cpu#data=digits&steps=40", { viewport: { width, height } }, async (page) => {
      const seen = (part) => part.evaluate((part) => {
        const { top, bottom } = part.getBoundingClientRect();
        for (let box = part.parentElement; box; box = box.parentElement) {
          const place = box.getBoundingClientRect();
          if (getComputedStyle(box).overflowY !== "visible" && (top < place.top - 1 || bottom > place.bottom + 1)) return `from ${top} to ${bottom}, in ${box.className} from ${place.top} to ${place.bottom}`;
        }
        return bottom <= innerHeight ? "" : `from ${top} to ${bottom} of ${innerHeight}`;
      });
      await page.click("run");
      await page.status(/^Done/);
      await page.placed();
      await page.find("neighbour-row").fill("449");
      await page.find("neighbour-row").blur();
      await found(page, 449);
      assert.equal(await seen(page.find("neighbours").locator("tbody tr").last()), "", `${width}: the last neighbour`);
      await page.tab("Scores");
      await page.click("find-threshold");
      await page.find("threshold-rates").waitFor();
      await page.page.waitForTimeout(100);
      assert.equal(await seen(page.find("threshold-sentence")), "", `${width}: the threshold`);
    });
  }
});

test("on a phone the top bar is one line", async () => {
  for (const webgpu of ["cpu", "gpu"]) {
    await on(`?engine=${webgpu}#data=digits`, { viewport: { width: 390, height: 844 } }, async (page) => {
      const middles = await page.page.locator("header > :is(h1, nav, .device)").evaluateAll((parts) => parts.map((part) => {
        const { top, bottom, right } = part.getBoundingClientRect();
        return [(top + bottom) / 2, right];
      }));
      assert.equal(middles.length, 3);
      for (const [middle, right] of middles) assert.ok(Math.abs(middle - middles[0][0]) < 12 && right <= 390, JSON.stringify(middles));
    });
  }
});

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
    for (const [width, height] of SIZES) {
      await page.page.setViewportSize({ width, height });
      await page.page.waitForTimeout(100);
      assert.deepEqual(await page.page.evaluate(cut), [], `${width}`);
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
