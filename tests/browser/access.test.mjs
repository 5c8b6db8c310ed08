// The page for everybody: no barriers that axe finds, all of it by keyboard alone, and nothing that moves where that is not wanted.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { SMALL, pages, test, tree } from "./playing.mjs";

const on = pages({ webgpu: false });
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
const LOOKS = [[1280, 720], [1920, 1080], [2560, 1440], [700, 900], [390, 844]].flatMap(([width, height]) => ["light", "dark"].map((colorScheme) => ({ width, height, colorScheme })));
const axe = await readFile(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** What axe finds on the page as it stands, from a phone to a large screen, in the light and in the dark. */
async function barriers(page, where) {
  const found = [];
  if (!(await page.page.evaluate(() => "axe" in self))) await page.page.evaluate(axe);
  for (const { colorScheme, ...size } of LOOKS) {
    await page.page.setViewportSize(size);
    await page.page.emulateMedia({ colorScheme });
    const violations = await page.page.evaluate(async (RULES) => {
      await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      const { violations } = await axe.run({ runOnly: RULES, resultTypes: ["violations"] });
      return violations.flatMap(({ id, nodes }) => nodes.map(({ target, any, all, none }) => `${id}: ${target}: ${[...any, ...all, ...none][0]?.message}`));
    }, RULES);
    found.push(...violations.map((violation) => `${where}, ${size.width}, ${colorScheme}: ${violation}`));
  }
  return found;
}

test("axe finds no barrier in any view or dialog, from a phone to a large screen, in the light and in the dark", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}&steps=4000`, {}, async (page) => {
    const found = [];
    const look = async (where) => found.push(...(await barriers(page, where)));
    await look("before a run");
    await page.upload(tree("trees.csv"));
    await page.summary(/^trees\.csv/);
    await look("a file");
    await page.click("only-pictures");
    await page.find("pictures-code").waitFor();
    await look("pictures");
    await page.page.keyboard.press("Escape");
    await page.find("dataset-select").selectOption("digits");
    await page.status(/^Ready/);
    await page.click("run");
    await page.status(/^Training/);
    await look("during a run");
    await page.click("reset");
    await page.status(/^Ready/);
    await page.unfold("Settings");
    await page.unfold("More settings");
    await page.set("Steps", "40");
    for (const layers of ["[32]", "[16]"]) {
      await page.set("Hidden layers", layers);
      await page.click("run");
      await page.status(/^Done/);
    }
    for (const tab of ["Anchor", "Scores", "Memory", "Mining", "Learning"]) {
      await page.page.getByRole("tab", { name: tab }).click();
      if (tab === "Anchor") await page.find("anchor-dots").waitFor();
      await look(`after a run, ${tab}`);
    }
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
    await look("take home");
    await page.page.keyboard.press("Escape");
    await page.page.keyboard.press("?");
    await look("keys");
    await page.page.keyboard.press("Escape");
    await page.click("view-runs");
    await page.page.waitForFunction(() => document.querySelectorAll("[data-testid=runs] tbody tr").length > 1);
    for (const box of await page.find("runs").locator("input[type=checkbox]").all()) await box.check();
    await page.find("run-differences").waitFor();
    await look("runs");
    await page.click("view-compare");
    await look("compare, before");
    await page.find("compare-seeds").fill("2");
    await page.find("compare-seeds").blur();
    await page.click("compare-start");
    await page.says("compare-start", /^Compare$/);
    await page.find("leaderboard").locator("tbody tr.leader").waitFor();
    await look("compare, after");
    assert.deepEqual(found.join("\n"), "");
  });
}, 600);

/** Which control has the focus, and whether that is seen: an outline on the screen. */
const focused = (page) => page.page.evaluate(() => {
  const held = document.activeElement;
  // The input of files is seen as its label.
  const shown = held.type === "file" ? held.closest("label") : held;
  const { outlineStyle, outlineWidth, opacity } = getComputedStyle(shown);
  const { left, top, right, bottom, width, height } = shown.getBoundingClientRect();
  const onScreen = right > 0 && bottom > 0 && left < innerWidth && top < innerHeight && width > 8 && height > 8;
  const seen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && Number(opacity) > 0.7 && onScreen;
  return { name: held.dataset.testid || held.id || held.getAttribute("aria-label") || held.textContent || held.tagName, lost: held === document.body, seen };
});

/** Goes on with Tab, or back, until a control has the focus. Returns the names of all stops on the way. */
async function tab(page, to, { back = false, most = 120 } = {}) {
  const stops = [];
  while (stops.at(-1) !== to) {
    assert.ok(stops.length < most, `${to} is not among ${stops}`);
    await page.page.keyboard.press(back ? "Shift+Tab" : "Tab");
    const { name, lost, seen } = await focused(page);
    assert.ok(!lost, `after ${stops.at(-1)} the focus is lost`);
    assert.ok(seen, `it is seen that ${name} has the focus`);
    stops.push(name);
  }
  return stops;
}

/** Waits until a control has the focus. */
const holds = (page, id) => page.page.waitForFunction((id) => document.activeElement.dataset.testid === id, id, { timeout: 10_000 });

test("a person trains, takes home and compares by keyboard alone, and sees where the focus is", async () => {
  for (const viewport of [{ width: 1280, height: 720 }, { width: 390, height: 844 }]) {
    await on(`?engine=cpu#data=digits&${SMALL}`, { viewport }, async (page) => {
      const press = (key) => page.page.keyboard.press(key);
      assert.deepEqual(await tab(page, "skip"), ["skip"], "the first stop leads to Run");
      await press("Enter");
      await holds(page, "run");
      await press("Enter");
      await page.status(/^Done: 40 steps/);
      // Every stop of the view is seen, up to the last.
      await tab(page, "take-home");
      await press("Enter");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=export-onnx]")?.getAttribute("aria-disabled") === "false");
      await tab(page, "export-onnx");
      const [download] = await Promise.all([page.page.waitForEvent("download"), press("Space")]);
      assert.equal(download.suggestedFilename(), "head.onnx");
      await press("Escape");
      await holds(page, "take-home");
      const stops = await tab(page, "tab-0");
      for (const stop of ["dataset-select", "dataset-file", "recipe", "knob-steps", "neighbour-row"]) assert.ok(stops.includes(stop), `${stop} in ${stops}`);
      await press("ArrowRight");
      assert.equal((await focused(page)).name, "tab-1");
      assert.ok(await page.find("chart-mining").isVisible());
      await tab(page, "view-compare", { back: true });
      await press("Space");
      assert.equal((await focused(page)).name, "view-compare");
      await tab(page, "compare-what");
      await press("End");
      await press("Home");
      assert.equal(await page.find("compare-what").inputValue(), "recipes");
      await tab(page, "compare-seeds");
      await press("ArrowDown");
      await tab(page, "compare-start");
      await page.says("compare-forecast", /runs one after the other/);
      await press("Enter");
      await page.says("compare-start", /^Stop$/);
      await page.says("compare-start", /^Compare$/);
      await page.find("leaderboard").locator("tbody tr.leader").waitFor();
      // The linear map, which has no settings, may lead.
      const use = await page.find("leaderboard").locator("[data-testid^=use-]").first().getAttribute("data-testid");
      await tab(page, use);
      await press("Enter");
      // The view that had the focus is left: Run, which is next, has it.
      await holds(page, "run");
      assert.match(await page.text("notice"), /is trained as it was compared/);
      await page.status(/^Done/);
      await tab(page, "view-runs", { back: true });
      await press("Enter");
      await page.find("runs").locator("tbody tr").first().waitFor();
      // The run before, and the one that was compared.
      const rows = page.find("runs").locator("tbody tr");
      await tab(page, "delete-run");
      for (let left = await rows.count(); left > 0; left -= 1) {
        await page.find("delete-run").first().focus();
        await press("Enter");
        await press("Enter");
        await page.page.waitForFunction((left) => document.querySelectorAll("[data-testid=runs] tbody tr").length === left, left - 1);
      }
      await holds(page, "view-runs");
    });
  }
}, 600);

