// What a person's file says is text wherever it is shown: twenty labels, five columns and a file name that would be markup, script,
// styles or formulas elsewhere, through every view of the page and the report that is taken home.
import assert from "node:assert/strict";

import { pages, saved, test, written } from "./playing.mjs";

const on = pages({ webgpu: false });
const DOES = "window.planted=1";
const LABELS = [
  `<script>${DOES}</script>`, `<img src=x onerror=${DOES}>`, `"><svg onload=${DOES}>`, `'><iframe srcdoc='<script>parent.${DOES}</script>'>`,
  `javascript:${DOES}`, `<a href="javascript:${DOES}">x</a>`, "</title><style>*{display:none}</style>", "<!--", "]]>", "&lt;b&gt;&amp;",
  "${" + DOES + "}", "{{" + DOES + "}}", `=cmd|'/C calc'!A0`, "+1+1", "@SUM(1)", `<math><mtext></p><script>${DOES}</script>`,
  "<template><b>", "\u202egnp.exe", `<input autofocus onfocus=${DOES}>`, `<details open ontoggle=${DOES}>`,
];
const COLUMNS = [`<img src=x onerror=${DOES}>`, `"onmouseover="${DOES}`, "<b>bold</b>", "</select><script>", "width"];
const cell = (text) => `"${text.replaceAll('"', '""')}"`;

/** Rows that lie near the point of their class. */
function table() {
  const line = (row) => {
    const kind = row % LABELS.length;
    const values = COLUMNS.map((_, at) => (Math.sin(7 * kind + at) + 0.02 * Math.sin(row * (at + 3))).toFixed(4));
    return [cell(LABELS[kind]), ...values].join();
  };
  return [["species", ...COLUMNS.map(cell)].join(), ...Array.from({ length: 24 * LABELS.length }, (_, row) => line(row))].join("\n");
}

/** Elements that the page has none of by itself, and what a payload would have done. */
const planted = () => [
  window.planted ?? 0,
  document.querySelectorAll("img, iframe, object, embed, math, template, [onerror], [onload], [onfocus], [ontoggle], a[href^='javascript:']").length,
  [...document.querySelectorAll("script")].filter((script) => script.textContent.includes("planted")).length,
];

test("labels, columns and a file name that would be markup elsewhere are text in every view and in the report", async () => {
  const file = await written(`<img src=x onerror=${DOES}>.csv`, table());
  await on("?engine=cpu#steps=20&evaluate_every=20&hidden_layers=[8]&embedding_size=4", {}, async (page) => {
    const clean = async (where, tab = page.page) => assert.deepEqual(await tab.evaluate(planted), [0, 0, 0], where);
    let dialogs = 0;
    page.page.on("dialog", (dialog) => ((dialogs += 1), dialog.dismiss()));
    await page.upload(file);
    await page.summary(/480 rows of 5 features; 20 classes/);
    await clean("the data");
    await page.click("run");
    await page.status(/^Done: 20 steps/);
    await clean("the run");
    for (const view of ["view-compare", "view-runs", "view-run"]) {
      await page.click(view);
      await page.page.waitForTimeout(200);
      await clean(view);
    }
    assert.ok((await page.page.content()).includes("&lt;img src=x"), "it is shown, as text");
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
    await clean("Take home");
    const { bytes } = await saved(page, "report");
    // By itself, as a person opens it: without the page's policy.
    const browser = page.page.context().browser();
    const opened = async (html, look) => {
      const tab = await browser.newPage();
      await tab.setContent(html);
      await tab.waitForTimeout(200);
      await look(tab);
      await tab.close();
    };
    await opened(bytes.toString("utf8"), (tab) => clean("the report", tab));
    assert.equal(dialogs, 0);
    assert.deepEqual(page.requests.filter((url) => !url.startsWith("http://localhost") && !url.startsWith("http://127.0.0.1") && !url.startsWith("blob:")), []);
    // The check itself finds what it looks for.
    await opened(`<p>${LABELS[0]}${LABELS[1]}`, async (tab) => assert.deepEqual(await tab.evaluate(planted), [1, 1, 1]));
  });
});
