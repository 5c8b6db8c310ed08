// The page once it was loaded: it comes up without a network, the newest version it met, and keeps nothing but its own files.
import assert from "node:assert/strict";
import { after, before } from "node:test";

import { test } from "./playing.mjs";
import { Page, launch, serve } from "./support.mjs";

let browser;
before(async () => {
  browser = await launch({ webgpu: false });
});
after(() => browser.close());

/** Serves the page, with one of its cores or with both, opens it where it may keep its files, waits until it has, and runs the check. */
async function on(where, { instead, headers, both } = {}, check) {
  const alone = async (name, read) => {
    const body = await instead?.(name, read);
    return name === "index.html" && !both ? String(body ?? (await read(name))).replace(/<meta name="core-threads"[^>]*>/, "") : body;
  };
  const site = await serve({ instead: alone, headers });
  let page;
  try {
    page = await Page.open(browser, site.url + where, { serviceWorkers: "allow" });
    await page.page.waitForFunction(() => navigator.serviceWorker.controller);
    // A request that is under way when a server goes is complained of.
    await page.page.waitForLoadState("networkidle");
    await check(page, site);
    assert.deepEqual(page.problems, [], "the console is clean");
  } finally {
    await page?.page.context().close();
    site.close();
  }
}

/** The files that are kept, without their folder; the page itself has no name. */
const kept = (page) => page.page.evaluate(async () => {
  const urls = [];
  for (const name of await caches.keys()) for (const { url } of await (await caches.open(name)).keys()) urls.push(url);
  return urls.map((url) => url.replace(document.baseURI, "")).sort();
});

async function reload(page, ready = /^Ready/) {
  await page.page.reload();
  await page.status(ready);
}

test("a page that was loaded once comes up without its server, and runs", async () => {
  await on("?engine=cpu#data=mirrored&steps=40", {}, async (page, site) => {
    site.close();
    await assert.rejects(fetch(site.url), "the server is gone");
    await reload(page);
    // Its worker is under the page's rule now, though its host sends none.
    const refused = await page.page.workers()[0].evaluate(() => new Promise((resolve) => {
      addEventListener("securitypolicyviolation", ({ effectiveDirective }) => resolve(effectiveDirective));
      fetch("http://127.0.0.1:9/").catch(() => setTimeout(() => resolve("not by a rule"), 1000));
    }));
    assert.equal(refused, "connect-src");
    page.problems.length = 0;
    await page.click("run");
    await page.status(/^Done: 40 steps/);
    assert.match(await page.find("why").textContent(), /rows of classes it never saw/);
    // As does a link with other settings.
    await page.page.goto(`${site.url}?engine=cpu&again#steps=20`);
    await page.status(/^Ready/);
  });
});

// A host that does not isolate the page: kept, it is isolated, and would go on with a core that it never fetched.
test("a page comes up with the core that was kept where the one with threads was not", async () => {
  await on("?engine=cpu#data=mirrored&steps=20", { both: true }, async (page, site) => {
    assert.equal(await page.page.evaluate(() => self.crossOriginIsolated), false);
    site.close();
    await reload(page);
    assert.equal(await page.page.evaluate(() => self.crossOriginIsolated), true);
    // It asked for the other one, in vain.
    page.problems.length = 0;
  });
});

test("files are kept once the worker has come up: fetched twice at once, one of them may fail", async () => {
  const asked = [];
  const instead = async (name) => {
    asked.push(name);
    // Long enough that anything that does not wait for it comes first.
    if (name.endsWith("_bg.wasm")) await new Promise((over) => setTimeout(over, 500));
    return null;
  };
  await on("?engine=cpu#data=mirrored&steps=20", { instead }, async () => {
    const before = asked.slice(0, asked.indexOf("offline.js"));
    assert.equal(before.filter((name) => name.endsWith("_bg.wasm")).length, 2, `for the page and for its worker: ${before}`);
  });
});

test("a core that does not arrive at first is asked for again, for the page and for its worker", async () => {
  // The first is the page's, the second its worker's.
  for (const lost of [0, 1]) {
    let asked = -1;
    const core = ({ pathname }) => pathname.endsWith("_bg.wasm");
    const prepare = (page) => page.route(core, (route) => ((asked += 1) === lost ? route.abort() : route.continue()));
    const site = await serve();
    const page = await Page.open(browser, `${site.url}?engine=cpu#data=mirrored`, { prepare });
    assert.equal(asked, 2);
    await page.page.close();
    site.close();
  }
});

