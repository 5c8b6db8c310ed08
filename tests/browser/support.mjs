// What the browser tests share: a static server for the built page, a browser with or without WebGPU, and the page as a
// person meets it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const root = fileURLToPath(new URL("../../", import.meta.url));
const screenshots = path.join(root, "tests/browser/screenshots");
const types = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".wasm": "application/wasm",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".txt": "text/plain",
};

/** The first byte of each message, an event or a command, by its name: which of its kind it is, in the order of protocol.rs. */
export const FIRST_BYTES = Object.fromEntries(["Command", "Event"].flatMap((kind) => {
  const source = readFileSync(path.join(root, "web/src/protocol.rs"), "utf8");
  const [, body] = new RegExp(`enum ${kind} \\{\n([^]*?)\n\\}`).exec(source);
  return [...body.matchAll(/^    ([A-Z]\w*)/gm)].map(([, name], number) => [`${kind}::${name}`, number]);
}));

/**
 * What a worker runs before it is the page's: it counts submits that carry work, and everything of a GPU that is waited for. Empty
 * submits only make a browser look at what is done: how many depends on how late it is. Its clock is slow: work is cut into slices
 * of 50 ms, and a software GPU gets it in the slices of one that is 20 times as fast, whatever else the machine does.
 */
const counting = `
const now = performance.now.bind(performance);
performance.now = () => now() / 20;
const counts = { submits: 0, waits: 0 };
const count = (kind, name, what) => {
  const call = self[kind]?.prototype[name];
  if (call) self[kind].prototype[name] = function (...parts) {
    if (parts[0]?.length !== 0) counts[what] += 1;
    return call.apply(this, parts);
  };
};
count("GPUQueue", "submit", "submits");
count("GPUQueue", "onSubmittedWorkDone", "waits");
count("GPUBuffer", "mapAsync", "waits");
const asked = new BroadcastChannel("counts");
asked.onmessage = () => asked.postMessage(counts);
`;

/** Runs in the page: what its worker counted so far, where the site was served `counted`. */
export const counted = () => new Promise((resolve) => {
  const worker = new BroadcastChannel("counts");
  worker.onmessage = ({ data }) => {
    worker.close();
    resolve(data);
  };
  worker.postMessage("?");
});

/**
 * Serves a folder, dist/ unless another is given, below a path of its own, and the same below another, as a static host would; `counts`
 * has the worker count what it asks of a GPU, `instead` may give another file than the one of that name, and `headers` the headers that
 * come with one.
 */
