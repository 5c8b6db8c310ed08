// Buttons, keys and settings.
import assert from "node:assert/strict";

import { pages, test, written } from "./playing.mjs";
import { FIRST_BYTES } from "./support.mjs";

const on = pages();

test("run, pause, step and reset do what they say, by buttons and by keys", async () => {
  await on("?engine=cpu#data=mirrored&steps=4000", {}, async (page) => {
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

test("Step after the end of a run says that it begins another, and where the one before is", async () => {
  await on("?engine=cpu#data=digits&steps=20&hidden_layers=[16]", {}, async (page) => {
    assert.equal(await page.find("step").getAttribute("title"), "Takes a single step (S)");
    await page.click("step");
    await page.status(/^Paused at step 1 /);
    assert.ok(await page.find("notice").isHidden(), "nothing was there before");
    await page.click("run");
    await page.status(/^Done: 20 steps/);
    assert.match(await page.find("step").getAttribute("title"), /first step of a new run/);
    await page.click("step");
    await page.says("notice", /^A new run has begun, as the one before was over\. That one is kept under Runs, at step 20: to go on with it, open it there and raise Steps\.$/);
    await page.status(/^Paused at step 1 /);
    // What it says holds.
    await page.click("view-runs");
    await page.find("open-run").filter({ hasText: /^Open$/ }).click();
    await page.status(/^Done: 20 steps/);
    await page.set("Steps", "30");
    await page.click("run");
    await page.says("notice", /the run goes on after step 20\./);
    await page.status(/^Done: 30 steps/);
  });
});

test("a pause or a resume that comes too late leaves no run that is not there", async () => {
  // Pauses when the last scores of the validation side come: while the worker scores the test side.
  const pauseAtTheEnd = (evaluated) => {
    window.Worker = class extends Worker {
      constructor(...parts) {
        super(...parts);
        this.addEventListener("message", ({ data: [[first, step]] }) => {
          if (first === evaluated && step === 20) document.querySelector("[data-testid=pause]").click();
        });
      }
    };
  };
  await on("?engine=cpu#data=digits&steps=20", { init: `(${pauseAtTheEnd})(${FIRST_BYTES["Event::Evaluated"]})` }, async (page) => {
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

test("a setting out of range is refused with the range, and the old one stays", async () => {
  await on("?engine=cpu#data=many-classes", {}, async (page) => {
    await page.set("Batch rows", "0");
    assert.equal(await page.error(), "Batch rows is 0: it must be between 2 and 32768, or 1 with a memory");
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
    ["hidden_layers=[65536,65536]", /^"training" needs 80\.\d GiB, /],
  ]) {
    await on(`?engine=cpu#data=mirrored&${settings}`, {}, async (page) => {
      await page.click("run");
      await page.status(/^Ready/);
      assert.match(await page.error(), needs);
    });
  }
});

test("the banner moves no control: a click that leaves a bad value still runs", async () => {
  await on("?engine=cpu#data=mirrored&steps=4000", {}, async (page) => {
    const where = () => page.find("run").boundingBox();
    const before = await where();
    await page.page.getByLabel("Batch rows", { exact: true }).fill("0");
    await page.page.mouse.click(before.x + before.width / 2, before.y + before.height / 2);
    await page.status(/^Training/);
    assert.match(await page.error(), /^Batch rows is 0/);
    assert.deepEqual(await where(), before);
    await page.page.waitForFunction(() => /^[\d.]+ steps\/s, (about [\d.]+ (s|min)|less than a second) left$/.test(document.querySelector("[data-testid=pace]").textContent.replace(/(?<=\d)\s(?=\d)/g, "")));
    // The plots take the room that is left, ten times a second at most.
    await page.page.waitForFunction(() => {
      const canvas = document.querySelector("[data-testid=chart-loss]");
      return canvas.height === Math.round(canvas.clientHeight * devicePixelRatio);
    });
    await page.set("Loss margin", ".5");
    assert.equal(await page.knob("Loss margin"), "0.5");
    assert.equal(await page.error(), "");
  });
});

test("a reset can be undone until the next run starts, and the run goes on from where it was", async () => {
  await on("?engine=cpu#data=digits&steps=4000", {}, async (page) => {
    await page.click("run");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=precision-at-1]").textContent !== "–");
    await page.draws("chart-precision", (pixels) => pixels > 5);
    await page.page.locator("h1").click();
    await page.page.keyboard.press("r");
    await page.status(/^Ready/);
    assert.equal(await page.number("step-count"), 0);
    await page.draws("chart-precision", (pixels) => pixels < 5);
    await page.screenshot("undo-light");
    await page.click("undo");
    await page.status(/^Paused at step \d+ of 4000/);
    const step = await page.number("step-count");
    assert.ok(step > 0);
    assert.notEqual(await page.text("precision-at-1"), "–");
    assert.ok(await page.find("undo").isHidden());
    await page.draws("chart-precision", (pixels) => pixels > 5);
    await page.click("run");
    await page.page.waitForFunction((step) => Number(document.querySelector("[data-testid=step-count]").textContent) > step, step);
    await page.click("reset");
    await page.status(/^Ready/);
    await page.set("Steps", "20");
    await page.click("run");
    await page.status(/^Done/);
    assert.ok(await page.find("undo").isHidden(), "another run took its place");

    // A run that is over comes back with its verdict, its map, and neighbours on it.
    const [verdict, status] = [await page.text("verdict"), await page.text("status")];
    await page.click("reset");
    await page.status(/^Ready/);
    assert.notEqual(await page.text("verdict"), verdict);
    await page.click("undo");
    await page.status(/^Done/);
    assert.deepEqual([await page.text("verdict"), await page.text("status")], [verdict, status]);
    await page.find("embedding-map").click({ position: await page.point("embedding-map") });
    await page.find("neighbours").locator("tbody tr").first().waitFor();
  });
});

test("a knob that differs from the run on the page is marked as the next run's", async () => {
  await on("?engine=cpu#data=digits&steps=40000&evaluate_every=40000", {}, async (page) => {
    assert.ok(await page.find("next-steps").isHidden());
    await page.click("run");
    await page.status(/^Training/);
    await page.set("Learning rate", "0.002");
    assert.equal(await page.text("next-optimizer.lr"), "next run");
    assert.ok(await page.find("next-memory_size").isHidden());
    assert.match(page.page.url(), /optimizer\.lr=0\.002/);
    await page.set("Learning rate", "0.001");
    assert.ok(await page.find("next-optimizer.lr").isHidden());
    await page.click("reset");
    await page.set("Steps", "20");
    await page.click("run");
    await page.status(/^Done: 20 steps in/);
    await page.click("without-memory");
    await page.status(/^Done: 20 steps without memory in/);
    assert.equal(await page.knob("Memory rows"), "512");
    assert.ok(await page.find("next-memory_size").isVisible(), "the knob is the next run's");
  });
});

test("after a run without memory the recipe, which has one, is marked as the next run's", async () => {
  await on("?engine=cpu#data=mirrored", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    assert.ok(await page.find("next-recipe").isHidden());
    await page.click("without-memory");
    await page.status(/^Done: \d+ steps without memory in/);
    assert.equal(await page.text("next-recipe"), "next run");
  });
});

test("while the test side is scored the page says of how many rows, and Pause is off", async () => {
  await on("?engine=cpu#steps=20&data=many-classes&test_fraction=0.9", {}, async (page) => {
    await page.page.evaluate(() => {
      const [status, pause, verdict] = ["status", "pause", "verdict"].map((id) => document.querySelector(`[data-testid=${id}]`));
      window.seen = [];
      const look = () => {
        const bar = document.querySelector("[aria-label='Scoring the test rows']");
        window.seen.push([status.textContent, pause.getAttribute("aria-disabled"), bar.hidden, verdict.textContent]);
      };
      new MutationObserver(look).observe(document.body, { attributes: true, childList: true, characterData: true, subtree: true });
    });
    await page.click("run");
    await page.status(/^Done/);
    // The last look at it: what changes with the status has changed.
    const scoring = (await page.page.evaluate(() => window.seen)).findLast(([status]) => status.startsWith("All steps are done"));
    assert.ok(scoring);
    assert.equal(scoring[0], "All steps are done. Checking 5850 unseen rows ..");
    assert.equal(scoring[1], "true");
    assert.equal(scoring[2], false);
    assert.match(scoring[3], /^\s*Now the rows that were kept until the end are scored/);
    assert.equal(await page.text("scored-on"), "test rows", "whose rows the numbers are of");
  });
});

test("E opens what there is to take home, once there is a head", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    await page.page.keyboard.press("e");
    assert.ok(await page.find("export-zip").isHidden());
    await page.click("run");
    await page.status(/^Done/);
    await page.page.keyboard.press("e");
    await page.find("export-zip").waitFor();
    await page.page.keyboard.press("Escape");
    await page.find("export-zip").waitFor({ state: "hidden" });
  });
});

test("colours are as the system says, light or dark, over a reload, and as the system says again", async () => {
  await on("?engine=cpu#data=mirrored", { colorScheme: "dark" }, async (page) => {
    const brightness = () => page.page.evaluate(() => Number(/\d+/.exec(getComputedStyle(document.body).backgroundColor)[0]));
    const button = page.find("theme");
    assert.equal(await button.innerText(), "◐ Auto");
    assert.ok((await brightness()) < 80);
    await button.click();
    assert.equal(await button.innerText(), "◐ Light");
    assert.ok((await brightness()) > 180);
    await page.page.reload();
    await page.status(/^Ready/);
    assert.equal(await button.innerText(), "◐ Light");
    assert.ok((await brightness()) > 180);
    await button.click();
    assert.equal(await button.innerText(), "◐ Dark");
    await page.page.emulateMedia({ colorScheme: "light" });
    assert.ok((await brightness()) < 80);
    await button.click();
    assert.equal(await button.innerText(), "◐ Auto");
    assert.ok((await brightness()) > 180);
    await page.page.reload();
    await page.status(/^Ready/);
    assert.equal(await button.innerText(), "◐ Auto");
    page.requests.length = 0;
  });
});

test("sizes go from one to the next by the arrows, each some times the one before, and any other can be entered", async () => {
  await on("?engine=cpu#data=digits", {}, async (page) => {
    await page.unfold("Settings");
    const rate = page.page.getByLabel("Learning rate", { exact: true });
    const press = async (key) => {
      await rate.press(key);
      return rate.inputValue();
    };
    assert.equal(await rate.inputValue(), "0.001");
    assert.equal(await press("ArrowUp"), "0.003");
    assert.equal(await press("ArrowUp"), "0.01");
    await page.set("Learning rate", "0.002");
    assert.equal(await press("ArrowDown"), "0.001");
    assert.equal(await press("ArrowDown"), "0.0003");
    await page.page.waitForFunction(() => location.hash.includes("optimizer.lr=0.0003"));
    for (let i = 0; i < 3; i += 1) await press("ArrowDown");
    assert.equal(await rate.inputValue(), "0.0001", "the least");
    // They are in a list, too.
    const listed = await rate.evaluate((input) => [...input.list.options].map((option) => option.value));
    assert.deepEqual(listed, ["0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.1"]);
  });
});

test("a recipe puts its settings in place, and each setting says what it is and what it is called in code", async () => {
  await on("?engine=cpu#data=digits", {}, async (page) => {
    await page.find("recipe").selectOption("proxy-anchor");
    await page.page.waitForFunction(() => location.hash.includes("loss.name=proxy-anchor"));
    assert.equal(await page.knob("Loss"), "proxy-anchor");
    await page.page.getByText(/Kim et al/).waitFor();
    await page.unfold("Settings");
    await page.page.getByRole("button", { name: "What is Memory rows?" }).click();
    await page.page.getByText(/cross-batch memory\)\. 0 is no memory.*In code: CrossBatchMemory\(memory_size\)/).waitFor();
    // Another setting makes it one's own.
    await page.set("Batch rows", "16");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=recipe]").value === "own");
  });
});

test("the recipe of a table of many columns is the one for many columns", async () => {
  const names = Array.from({ length: 70 }, (_, column) => `c${column}`);
  const rows = Array.from({ length: 200 }, (_, row) => [...names.map((_, column) => ((row * 7 + column * column) % 13) / 13), "abcdefghij"[row % 10]].join());
  await on("?engine=cpu", {}, async (page) => {
    await page.upload(await written("wide.csv", [[...names, "label"].join(), ...rows].join("\n")));
    await page.summary(/^wide\.csv: 200 rows of 70 features; 10 classes/);
    await page.page.waitForFunction(() => document.querySelector("[data-testid=recipe]").value === "wide-sup-con");
    assert.match(await page.page.locator(".recipe > p").innerText(), /For 4 to 64 classes and 64 columns or more/);
    await page.find("recipe").selectOption("batch-sup-con");
    await page.page.waitForFunction(() => /hidden_layers=(\[|%5B)256/.test(location.hash));
    assert.match(await page.page.locator(".recipe > p").innerText(), /fewer than 64 columns/);
  });
});
