// What columns are taken for: one journey through a table with all roles, from the drop to the head that is taken home; the command
// line says the same of the same file.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";

import { columns, pages, saved, test, unpacked, written } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages();
const SETTINGS = "steps=20&evaluate_every=20&hidden_layers=[8]&embedding_size=4";

/** 240 trees of four species at eight sites: an id, the species, its code, the site, a split, text, and measurements. */
function trees() {
  let state = 7;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const normal = () => Array.from({ length: 6 }, random).reduce((sum, value) => sum + value, -3);
  const [species, sites] = [4, 8].map((count) => Array.from({ length: count }, () => Array.from({ length: 5 }, () => 2 * normal())));
  const line = (i) => {
    const [kind, site] = [Math.floor(4 * random()), Math.floor(8 * random())];
    const values = species[kind].map((value, at) => (value + sites[site][at] + normal()).toFixed(3));
    const part = ["train", "train", "train", "validation", "test"][Math.floor(5 * random())];
    const words = [1000 + i, ["ash", "birch", "cedar", "dogwood"][kind], [7, 3, 9, 5][kind], 100 + site, part, ["clear", "rain"][i % 2], `seen on walk ${i}`];
    return [...words, ...values].join();
  };
  return ["tree_id,species,code,site,part,weather,remark,height,girth,crown,bark,leaf", ...Array.from({ length: 240 }, (_, i) => line(i))].join("\n");
}

test("twelve columns of all roles are told, changed by a click, and are the same on the command line and at home", async () => {
  const file = await written("trees.csv", trees());
  const cli = (...given) => JSON.parse(execFileSync(path.join(root, "target/debug/nearfar"), ["train", "--engine", "cpu", "--json", "--data", file, ...given], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
  const sets = SETTINGS.split("&").flatMap((set) => ["--set", set]);
  const roles = async (page) => Object.fromEntries((await columns(page)).map(([name, , role]) => [name, role]));
  let link;
  await on(`?engine=cpu#${SETTINGS}`, {}, async (page) => {
    await page.upload(file);
    await page.summary(/^trees.csv: 240 rows of 6 features; 4 classes/);
    const told = Object.fromEntries((await columns(page)).map(([name, , role, reason]) => [name, [role, reason]]));
    assert.deepEqual(told, {
      tree_id: ["id", "numbers the rows"], species: ["label", "by its name"], code: ["ignored", "says what the labels say"],
      site: ["feature", "numbers"], part: ["split", "its cells name sides"], weather: ["ignored", "text"],
      remark: ["id", "another text in nearly every row"], height: ["feature", "numbers"], girth: ["feature", "numbers"],
      crown: ["feature", "numbers"], bark: ["feature", "numbers"], leaf: ["feature", "numbers"],
    });
    const plain = cli(...sets);
    assert.deepEqual(plain.data.columns.map(({ name, role, reason }) => [name, [role, reason]]), Object.entries(told));
    // A number becomes the group, one feature is left out, and the file is split by group.
    await page.find("role-site").selectOption("group");
    await page.summary(/^trees.csv: 240 rows of 5 features/);
    await page.find("role-leaf").selectOption("ignored");
    await page.summary(/^trees.csv: 240 rows of 4 features/);
    await page.find("role-part").selectOption("ignored");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=role-part]").parentElement.querySelector("small").textContent === "text");
    const chosen = await roles(page);
    assert.deepEqual([chosen.site, chosen.leaf, chosen.part], ["group", "ignored", "ignored"]);
    await page.click("run");
    await page.status(/^Done: 20 steps/);
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
    const files = unpacked((await saved(page, "zip")).bytes);
    const read = (name) => JSON.parse(Buffer.from(files[name]).toString());
    const config = read("config.json");
    assert.deepEqual([config.group, config.split, config.ignore], ["site", "by-group", ["leaf"]]);
    const native = cli(...sets, "--group", "site", "--ignore", "leaf", "--set", "split=by-group");
    const report = read("history.json");
    assert.deepEqual(report.data.columns.map(({ name, role }) => [name, role]), native.data.columns.map(({ name, role }) => [name, role]));
    for (const score of ["test", "test_own_group"]) {
      for (const number of ["precision_at_1", "mean_average_precision_at_r", "queries"]) {
        assert.ok(Math.abs(report.final[score][number] - native.final[score][number]) < 1e-6, `${score}, ${number}`);
      }
    }
    assert.match(Buffer.from(files["nearfar_train.py"]).toString(), /^GROUP = "site"$/m);
    link = new URL(page.page.url()).hash;
  });
  // The link says it too: the same file, dropped on the page that it opens, is read likewise.
  await on(`?engine=cpu${link}`, {}, async (page) => {
    await page.says("notice", /drop trees.csv again/);
    await page.upload(file);
    await page.summary(/^trees.csv: 240 rows of 4 features/);
    const again = await roles(page);
    assert.deepEqual([again.site, again.leaf], ["group", "ignored"]);
  });
});
