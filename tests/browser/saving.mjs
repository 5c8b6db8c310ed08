// What tests of saved runs share: a page that tells when its run was saved and how it ended, and what saves it.
import { FIRST_BYTES } from "./support.mjs";

/** Runs in the page before it does: keeps how runs end, and says when one was saved. */
const listening = (first) => {
  self.saves = 0;
  const is = (bytes, name) => bytes[0] === first[`Event::${name}`];
  /** The arrays of a checkpoint, weights, moments, memory and history: behind the mark, the version and the settings. */
  const arrays = (checkpoint) => {
    const start = 20 + Number(new DataView(checkpoint).getBigUint64(12, true));
    return checkpoint.slice(start + 8, start + 8 + Number(new DataView(checkpoint).getBigUint64(start, true)));
  };
  const Real = self.Worker;
  self.Worker = class extends Real {
    constructor(...how) {
      super(...how);
      this.addEventListener("message", async ({ data: [bytes, checkpoint] }) => {
        if (is(bytes, "Started")) self.finished = self.weights = undefined;
        // Its end is the time that it took, eight bytes, and how fast that was: nothing, or eight bytes whose last is not 0.
        if (is(bytes, "Finished")) self.finished = bytes.subarray(0, bytes.at(-1) === 0 ? -9 : -17).join();
        if (is(bytes, "Kept")) self.weights = new Uint8Array(await crypto.subtle.digest("SHA-256", arrays(checkpoint))).join();
        if (is(bytes, "CanGoOn")) {
          // Nothing, or an offer: first comes its step, seven bits a byte.
          const step = bytes.subarray(2, 3 + bytes.subarray(2).findIndex((byte) => byte < 128));
          self.saved = bytes[1] === 0 ? 0 : step.reduceRight((step, byte) => step * 128 + (byte & 127), 0);
          if (self.saved > 0) self.saves += 1;
        }
      });
    }
  };
};

/** A page whose browser lets it be left with a run under way. */
export const leaving = { init: `(${listening})(${JSON.stringify(FIRST_BYTES)})`, prepare: (page) => page.on("dialog", (dialog) => dialog.accept()) };

/** The page is hidden, as far as it can tell, and shown again. */
export const hide = () => {
  for (const hidden of [true, false]) {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
  }
};

/** How the run ended, all but the time it took, to the last bit of its weights. */
export async function ended(page) {
  await page.status(/^Done/);
  await page.page.waitForFunction(() => self.finished && self.weights);
  const [finished, weights] = await page.page.evaluate(() => [self.finished, self.weights]);
  return { finished, weights, loss: await page.text("loss"), steps: await page.text("step-count"), active: await page.bare("mining-active", "count") };
}

/** Loads the page again, as a person would. */
export async function reload(page) {
  await page.page.reload();
  await page.status(/^(Ready|Choose)/);
  page.requests.length = 0;
}

/** Waits for the run's first step: there is nothing to save before it. */
export const begun = (page) => page.page.waitForFunction(() => Number(document.querySelector("[data-testid=step-count]").textContent) > 0);

/** Waits until the run was saved once more. */
export async function save(page) {
  await begun(page);
  const before = await page.page.evaluate(() => self.saves);
  await page.page.evaluate(hide);
  await page.page.waitForFunction((before) => self.saves > before, before);
}

/** Numbers that are the same each time the tests run. */
export function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