test("samples and readers that were used are there without a server; nothing else is kept", async () => {
  await on("?engine=cpu#data=mirrored&steps=20", {}, async (page, site) => {
    const first = await kept(page);
    // Where it is published, the core is in two parts.
    const core = await page.page.evaluate(() => document.querySelector("meta[name=core]").content);
    const rest = core.includes("_rest.wasm") ? [/^nearfar-web-.*_rest\.wasm$/] : [];
    const names = [/^$/, /^digits\.npy$/, /^icon-.*\.svg$/, /^manifest\.json$/, /^nearfar-files\.js$/, /^nearfar-files_bg\.wasm$/, /^nearfar-web-.*\.js$/, /^nearfar-web-.*_bg\.wasm$/, ...rest, /^reopen-.*\.js$/, /^shelf-.*\.js$/, /^start-.*\.js$/, /^style-.*\.css$/, /^worker\.js$/];
    assert.equal(first.length, names.length, first.join());
    names.forEach((name, at) => assert.match(first[at], name));
    await page.find("dataset-select").selectOption("digits");
    await page.summary(/^1797 rows/);
    const others = await page.page.evaluate(async () => {
      const ask = async (...what) => (await fetch(...what)).status;
      return [await ask("other.txt"), await ask("worker.js", { method: "POST" }), await ask("../nearfar/"), await ask("../worker.js")];
    });
    assert.deepEqual(others, [404, 200, 200, 200]);
    page.problems.length = 0;
    assert.deepEqual(await kept(page), first, "what the page opens with was there already");
    site.close();
    await reload(page, /^(Ready|Choose)/);
    await page.summary(/^1797 rows/);
  });
});

test("a new version is shown at once and takes the place of older ones", async () => {
  // Another version is one whose style sheet has another name: a number, which may be short of a digit.
  let version = 0;
  const own = /style-[0-9a-f]{9,16}/;
  const stamp = (version) => `style-${String(version).padStart(15, "1")}`;
  const instead = async (name, read) => {
    const html = String(await read("index.html"));
    if (version > 0 && name === "index.html") return html.replace(own, stamp(version));
    if (version > 0 && name === `${stamp(version)}.css`) return read(`${own.exec(html)[0]}.css`);
    return null;
  };
  await on("?engine=cpu#data=mirrored&steps=20", { instead }, async (page, site) => {
    const styles = async () => (await kept(page)).filter((name) => name.startsWith("style"));
    const [first] = await styles();
    // The version before stays for pages that are still open; the one before that goes.
    for (const expected of [[`${stamp(1)}.css`, first], [`${stamp(1)}.css`, `${stamp(2)}.css`]]) {
      version += 1;
      await reload(page);
      assert.ok((await page.page.locator("link[rel=stylesheet]").getAttribute("href")).endsWith(`${stamp(version)}.css`), "it is shown at once");
      await page.page.waitForFunction(async (name) => {
        const own = await caches.open((await caches.keys())[0]);
        return (await (await own.match(document.baseURI)).text()).includes(name);
      }, stamp(version));
      for (const until = Date.now() + 10_000; Date.now() < until && String(await styles()) !== String(expected);) await page.page.waitForTimeout(20);
      assert.deepEqual(await styles(), expected);
    }
    site.close();
    await reload(page);
    assert.ok((await page.page.locator("link[rel=stylesheet]").getAttribute("href")).endsWith(`${stamp(2)}.css`));
  });
});

// What a host may answer for the core of a new version that is not there yet: its page, nothing, a part of it, or that of another.
const WRONG = {
  "its page": (read) => read("index.html"),
  nothing: () => Promise.reject(new Error("404")),
  "a part of it": async (read, core) => (await read(core)).subarray(0, 300_000),
  "another version's": (read) => read("nearfar-files_bg.wasm"),
};
for (const [what, answer] of Object.entries(WRONG)) {
  test(`a host that answered ${what} for the core is forgiven: one reload brings the page back once it is well`, async () => {
    const own = /nearfar-web-[0-9a-f]{9,16}_bg\.wasm/;
    const core = "nearfar-web-2222222222222222_bg.wasm";
    let [isNew, isWrong] = [false, false];
    const instead = async (name, read) => {
      const html = String(await read("index.html"));
      if (isNew && name === "index.html") return html.replaceAll(new RegExp(own, "g"), core);
      if (name !== core) return null;
      return isWrong ? answer(read, own.exec(html)[0]) : read(own.exec(html)[0]);
    };
    const headers = (name) => (isWrong && name === core && what === "its page" ? { "content-type": "text/html" } : {});
    await on("?engine=cpu#data=mirrored&steps=20", { instead, headers }, async (page, site) => {
      let loads = 0;
      page.page.on("domcontentloaded", () => { loads += 1; });
      [isNew, isWrong] = [true, true];
      await page.page.reload();
      // It is loaded once more by itself, and no more than that.
      while (loads < 2) await page.page.waitForTimeout(20);
      await page.page.waitForFunction(() => document.getElementById("failed")?.hidden === false && self.name === "");
      await page.page.locator("#failed", { hasText: "could not be loaded" }).waitFor();
      assert.equal(loads, 2);
      isWrong = false;
      await reload(page);
      await page.page.waitForFunction(async (core) => {
        const own = await caches.open((await caches.keys())[0]);
        return (await own.match(core)) && (await own.match(document.baseURI));
      }, core);
      page.problems.length = 0;
      site.close();
      await reload(page);
    });
  });
}
