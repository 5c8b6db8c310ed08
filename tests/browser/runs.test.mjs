// One run after another: what is compared, what is warned of, and what remains when a run, its device or its worker ends.
import assert from "node:assert/strict";

import { SMALL, pages, test, written } from "./playing.mjs";
import { FIRST_BYTES } from "./support.mjs";

const on = pages();

test("a refused start leaves the comparison as it was", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}`, {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    await page.click("without-memory");
    await page.page.locator(".faint", { hasText: "the run before" }).waitFor();
    await page.status(/^Done/);
    const shown = async () => [await page.page.innerText(".faint"), await page.text("precision-at-1"), await page.drawn("chart-precision")];
    const before = await shown();
    await page.set("Memory rows", "65536");
    await page.set("Budget, MiB", "1");
    await page.click("run");
    await page.status(/^Ready/);
    assert.match(await page.error(), /^"training" needs/);
    assert.equal(before[0], (await shown())[0]);
    assert.deepEqual((await shown()).slice(0, 2), before.slice(0, 2));
    assert.ok(Math.abs((await shown())[2] - before[2]) < 0.4 * before[2], "both runs are still drawn");
  });
});

test("without memory the last run is repeated, and the settings on the page stay", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}`, {}, async (page) => {
    assert.ok(await page.find("without-memory").isDisabled());
    await page.click("run");
    await page.status(/^Done/);
    await page.set("Steps", "60");
    await page.click("without-memory");
    await page.page.locator(".faint", { hasText: "the run before" }).waitFor();
    await page.status(/^Done: 40 steps without memory/);
    assert.match(await page.page.innerText(".faint"), /the run before, Memory rows 256, precision@1 \d/);
    assert.equal(await page.knob("Memory rows"), "256");
    assert.ok(await page.find("without-memory").isDisabled());
    await page.click("run");
    await page.status(/^Done: 60 steps/);
    assert.match(await page.page.innerText(".faint"), /the run before, Memory rows 0, Steps 40, precision@1 \d/);
  });
});

