// The tour: from its link to its end, as a newcomer takes it; it says what its runs show, also where they show something else.
import assert from "node:assert/strict";

import { pages, test } from "./playing.mjs";

const on = pages({ webgpu: false });

/** What is fetched for the tour alone. */
const prepare = (page) => page.route("**/tour.js", (route) => route.continue());

/** Takes the tour stop by stop. Returns what was said at each, and the score and the triplets that the page showed then. */
async function take(page) {
  const card = page.page.locator(".tour");
  const button = card.locator(".primary");
  const said = [];
  const shown = [];
  await card.waitFor();
  for (;;) {
    if (/^Train/.test(await button.innerText())) {
      await button.click();
      // A run of one step may be over before anybody looks.
      await page.page.waitForFunction(() => {
        const button = document.querySelector(".tour .primary");
        return button && !/^Train/.test(button.innerText) && !document.querySelector(".tour").innerText.includes("Training ..");
      }, undefined, { timeout: 120_000 });
    }
    said.push(await card.locator(".found").innerText());
    shown.push({ score: await page.text("precision-at-1"), triplets: await page.text("mining-valid") });
    const last = (await button.innerText()) === "End the tour";
    assert.ok((await page.page.locator(".toured").count()) > 0, "something is pointed at");
    await button.click();
    if (last) return { said, shown };
  }
}

test("the tour trains four times and says what came of it", async () => {
  await on("?engine=cpu&tour", { prepare }, async (page) => {
    const { said, shown } = await take(page);
    const [band, hard, sampler] = [1, 2, 3].map((stop) => shown[stop].score);
    assert.ok(said[1].startsWith(`The last step had ${shown[1].triplets} triplets. `), said[1]);
    assert.match(said[1], new RegExp(`is now right for ${band} of the rows; before training it was for 0\\.26`));
    assert.ok(Number(hard) < Number(band) - 0.03);
    assert.equal(said[2], `Here the nearest row is right less often than with the band: ${hard} of the rows, against ${band}.`);
    assert.ok(said[3].endsWith(`, ${sampler} with the sampler, ${band} with the memory.`), said[3]);
    assert.match(said[4], new RegExp(`${band} with the head, 0\\.60 with the linear map, 0\\.26 as the data is\\. The head is worth its training`));
    assert.equal(await page.page.locator(".tour, .toured").count(), 0, "it leaves nothing behind");
    await page.click("view-runs");
    assert.equal(await page.find("run-row").count(), 4);
  });
});

test("a teacher's link that leaves settings and parts out leaves the tour whole", async () => {
  await on("?engine=cpu&tour&show=steps,batch_size&hide=data,runs,compare#steps=20", { prepare }, async (page) => {
    const { said } = await take(page);
    assert.ok(said[1].startsWith("The last step had "), said[1]);
    assert.match(said[3], /with neither, .* with the sampler, .* with the memory\.$/);
  });
});

test("where the runs show no difference, the tour says none", async () => {
  // Heads that have hardly begun are as good as each other.
  await on("?engine=cpu&tour#data=mirrored&steps=1", { prepare }, async (page) => {
    const { said } = await take(page);
    assert.match(said[2], /about as often as with the band/);
    assert.match(said[4], /The map is simpler/);
  });
});

test("the link to the tour stands on the page until there is a run, and the tour is left by Escape", async () => {
  await on("?engine=cpu", { prepare }, async (page) => {
    const tour = page.page.locator(".tour");
    // On the page itself, and again once it was left.
    for (const title of ["Rows that belong together", "Rows that belong together"]) {
      await page.click("tour");
      await tour.getByRole("heading", { name: title }).waitFor();
      await tour.locator(".primary").press("Escape");
      assert.equal(await tour.count(), 0);
    }
    await page.click("run");
    await page.find("tour").waitFor({ state: "hidden" });
  });
});