export async function serve({ folder = path.join(root, "dist"), counts = false, instead, headers } = {}) {
  const read = (name) => readFile(path.join(folder, path.normalize(name)));
  const server = http.createServer(async (request, response) => {
    const name = new URL(request.url, "http://local").pathname.replace(/^\/(nearfar|another)\//, "") || "index.html";
    try {
      let body = (await instead?.(name, read)) ?? (await read(name));
      if (counts && name === "worker.js") body = counting + body;
      response.writeHead(200, { "content-type": types[path.extname(name)] ?? "application/octet-stream", ...headers?.(name) });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${server.address().port}/nearfar/`, close: () => [server.close(), server.closeAllConnections()] };
}

/** A browser; with WebGPU it has a software adapter, and with `gc` its pages and workers can collect what nothing holds any more. */
export function launch({ webgpu = true, gc = false } = {}) {
  const flags = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ];
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [...flags, ...(webgpu ? ["--enable-unsafe-webgpu"] : []), ...(gc ? ["--js-flags=--expose-gc"] : [])],
  });
}

/** The page, with everything that must not go by unseen: console errors, and requests after it was loaded. */
export class Page {
  /**
   * `init` runs in the page before it does, `prepare` gets it before it loads, `ready` is the status to wait for; the rest is
   * how the browser shows it. What is kept for later loads is no part of one: service workers are off unless they are asked for.
   */
  static async open(browser, url, { init, prepare, ready = /^(Ready|Choose|Nothing can run)/, ...shown } = {}) {
    const page = await browser.newPage({ viewport: { width: 1920, height: 1080 }, serviceWorkers: "block", ...shown });
    // On a busy machine a test's own limit ends it.
    page.setDefaultTimeout(120_000);
    if (init) await page.addInitScript(init);
    await prepare?.(page);
    const self = new Page(page);
    page.on("console", (message) => message.type() === "error" && self.problems.push(message.text()));
    page.on("pageerror", (error) => self.problems.push(error.message));
    // What the page needs later is fetched at any time.
    page.on("request", (request) => request.url().endsWith("_rest.wasm") || self.requests.push(request.url()));
    await page.goto(url);
    await self.status(ready);
    self.requests.length = 0;
    return self;
  }

  constructor(page) {
    this.page = page;
    this.problems = [];
    this.requests = [];
  }

  find(id) {
    return this.page.locator(`[data-testid="${id}"]`);
  }

  text(id) {
    return this.find(id).innerText();
  }

  async number(id) {
    return Number(await this.text(id));
  }

  async bare(id, kind) {
    return Number(await this.find(id).getAttribute(`data-${kind}`));
  }

  click(id) {
    return this.find(id).click();
  }

  /** Waits for the status line. */
  async status(pattern, seconds = 240) {
    await this.page.waitForFunction(
      ([source]) => new RegExp(source).test(document.querySelector("[data-testid=status]")?.textContent ?? ""),
      [pattern.source],
      { timeout: seconds * 1000, polling: 50 },
    );
  }

  /** Waits until an element is shown and says so. */
  says(id, pattern) {
    return this.find(id).filter({ visible: true, hasText: pattern }).waitFor({ timeout: 60_000 });
  }

  /** Opens a tab beside the map. */
  async tab(name) {
    await this.page.getByRole("tab", { name }).click();
  }

  /** Opens a part of the settings that is folded. */
  async unfold(name) {
    const fold = this.page.locator(".controls details").filter({ has: this.page.locator(`> summary:text-is("${name}")`) }).last();
    if ((await fold.getAttribute("open")) === null) await fold.locator("> summary").click();
  }

  /** Sets a knob by its label. */
  async set(label, value) {
    const knob = this.page.getByLabel(label, { exact: true });
    for (const fold of ["Settings", "More settings"]) if (!(await knob.isVisible())) await this.unfold(fold);
    if ((await knob.evaluate((element) => element.tagName)) === "SELECT") await knob.selectOption(value);
    else {
      await knob.fill(value);
      await knob.blur();
    }
  }

  /** Waits until UMAP has placed the rows of the map, which it does by itself at the end of a run. */
  placed(seconds = 120) {
    return this.page.waitForFunction(() => document.querySelector("[data-testid=embedding-map]:not([data-placing])"), undefined, { polling: 50, timeout: 1000 * seconds });
  }

  /** A canvas as it is once nothing on it moves any more. */
  async settled(id) {
    if (id === "embedding-map") await this.placed();
    const picture = () => this.find(id).evaluate((canvas) => canvas.toDataURL());
    for (let last = await picture(); ; ) {
      await this.page.waitForTimeout(250);
      const now = await picture();
      if (now === last) return now;
      last = now;
    }
  }

  /** What a knob holds, by its label. */
  knob(label) {
    return this.page.getByLabel(label, { exact: true }).inputValue();
  }

  /** Waits for the summary of the data. */
  async summary(pattern) {
    await this.page.waitForFunction(
      (source) => new RegExp(source).test(document.querySelector("[data-testid=dataset-summary]").textContent),
      pattern.source,
    );
  }

  /** The sentence of the banner, or nothing. */
  async error() {
    const error = this.find("error");
    return (await error.isVisible()) ? error.locator("span").first().innerText() : "";
  }

  upload(...files) {
    return this.find("dataset-file").setInputFiles(files);
  }

  /** How many pixels of a canvas differ from what surrounds the lines: the background and the grid. */
  drawn(id) {
    return this.find(id).evaluate((canvas) => {
      const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let colourful = 0;
      for (let i = 0; i < width * height * 4; i += 4) {
        const [r, g, b, a] = data.subarray(i, i + 4);
        // Text, axes and grid are greys; lines and points are not.
        if (a > 40 && Math.max(r, g, b) - Math.min(r, g, b) > 40) colourful += 1;
      }
      return colourful;
    });
  }

  /** Waits until as many pixels are drawn as `holds` asks for: a plot follows what it shows by up to a tenth of a second. */
  async draws(id, holds) {
    for (const until = Date.now() + 10_000; !holds(await this.drawn(id)); await this.page.waitForTimeout(50))
      assert.ok(Date.now() < until, `${id} shows what it should not, or not what it should: ${holds}`);
  }

  /** The middle of a canvas's first pixel that is well inside a coloured point, in CSS pixels from its corner. */
  async point(id) {
    if (id === "embedding-map") await this.placed();
    return this.find(id).evaluate((canvas) => {
      const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const coloured = (x, y) => {
        const [r, g, b, a] = data.subarray(4 * (y * width + x), 4 * (y * width + x) + 4);
        return a > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 40;
      };
      for (let y = 2; y < height - 2; y += 1) {
        for (let x = 2; x < width - 2; x += 1) {
          if ([-2, 0, 2].every((d) => coloured(x + d, y) && coloured(x, y + d))) {
            return { x: (x * canvas.clientWidth) / width, y: (y * canvas.clientHeight) / height };
          }
        }
      }
      return null;
    });
  }

  screenshot(name) {
    return this.page.screenshot({ path: path.join(screenshots, `${name}.png`) });
  }
}
