// Files that are opened again by a click. The browser's dialog cannot be driven: in its place a file of the browser's own file
// system is chosen, whose handle is kept and asked as that of any file is.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { pages, test, tree } from "./playing.mjs";

const on = pages({ webgpu: false });
const table = readFileSync(tree("trees.csv"), "utf8");

/** Has the page choose trees.csv where a person would see a dialog. */
const init = ({ table }) => {
  const handle = async () => {
    const folder = await navigator.storage.getDirectory();
    const handle = await folder.getFileHandle("trees.csv", { create: true });
    if ((await handle.getFile()).size === 0) {
      const writer = await handle.createWritable();
      await writer.write(table);
      await writer.close();
    }
    return handle;
  };
  self.showOpenFilePicker = async ({ types }) => {
    self.asked = types[0].accept["application/octet-stream"];
    return [await handle()];
  };
  self.handle = handle;
};
const prepare = (page) => page.addInitScript(init, { table });
const again = (page) => page.page.locator("#reopen");

test("a file that was chosen is opened again by a click after the page was loaded anew, as it is then", async () => {
  await on("?engine=cpu", { prepare }, async (page) => {
    assert.equal(await again(page).isVisible(), false);
    await page.page.locator("label.file").click();
    await page.summary(/^trees.csv: 60 rows/);
    assert.ok((await page.page.evaluate(() => self.asked)).includes(".csv"));
    await page.set("Steps", "33");
    await page.page.reload();
    await page.status(/^(Ready|Choose)/);
    assert.equal(await page.text("notice"), "The link remembers settings, not your file: drop trees.csv again.");
    // It has a row more by now.
    await page.page.evaluate(async () => {
      const handle = await self.handle();
      const text = await (await handle.getFile()).text();
      const writer = await handle.createWritable();
      await writer.write(`${text.trimEnd()}\n${text.trimEnd().split("\n").at(-1)}\n`);
      await writer.close();
    });
    assert.equal(await again(page).innerText(), "Open trees.csv again");
    await again(page).click();
    await page.summary(/^trees.csv: 61 rows/);
    assert.equal(await page.knob("Steps"), "33");
    // And then it is gone.
    await page.page.evaluate(async () => (await navigator.storage.getDirectory()).removeEntry("trees.csv"));
    await again(page).click();
    await page.page.getByText("trees.csv: no longer there").waitFor();
    page.requests.length = 0;
  });
});

test("a file that was dropped is remembered, and one that may not be read is not", async () => {
  await on("?engine=cpu", { prepare }, async (page) => {
    await page.page.evaluate(async () => {
      const handle = await self.handle();
      const dropped = new DataTransfer();
      dropped.items.add(await handle.getFile());
      DataTransferItem.prototype.getAsFileSystemHandle = async () => handle;
      dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, cancelable: true }));
    });
    await page.summary(/^trees.csv: 60 rows/);
    await again(page).waitFor();
    await page.page.reload();
    await page.status(/^(Ready|Choose)/);
    await again(page).waitFor();
    await page.page.evaluate(() => { FileSystemHandle.prototype.requestPermission = async () => "denied"; });
    await again(page).click();
    await page.page.waitForTimeout(500);
    assert.doesNotMatch(await page.text("dataset-summary"), /trees/);
    page.requests.length = 0;
  });
});