test("a line that is dismissed leaves the focus on the page", async () => {
  await on("?engine=cpu#data=digits&steps=20&colour=red", {}, async (page) => {
    await page.find("error").getByRole("button", { name: "Dismiss" }).focus();
    await page.page.keyboard.press("Enter");
    await holds(page, "run");
  });
});

test("nothing moves by itself where a person asks for less motion", async () => {
  for (const [reducedMotion, most, least] of [["reduce", 3, 1], ["no-preference", 100, 5]]) {
    await on(`?engine=cpu#data=digits&${SMALL}`, { reducedMotion }, async (page) => {
      // A canvas gets its size anew whenever it is drawn.
      await page.page.evaluate(() => {
        const { get, set } = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, "width");
        self.drawn = 0;
        Object.defineProperty(HTMLCanvasElement.prototype, "width", {
          get,
          set(width) {
            if (this.dataset.testid === "embedding-map") self.drawn += 1;
            set.call(this, width);
          },
        });
      });
      await page.click("run");
      await page.status(/^Done/);
      await page.page.waitForTimeout(200);
      await page.page.evaluate(() => { self.drawn = 0; });
      await page.click("map-before");
      await page.page.waitForTimeout(900);
      const drawn = await page.page.evaluate(() => self.drawn);
      assert.ok(drawn >= least && drawn <= most, `${reducedMotion}: from features to embeddings in ${drawn} pictures`);
      if (reducedMotion !== "reduce") return;
      // Neither the style sheet nor the browser's own bar, which is shown while test rows are scored.
      const moving = await page.page.evaluate(() => {
        const bar = document.querySelector("progress:not([value])");
        bar.hidden = false;
        const of = [...document.querySelectorAll("*")].filter((element) => {
          const { animationName, transitionDuration, scrollBehavior } = getComputedStyle(element);
          return animationName !== "none" || parseFloat(transitionDuration) > 0 || scrollBehavior === "smooth";
        });
        return [...of.map((element) => element.outerHTML), ...document.getAnimations().map(String), ...(getComputedStyle(bar).appearance === "none" ? [] : ["the bar"])];
      });
      assert.deepEqual(moving, []);
    });
  }
});
