// What the tests of the page share: a page that is checked for what goes by unseen, files of its own, and its panels.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, test as nodeTest } from "node:test";

import { Page, launch, root, serve } from "./support.mjs";

/** What the page fetches from where it came when it is asked for: its icon, samples, the tour, the reader of large formats. */
const OWN = /\.svg$|\/(cells\.npz|digits\.npy|tour\.js|nearfar-files(\.js|_bg\.wasm)\?.*|worker\.js\?.*nearfar-files.*)$/;

export const PLOTS = ["chart-precision", "chart-mining", "chart-similarities", "chart-memory", "chart-loss", "embedding-map"];
export const SMALL = "steps=40&batch_size=16&hidden_layers=[32]&memory_size=256";

/** A test that may not take longer than four minutes, or what it needs, on a busy machine too. */
export const test = (name, check, seconds = 240) => nodeTest(name, { timeout: 1000 * seconds }, check);

/** One browser for a file of tests, and one site, served so. Returns what opens the page, runs a check, and fails on anything that went by in the console or over the network. */
export function pages(browserOptions, siteOptions) {
  let site, browser;
  before(async () => {
    site = await serve(siteOptions);
    browser = await launch(browserOptions);
  });
  after(async () => {
    await browser.close();
    site.close();
  });
  return async function on(where, options, check) {
    const page = await Page.open(browser, site.url + where, options);
    try {
      await check(page);
      assert.deepEqual(page.problems, [], "the console is clean");
      // A browser looks at the icon again whenever the link changes.
      assert.deepEqual(page.requests.filter((url) => !OWN.test(url)), [], "nothing leaves the page");
    } finally {
      await page.page.close();
    }
  };
}

/** A file of the tests' data. */
export const tree = (name) => path.join(root, "tests/data", name);

/** Why the page runs where it does. */
export const why = (page) => page.find("device-why").getAttribute("aria-description");

/** Writes a file of its own to load. */
export async function written(name, text) {
  const file = path.join(await mkdtemp(path.join(os.tmpdir(), "nearfar-")), name);
  await writeFile(file, text);
  return file;
}

/** What the command line gives for the same settings on a sample. */
export function native(sample, ...settings) {
  const cli = path.join(root, "target/debug/nearfar");
  const sets = settings.flatMap((set) => ["--set", set]);
  return JSON.parse(execFileSync(cli, ["train", "--json", "--data", `sample:${sample}`, ...sets], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
}

/** The table of columns: of each its name, first cells, what it is taken for, and why. */
export const columns = (page) => page.find("columns").locator("tbody tr").evaluateAll((lines) => lines.map((line) => {
  const [name, told] = line.cells;
  const [cells, reason] = [name, told].map((cell) => cell.querySelector("small").textContent);
  return [name.firstChild.textContent, cells, told.querySelector("select")?.value ?? told.firstChild.textContent, reason];
}));

/** The files of a ZIP archive whose members are stored as they are. */
export function unpacked(archive) {
  const files = {};
  const end = archive.lastIndexOf(Buffer.from("PK\x05\x06"));
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left -= 1) {
    assert.equal(archive.readUInt32LE(at), 0x02014b50, "an entry of the directory");
    assert.equal(archive.readUInt16LE(at + 10), 0, "stored");
    const [size, name, extra, comment] = [archive.readUInt32LE(at + 24), ...[28, 30, 32].map((offset) => archive.readUInt16LE(at + offset))];
    const local = archive.readUInt32LE(at + 42);
    const begin = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
    files[archive.toString("utf8", at + 46, at + 46 + name)] = archive.subarray(begin, begin + size);
    at += 46 + name + extra + comment;
  }
  return files;
}

/** Presses Save on a piece, and reads what came to the disk. */
export async function saved(page, piece) {
  const [download] = await Promise.all([page.page.waitForEvent("download"), page.click(`export-${piece}`)]);
  const bytes = await readFile(await download.path());
  await page.says("taken", new RegExp(`^${download.suggestedFilename().replace(".", "\\.")}: saved, `));
  return { name: download.suggestedFilename(), bytes };
}

export async function memoryIsWithinBudget(page) {
  const [live, peak, budget] = await Promise.all(
    ["memory-live", "memory-peak", "memory-budget"].map((id) => page.bare(id, "bytes")),
  );
  assert.ok(0 < live && live <= peak && peak <= budget, `${live} <= ${peak} <= ${budget}`);
}

/** The panel of neighbours: the row that was asked for, what was said, and the lines of the table. */
export async function neighbours(page) {
  const panel = page.find("neighbours");
  const lines = await panel.locator("tbody tr").evaluateAll((lines) => lines.map((line) => {
    const [, row, name, verdict, similarity] = [...line.cells].map((cell) => cell.textContent);
    return { row: Number(row), name, verdict, similarity: Number(similarity) };
  }));
  return { row: Number(await page.find("neighbour-row").inputValue()), said: await panel.getByRole("status").innerText(), lines };
}

/** Waits until the neighbours of a row are there, of this one where it is given. */
export async function found(page, row) {
  await page.page.waitForFunction((row) => {
    const panel = document.querySelector("[data-testid=neighbours]");
    const chosen = document.querySelector("[data-testid=neighbour-row]").value;
    return panel.querySelector("tbody tr") && (row === undefined || chosen === String(row));
  }, row);
  return neighbours(page);
}

/** The table of every row's scores, as an object. */
export function scores(page) {
  return page.find("evaluation").locator("table").evaluate((table) => {
    const cells = [...table.rows].map(({ cells: [name, value] }) => [name.textContent, value.innerText.trim()]);
    return { caption: table.caption.textContent, ...Object.fromEntries(cells) };
  });
}
