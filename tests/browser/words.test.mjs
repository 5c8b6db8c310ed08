// The words of the page: terms that explain themselves, dialogs, and what is said where nothing can run.
import assert from "node:assert/strict";

import { pages, test } from "./playing.mjs";

const on = pages({ webgpu: false });

test("a term is explained by hover, by focus and by a tap, and Escape closes it", async () => {
  await on("?engine=cpu", {}, async (page) => {
    const term = page.page.getByRole("button", { name: "precision@1", exact: true }).first();
    const meaning = page.page.getByRole("tooltip");
    const says = async () => {
      await meaning.waitFor();
      assert.equal(await meaning.innerText(), "How often the closest other row has the same class. 1 is always, 0 never.");
    };
    await term.hover();
    await says();
    // The pointer may go onto it.
    await meaning.hover();
    await says();
    await page.page.keyboard.press("Escape");
    await meaning.waitFor({ state: "detached" });
    await page.page.mouse.move(5, 5);
    await term.focus();
    await says();
    assert.equal(await term.getAttribute("aria-expanded"), "true");
    await page.screenshot("term-light");
    await page.page.keyboard.press("Escape");
    await meaning.waitFor({ state: "detached" });
    await term.dispatchEvent("click");
    await says();
    await page.page.locator("h1").click();
    await meaning.waitFor({ state: "detached" });
    assert.match(await page.text("status"), /^Ready/);
  });
});

test("every term has a meaning, stands on the screen when it is open, and is large enough for a finger", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    await page.click("evaluate-all");
    await page.find("evaluation").locator("table").waitFor();
    const names = [];
    for (const tab of ["Memory", "Scores", "Anchor"]) {
      // By keys: what is open of the last term may lie over it.
      await page.page.getByRole("tab", { name: tab }).press("Enter");
      if (tab === "Anchor") await page.find("anchor-dots").waitFor();
      const terms = page.page.locator(".explained > button").filter({ visible: true });
      names.push(...(await terms.allInnerTexts()));
      for (const term of await terms.all()) {
        await term.focus();
        const meaning = page.page.getByRole("tooltip");
        const [text, box, size] = [await meaning.innerText(), await meaning.boundingBox(), page.page.viewportSize()];
        assert.ok(text.length > 20 && text.endsWith("."), text);
        assert.equal(text, await term.getAttribute("aria-description"));
        assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= size.width && box.y + box.height <= size.height, `${text}: ${JSON.stringify(box)}`);
      }
    }
    for (const name of ["precision@1", "raw features", "linear map (LDA)", "step", "features", "classes", "validation rows", "test rows", "MAP@R", "Triplets", "valid", "mined", "active", "Cosine similarities", "positives", "negatives", "semi-hard", "Loss", "Device memory", "anchor", "Memory rows", "embeddings", "R-precision", "MAP", "MRR", "recall@2", "standard error"]) {
      assert.ok(names.includes(name), `${name} in ${names}`);
    }
    const small = await page.page.evaluate(() => [...document.querySelectorAll(".explained > button")].filter((button) => {
      const after = getComputedStyle(button, "::after");
      return Number.parseFloat(after.height) < 24 || Number.parseFloat(after.width) < 24;
    }).map((button) => button.textContent));
    assert.deepEqual(small, []);
    for (const help of await page.page.locator(".help").filter({ visible: true }).all()) {
      const { width, height } = await help.boundingBox();
      assert.ok(width >= 24 && height >= 24);
    }
  });
});

test("the list of keys takes the focus, and Escape gives it back", async () => {
  await on("?engine=cpu", {}, async (page) => {
    const dialog = page.page.getByRole("dialog", { name: "Keyboard" });
    const button = page.page.getByRole("button", { name: "Keys", exact: true });
    await button.focus();
    await page.page.keyboard.press("Enter");
    assert.ok(await dialog.isVisible());
    assert.ok(await dialog.evaluate((dialog) => dialog.contains(document.activeElement)));
    // Keys of the page rest meanwhile.
    await page.page.keyboard.press("s");
    await page.page.keyboard.press("Escape");
    assert.ok(await dialog.isHidden());
    assert.ok(await button.evaluate((button) => button === document.activeElement));
    assert.equal(await page.number("step-count"), 0);
  });
});

test("where a GPU is asked for and there is none, Run is off, and one click leads to the CPU with the same settings", async () => {
  await on("?engine=gpu#data=digits&steps=20", {}, async (page) => {
    assert.equal(await page.text("device"), "No GPU.");
    assert.match(await page.find("device-why").getAttribute("aria-description"), /^no GPU adapter: /);
    assert.match(await page.text("no-engine"), /^Nothing can run: the link asks for a GPU \(engine=gpu\), and this browser offers none\./);
    assert.equal(await page.error(), "");
    assert.ok(await page.find("run").isDisabled());
    assert.ok(await page.find("step").isDisabled());
    await page.screenshot("no-gpu-light");
    await page.click("use-cpu");
    await page.status(/^Ready/);
    assert.equal(await page.text("device"), "Runs on the CPU.");
    assert.equal(await page.knob("Steps"), "20");
    await page.click("run");
    await page.status(/^Done/);
    page.requests.length = 0;
  });
});

test("every control of a setting, of data and of a comparison says what it is for", async () => {
  await on("?engine=cpu#data=digits&steps=20", {}, async (page) => {
    await page.unfold("Settings");
    await page.unfold("More settings");
    const mute = () => page.page.evaluate(() => {
      const says = (control) => {
        const near = control.closest(".knob") ?? control.closest(".data, .asked, .ask");
        return control.title || near?.querySelector(".help, .about, .recipe p") || control.closest("label.file");
      };
      const seen = [...document.querySelectorAll("main :is(select, input)")].filter((control) => control.checkVisibility());
      return { seen: seen.length, mute: seen.filter((control) => !says(control)).map((control) => control.outerHTML) };
    });
    const run = await mute();
    assert.ok(run.seen > 20, `${run.seen} controls`);
    const others = (html) => !/smoothing|log-loss|clip-loss|log-steps|first-step|last-step|neighbour-row|map-tool/.test(html);
    assert.deepEqual(run.mute.filter(others), []);
    for (const button of ["run", "pause", "step", "reset", "without-memory", "take-home"]) assert.ok((await page.find(button).getAttribute("title")).length > 15, button);
    for (const about of ["What is Data?", "What is a recipe?"]) {
      await page.page.getByRole("button", { name: about }).hover();
      assert.ok((await page.page.getByRole("tooltip").innerText()).length > 60);
      await page.page.mouse.move(700, 400);
    }
    await page.click("view-compare");
    assert.deepEqual((await mute()).mute.filter(others), []);
    await page.screenshot("help-compare");
  });
});
