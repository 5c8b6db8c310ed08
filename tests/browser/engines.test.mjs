// What the page runs on: a sentence that says it and why, the default demo where there is no WebGPU, and a stop that comes
// at once. And a page that cannot be loaded, or cannot go on: it is never blank.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";

import { saved } from "./playing.mjs";
import { FIRST_BYTES, Page, counted, launch, root, serve } from "./support.mjs";

let site, browser, bare;
before(async () => {
  site = await serve();
  browser = await launch();
  bare = await launch({ webgpu: false });
});
after(async () => {
  await browser.close();
  await bare.close();
  site.close();
});

/** Opens the page, runs the check, and fails on anything in the console. */
async function on(where, options, check) {
  const page = await Page.open(options.browser ?? browser, site.url + where, options);
  await check(page);
  assert.deepEqual(page.problems, [], "the console is clean");
  await page.page.close();
}

/** Opens a page that will not get ready, and waits for the sentence that says so. */
async function failed(prepare, check) {
  const page = await browser.newPage();
  await prepare(page);
  await page.goto(site.url);
  const sentence = page.locator("#failed").filter({ visible: true });
  await sentence.waitFor();
  check(await sentence.innerText());
  await page.close();
}

/** Has the worker run a text first. */
const withWorker = (text) => async (page) => {
  const worker = await readFile(path.join(root, "dist/worker.js"), "utf8");
  await page.route("**/worker.js*", (route) => route.fulfill({ body: `${text}\n${worker}`, contentType: "text/javascript" }));
};
/** Takes WebGPU out of the worker, as in a browser that has none. */
const withoutWebgpu = withWorker("delete WorkerNavigator.prototype.gpu;");
/** What plays the GPU here does not say so. */
const AS_HARDWARE = 'Object.defineProperty(GPUAdapterInfo.prototype, "isFallbackAdapter", { get: () => false });';

/** What the page runs on, in a few words, and why, on demand. */
const device = async (page) => [await page.text("device"), await page.find("device-why").getAttribute("aria-description")];

test("a few words say what the page runs on, and a sentence why and how fast", async () => {
  const speed = "Measured just now: ([\\d.]+) GFLOP/s\\.";
  const slower = " The GPU of a usual laptop does about 2,000 by its maker's figure: a large search is up to (\\d+) times slower here\\. Small steps lose less\\.$";
  for (const [where, words, said] of [
    ["?engine=gpu", "Runs on a GPU that the CPU imitates: slow.", `^The link asks for a GPU \\(engine=gpu\\), and the only one is software: .* \\(webgpu; buffers up to \\d.*\\)\\. .* ${speed}$`],
    ["?engine=cpu", "Runs on the CPU.", `^It runs on the CPU because the link asks for it \\(engine=cpu\\)\\. The results are the same as on a GPU\\. ${speed}${slower}`],
    ["", "Runs on the CPU.", `^It runs on the CPU because the only GPU here is software that runs on the CPU itself \\(.+\\), and slower; \\?engine=gpu in the link would use it\\. .* ${speed}${slower}`],
  ]) {
    await on(where, {}, async (page) => {
      const before = await device(page);
      assert.equal(before[0], words);
      assert.match(before[1], new RegExp(said));
      const [, gflops, times] = before[1].match(new RegExp(said)) ?? [];
      if (times) assert.ok(Math.abs((times * gflops) / 2000 - 1) < 0.1, before[1]);
      assert.ok(await page.find("webgpu-report").isHidden());
      // A run changes nothing of it.
      await page.click("step");
      await page.status(/^Paused/);
      assert.deepEqual(await device(page), before);
    });
  }
});

