// LICENSES.txt: it names whatever the page has copies of, and the page leads to it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

import { pages, test } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages({ webgpu: false });
const dist = path.join(root, "dist");
const licences = await readFile(path.join(dist, "LICENSES.txt"), "utf8");

/** The libraries that the wasms name: a panic says in which file it was. */
async function compiled() {
  const files = (await readdir(dist)).filter((name) => name.endsWith(".wasm"));
  const texts = await Promise.all(files.map((name) => readFile(path.join(dist, name), "latin1")));
  return new Set(texts.flatMap((text) => [...text.matchAll(/registry\/src\/[^/\0]+\/([\w-]+?)-(\d+\.\d+\.\d+[\w.+-]*)/g)].map(([, name, version]) => `${name} ${version}`)));
}

test("each library that a wasm names is in the list, with its licence and a text of it", async () => {
  const libraries = await compiled();
  assert.ok(libraries.size > 50, `${[...libraries]}`);
  const [, list] = licences.split("\nLibraries\n\n");
  const listed = list.slice(0, list.indexOf("\n\n")).split("\n").map((line) => /^(\S+ \S+): \S/.exec(line)[1]);
  const [, ...notices] = list.split(/\n-+\n/);
  const noticed = new Set(notices.flatMap((notice) => notice.slice(0, notice.indexOf("\n")).split(", ")));
  // The core with threads names those in the standard library, too, which is compiled with it.
  const [standard] = /^In it are [^]*?\. The texts/m.exec(licences);
  for (const library of libraries) assert.ok(listed.includes(library) || standard.includes(library.split(" ")[0]), library);
  for (const name of listed) assert.ok(noticed.has(name), name);
});

test("the authors of the data are named, with licence and changes", () => {
  for (const part of ["E. Alpaydin and C. Kaynak", "creativecommons.org/licenses/by/4.0", "columns stored as bytes", "M. Baron et al.", "rounded to half floats"]) assert.ok(licences.includes(part), part);
  assert.match(licences, /\n\nCopyright \(c\) 2021 Cynthia\n\nPermission is hereby granted, free of charge/);
  assert.match(licences, /\n\nCopyright \(c\) 2026 The Nearfar developers\n\nPermission is hereby granted, free of charge/);
});

test("it is the same each time, and says nothing of the machine that made it", async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const again = path.join(folder, "LICENSES.txt");
  execFileSync("node", [path.join(root, "web/licences.mjs"), again]);
  assert.equal(await readFile(again, "utf8"), licences);
  await rm(folder, { recursive: true });
  for (const part of [root, `${os.homedir()}/`, "registry/src", "registry+"]) assert.ok(!licences.includes(part), part);
});

test("the page leads to it, in a page of its own", async () => {
  await on("?engine=cpu", {}, async (page) => {
    const [opened] = await Promise.all([page.page.waitForEvent("popup"), page.page.getByRole("link", { name: "Licences" }).click()]);
    await opened.waitForLoadState();
    assert.match(await opened.innerText("body"), /^\uFEFF?Nearfar: the licences of what this page is made of[^]*E\. Alpaydin[^]*Amanieu d'Antras[^]*Jonathan Dönszelmann/);
    assert.match(await page.text("status"), /^Ready/);
  });
});
