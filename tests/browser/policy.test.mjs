// What the page may do: its policy refuses what is not its own.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { after, before } from "node:test";

import { SMALL, pages, test } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages({ webgpu: false });
// The header that docs/publish.md recommends to hosts.
const [, header] = /`Content-Security-Policy: (.*?)`/.exec(readFileSync(path.join(root, "docs", "publish.md"), "utf8"));
const guarded = pages({ webgpu: false }, { headers: (name) => (name === "worker.js" ? { "content-security-policy": header } : {}) });

test("the page runs under a policy without exceptions for what stands in its HTML, and for no other host", async () => {
  await on(`?engine=cpu#data=digits&${SMALL}`, {}, async (page) => {
    const policy = await page.page.locator("meta[http-equiv=Content-Security-Policy]").getAttribute("content");
    const rules = Object.fromEntries(policy.split("; ").map((rule) => [rule.split(" ")[0], rule.split(" ").slice(1)]));
    assert.deepEqual(rules["default-src"], ["'none'"]);
    for (const [name, sources] of Object.entries(rules)) {
      const allowed = ["'none'", "'self'", ...(name === "script-src" ? ["'wasm-unsafe-eval'"] : [])];
      assert.deepEqual(sources.filter((source) => !allowed.includes(source)), [], name);
    }
    // What has a place, a colour or a width of its own has it still.
    await page.click("run");
    await page.status(/^Done/);
    await page.tab("Memory");
    const widths = await page.find("memory-by-purpose").locator("span").evaluateAll((parts) => parts.map((part) => part.clientWidth));
    assert.ok(widths.length > 2 && widths[0] > widths.at(-1), widths.join());
    await page.click("take-home");
    const [download] = await Promise.all([page.page.waitForEvent("download"), page.find("export-onnx").click()]);
    assert.equal(download.suggestedFilename(), "head.onnx");
  });
});

/** Another host, and how often it was asked. */
let other, asked = 0;
before(async () => {
  other = http.createServer((_, response) => response.writeHead(200, { "access-control-allow-origin": "*" }).end(String((asked += 1))));
  await new Promise((ready) => other.listen(0, "127.0.0.1", ready));
});
after(() => other.close());

test("code in the HTML, evaluated text and other hosts are refused", async () => {
  const url = `http://127.0.0.1:${other.address().port}/`;
  await on("?engine=cpu", {}, async (page) => {
    const refused = await page.page.evaluate(async (url) => {
      const told = [];
      document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => told.push(effectiveDirective));
      const add = (name, also) => document.head.append(Object.assign(document.createElement(name), also));
      add("script", { textContent: "self.ran = true" });
      add("style", { textContent: "body { color: red }" });
      add("img", { src: url });
      add("script", { src: url });
      add("iframe", { src: url });
      document.body.setAttribute("style", "color: red");
      await fetch(url).catch(() => {});
      // Not in this function itself: the browser lets those who drive it evaluate what they like.
      setTimeout(() => (self.ran = new Function("return true")()));
      await new Promise((soon) => setTimeout(soon, 200));
      return { ran: self.ran ?? false, told: [...new Set(told)].sort() };
    }, url);
    assert.equal(refused.ran, false);
    assert.deepEqual(refused.told, ["connect-src", "frame-src", "img-src", "script-src", "script-src-elem", "style-src-attr", "style-src-elem"]);
    assert.equal(asked, 0, "nobody else was asked");
    page.problems.length = 0;
    page.requests.length = 0;
  });
});

test("the worker runs under the header that is recommended, and reads what has a reader of its own", async () => {
  await guarded(`?engine=cpu#data=digits&${SMALL}`, {}, async (page) => {
    const refused = await page.page.workers()[0].evaluate((url) => fetch(url).then(() => false, () => true), `http://127.0.0.1:${other.address().port}/`);
    assert.ok(refused, "another host that answers anybody");
    await page.click("run");
    await page.status(/^Done/);
    await page.upload(path.join(root, "tests/corpus/components.h5ad"));
    await page.summary(/^components.h5ad: 12 rows/);
  });
});