test("without WebGPU the sentence says what would bring it to this browser", async () => {
  const gecko = (system) => `Mozilla/5.0 (${system}; rv:148.0) Gecko/20100101 Firefox/148.0`;
  const webkit = (system, version) => `Mozilla/5.0 (${system}) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/${version} Safari/605.1.15`;
  for (const [userAgent, said] of [
    [gecko("X11; Linux x86_64"), /unless dom\.webgpu\.enabled and dom\.webgpu\.workers\.enabled are set to true in about:config\. /],
    [gecko("Windows NT 10.0; Win64; x64"), / from version 141 on Windows, and from 147 on Macs/],
    [webkit("Macintosh; Intel Mac OS X 10_15_7", "18.6"), / Safari gives pages the GPU \(WebGPU\) from version 26 on\./],
    [webkit("iPhone; CPU iPhone OS 18_6 like Mac OS X", "18.6 Mobile/15E148"), / from iOS 26 on\./],
    [undefined, / this browser gives pages no GPU \(WebGPU\); Chrome and Edge do from version 113 on/],
  ]) {
    await on("", { userAgent, prepare: withoutWebgpu }, async (page) => {
      const [words, sentence] = await device(page);
      assert.equal(words, "Runs on the CPU.");
      assert.match(sentence, /^It runs on the CPU because /);
      assert.match(sentence, said);
      assert.equal(await page.find("webgpu-report").filter({ visible: true }).getAttribute("href"), "https://webgpureport.org");
    });
  }
});

test("in a browser that offers no GPU the default demo reaches what it reaches with one", async () => {
  await on("#data=mirrored", { browser: bare }, async (page) => {
    assert.match((await device(page))[1], /^It runs on the CPU because the browser offers no GPU, though it could \(WebGPU\)/);
    await page.screenshot("no-webgpu-light");
    await page.click("run");
    await page.status(/^Done/);
    const precision = await page.number("precision-at-1");
    assert.ok(precision >= 0.85, `${precision}`);
    assert.match(await page.text("verdict"), /^Keep this head\./);
  });
});

test("a GPU that is asked for and is not there is a sentence", async () => {
  await on("?engine=gpu#data=mirrored", { browser: bare }, async (page) => {
    const [words, sentence] = await device(page);
    assert.equal(words, "No GPU.");
    assert.match(sentence, /^no GPU adapter: .* or use the CPU engine\.$/);
    assert.match(await page.text("no-engine"), /^Nothing can run: the link asks for a GPU/);
  });
});

test("a step of a hardware GPU takes fewer kernels than one of a software GPU, and gives the same numbers", async () => {
  // The kernels that a pass is given, by name.
  const listens = `
    const used = new Set(), { setPipeline } = GPUComputePassEncoder.prototype;
    GPUComputePassEncoder.prototype.setPipeline = function (pipeline) {
      used.add(pipeline.label);
      return setPipeline.call(this, pipeline);
    };
    const asked = new BroadcastChannel("used");
    asked.onmessage = () => asked.postMessage([...used]);
  `;
  const run = async (text) => {
    const page = await Page.open(browser, `${site.url}?engine=gpu#data=mirrored&steps=20`, { prepare: withWorker(text + listens) });
    await page.click("run");
    await page.status(/^Done/);
    await page.click("take-home");
    const { bytes } = await saved(page, "history");
    const used = await page.page.evaluate(() => new Promise((told) => {
      const worker = new BroadcastChannel("used");
      worker.onmessage = ({ data }) => told(data);
      worker.postMessage("?");
    }));
    assert.deepEqual(page.problems, [], "the console is clean");
    await page.page.close();
    return { used, losses: JSON.parse(bytes).history.map(({ loss }) => loss) };
  };
  const [software, hardware] = [await run(""), await run(AS_HARDWARE)];
  const has = ({ used }) => used.some((name) => name.startsWith("triplet_margin.mine_rows"));
  assert.deepEqual([has(software), has(hardware)], [false, true]);
  assert.equal(hardware.losses.length, 20);
  assert.deepEqual(hardware.losses, software.losses);
});

test("a hardware GPU is timed once for the shape of its tiles, and the browser keeps that", async () => {
  const context = await browser.newContext({ serviceWorkers: "block" });
  const visit = async () => {
    const page = await Page.open(context, site.url, { prepare: withWorker(AS_HARDWARE) });
    const [words, sentence] = await device(page);
    assert.match(words, /^Runs on your GPU \(.+\)\.$/);
    const [, high] = / A search compares (64|8) rows with (?:128|1,024) others at a time(?:, 64 pairs a lane)?: the fastest of three ways on this GPU\.$/.exec(sentence) ?? [];
    const kept = await page.page.evaluate(() => localStorage.getItem("nearfar.shape /nearfar/"));
    const [, shape, gpu] = /^(tile|strip|quads); (.+)$/.exec(kept);
    assert.equal({ tile: "64", quads: "64", strip: "8" }[shape], high, sentence);
    return { page, kept, shape, gpu };
  };
  const { page, kept: timed, shape, gpu } = await visit();
  const keep = (kept) => page.page.evaluate((text) => localStorage.setItem("nearfar.shape /nearfar/", text), kept);
  // Another shape can only come from what is kept; what is kept of another GPU says nothing of this one.
  const other = timed.replace(shape, shape === "tile" ? "strip" : "tile");
  await keep(other);
  assert.equal((await visit()).kept, other);
  await keep(`${shape}; not ${gpu}`);
  assert.equal((await visit()).gpu, gpu);
  await context.close();
});