test("where nothing steers, the training side is named and no other side's baseline drawn", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}&validation_fraction=0`, {}, async (page) => {
    await page.click("step");
    await page.status(/^Paused/);
    assert.equal(await page.page.getByRole("heading", { name: "Finding the class" }).innerText(), "Finding the class on training rows");
    assert.equal(await page.text("baseline-precision-at-1"), "–");
    // One evaluation is a dot.
    await page.draws("chart-precision", (pixels) => pixels > 5);
    await page.click("run");
    await page.status(/^Done/);
    assert.notEqual(await page.text("baseline-precision-at-1"), "–");
  });
});

test("nothing learned is said, with the likely cause", async () => {
  await on("?engine=cpu#data=mirrored&steps=40&miner.type_of_triplets=easy", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    const warnings = await page.text("warnings");
    assert.match(warnings, /Every loss is zero: with easy triplets, the positive is nearer than the negative by more than 0.2/);
    // Once is enough.
    assert.doesNotMatch(warnings, /No triplet was active/);
  });
});

test("a lost device costs the run at most, and the next one opens another", async () => {
  await on("?engine=gpu#data=digits&steps=4000", {}, async (page) => {
    const [worker] = page.page.workers();
    await worker.evaluate(() => {
      const ask = GPUAdapter.prototype.requestDevice;
      GPUAdapter.prototype.requestDevice = async function (...how) {
        return (self.opened = await ask.apply(this, how));
      };
    });
    const lose = () => worker.evaluate(async () => {
      self.opened.destroy();
      await self.opened.lost;
    });
    // Another budget opens another device.
    await page.set("Budget, MiB", "128");
    await page.click("run");
    await page.status(/^Training/);
    await page.click("pause");
    await page.status(/^Paused/);
    await lose();
    await page.click("run");
    await page.status(/^Ready/);
    assert.match(await page.error(), /lost.*Press Run to start again/s);
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.error(), "");
    await page.click("reset");
    await page.status(/^Ready/);
    await lose();
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.error(), "");
  });
});

test("a worker that ends is said, and Run starts another with the same data", async () => {
  await on("?engine=cpu#data=digits&steps=4000&batch_size=48", {}, async (page) => {
    const end = () => page.page.workers()[0].evaluate(() => { setTimeout(() => { throw new Error("boom"); }); });
    await page.click("run");
    await page.status(/^Training/);
    await end();
    await page.status(/^The computing stopped/);
    assert.match(await page.error(), /boom.*press Run/);
    await page.click("run");
    await page.status(/^Training/);
    assert.equal(await page.knob("Batch rows"), "48");
    await end();
    await page.status(/^The computing stopped/);
    await page.find("dataset-select").selectOption("many-classes");
    await page.status(/^Ready/);
    assert.equal(await page.error(), "");
    // The worker's own files are all that was asked for, and its end all that was complained of.
    assert.ok(page.requests.every((url) => url.startsWith(new URL(page.page.url()).origin)));
    page.requests.length = 0;
    assert.ok(page.problems.every((problem) => problem.includes("boom")), page.problems.join());
    page.problems.length = 0;
  });
});

test("a worker that does not start is said", async () => {
  const noWasm = (page) => page.route("**/worker.js*", (route) => route.abort());
  await on("", { prepare: noWasm, ready: /^The computing stopped/ }, async (page) => {
    assert.match(await page.error(), /^The worker, which does the computing, did not start/);
    page.problems.length = 0;
  });
});

test("a warning has a button that mends it", async () => {
  await on("?engine=cpu#data=digits&steps=20&memory_size=1024", {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    const warning = page.find("warnings").locator(".warning", { hasText: "The memory holds 1024 rows and only 808 rows train" });
    await warning.getByRole("button", { name: "Use 808 rows" }).click();
    assert.equal(await page.knob("Memory rows"), "808");
    assert.match(await warning.innerText(), /Set for the next run\.$/);
    assert.ok(await page.find("next-memory_size").isVisible());
    await page.click("run");
    await page.status(/^Done/);
    // What so short a run suggests at its end is another matter.
    assert.equal(await page.find("warnings").locator(".warning", { hasText: "The memory holds" }).count(), 0);
  });
});

test("a file that comes while the last map is made does not cost the run its end", async () => {
  await on("?engine=cpu#data=digits&steps=3&test_fraction=0.02&validation_fraction=0.02&batch_size=16&memory_size=64", {}, async (page) => {
    // In the worker: turns of its event loop between the last two maps are counted; in the last of them comes a file that
    // is refused, as the page sent it once. The page did not send it now, and does not hear of it.
    const [worker] = page.page.workers();
    await worker.evaluate((first) => {
      self.addEventListener("message", ({ data }) => {
        if (data[0]?.[0] === first["Command::Files"]) self.file = data;
      });
    }, FIRST_BYTES);
    await page.upload(await written("cat.doc", "?"));
    await page.page.waitForFunction(() => document.querySelector("[data-testid=error] span").textContent.startsWith("cat.doc"));
    await worker.evaluate((first) => {
      const [say, Channel] = [self.postMessage.bind(self), self.MessageChannel];
      self.turns = [];
      self.refused = 0;
      self.at = Infinity;
      let counts = false;
      self.postMessage = (message, ...rest) => {
        const [kind, step] = message[0];
        if (kind === first["Event::Refused"]) return void (self.refused += 1);
        if (kind === first["Event::Started"]) counts = false;
        if (kind === first["Event::Evaluated"] && step === 3) {
          counts = true;
          self.turns.push(0);
        }
        say(message, ...rest);
      };
      self.MessageChannel = class extends Channel {
        constructor() {
          super();
          if (counts && ++self.turns[self.turns.length - 1] === self.at) {
            self.onmessage(new MessageEvent("message", { data: self.file }));
          }
        }
      };
    }, FIRST_BYTES);
    await page.click("run");
    await page.status(/^Done/);
    const last = await worker.evaluate(() => {
      self.at = self.turns.pop();
      return self.at;
    });
    assert.ok(last > 1);
    await page.click("run");
    // The run is over in no time: its end is waited for by what came in its last turn.
    while ((await worker.evaluate(() => self.refused)) === 0) await page.page.waitForTimeout(20);
    await page.status(/^Done/);
    assert.equal(await worker.evaluate(() => self.refused), 1, "it came, and was refused");
    assert.notEqual(await page.text("baseline-precision-at-1"), "–");
  });
});