test("a run stops within 300 ms of the click, on both engines", async () => {
  for (const engine of ["gpu", "cpu"]) {
    await on(`?engine=${engine}#data=mirrored&steps=40000&evaluate_every=40000`, {}, async (page) => {
      const waited = [];
      for (let i = 0; i < 3; i += 1) {
        await page.click("run");
        await page.status(/^Training/);
        const step = await page.number("step-count");
        await page.page.waitForFunction((step) => Number(document.querySelector("[data-testid=step-count]").textContent) > step, step);
        // From the click to the status, in the page itself: the harness has no part in it.
        waited.push(await page.page.evaluate(() => new Promise((resolve) => {
          const [status, button] = ["status", "pause"].map((id) => document.querySelector(`[data-testid=${id}]`));
          const started = performance.now();
          new MutationObserver(() => {
            if (status.textContent.startsWith("Paused")) resolve(performance.now() - started);
          }).observe(status, { childList: true, characterData: true, subtree: true });
          button.click();
        })));
      }
      // Slices of work are cut to 50 ms, however far the next evaluation is. The best of three: others may share the processor, and a software GPU with them.
      assert.ok(Math.min(...waited) < 300, `${engine}: ${waited.map((ms) => ms.toFixed(0))} ms`);
    });
  }
});

test("forty small steps and their scores take few waits for the GPU and few submits", async () => {
  const counting = await serve({ counts: true });
  const page = await Page.open(browser, `${counting.url}?engine=gpu#data=digits&steps=40&batch_size=16&hidden_layers=[32]&memory_size=256`);
  try {
    await page.click("run");
    await page.status(/^Done/);
    const { waits, submits } = await page.page.evaluate(counted);
    // Some browsers look at finished work ten times a second: there a wait costs 100 ms, whatever the GPU did.
    console.log(`# ${waits} waits, ${submits} submits`);
    assert.ok(waits > 0 && waits <= 80, `${waits} waits`);
    assert.ok(submits > 0 && submits <= 200, `${submits} submits`);
  } finally {
    await page.page.close();
    counting.close();
  }
});

test("a page whose files do not come says so", async () => {
  for (const files of ["**/*_bg.wasm", "**/nearfar-web-*.js"]) {
    await failed((page) => page.route(files, (route) => route.abort()), (said) => {
      assert.match(said, /^Nearfar could not be loaded \(.+\): reload the page/);
    });
  }
  const broken = (route) => route.fulfill({ body: Buffer.from("\0asm\x01\0\0\0?"), contentType: "application/wasm" });
  await failed((page) => page.route("**/*_bg.wasm", broken), (said) => {
    assert.match(said, /^Nearfar could not be loaded \(.*WebAssembly.*\): reload the page/);
  });
});

test("a page that panics says so, with the reason", async () => {
  // More answers than questions.
  const forge = (page) => page.addInitScript((refused) => {
    window.Worker = class extends Worker {
      constructor(...parts) {
        super(...parts);
        // No message, no columns, no cells.
        const data = [new Uint8Array([refused, 0, 0, 0])];
        const answer = () => this.dispatchEvent(new MessageEvent("message", { data }));
        setTimeout(() => Array.from({ length: 3 }, answer), 1000);
      }
    };
  }, FIRST_BYTES["Event::Refused"]);
  await failed(forge, (said) => {
    assert.match(said, /^The page stopped unexpectedly \(.*the worker answers what was asked.*\): reload it/);
  });
});

test("a worker whose core does not come says so", async () => {
  // The page gets the core, its worker does not.
  let asked = 0;
  const once = (page) => page.route("**/*_bg.wasm", (route) => (asked++ === 0 ? route.continue() : route.abort()));
  const page = await Page.open(browser, site.url, { prepare: once, ready: /^The computing stopped/ });
  assert.match(await page.error(), /^The worker, which does the computing, (did not start|stopped unexpectedly)/);
  await page.page.close();
});
