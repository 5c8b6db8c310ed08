// For who has only pictures: the lines of Python that make vectors of them, and what these lines write.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

import { found, pages, test, written } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages({ webgpu: false });

/** What the lines import, without a network: a vector is the first four bytes of a file. */
const MODULES = {
  "numpy.py": String.raw`
import struct
def concatenate(parts):
    return [row for part in parts for row in part]
def save(name, rows):
    shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + shape.ljust(117).encode() + b"\n")
        for row in rows:
            file.write(struct.pack("<4f", *row))
`,
  "torch.py": `
import contextlib
class nn:
    class Identity:
        pass
inference_mode = contextlib.nullcontext
def stack(batch):
    assert 0 < len(batch) <= 32
    return batch
`,
  "PIL/__init__.py": "",
  "PIL/Image.py": `
class Picture:
    def __init__(self, file):
        self.bytes = file.read_bytes()
    def convert(self, mode):
        assert mode == "RGB"
        return self
open = Picture
`,
  "torchvision/__init__.py": "",
  "torchvision/models.py": `
import torch
class ConvNeXt_Tiny_Weights:
    class DEFAULT:
        def transforms():
            return lambda picture: list(picture.bytes[:4])
class Vectors(list):
    def numpy(self):
        return list(self)
class Model:
    classifier = {2: "1,000 classes"}
    trains = True
    def eval(self):
        self.trains = False
        return self
    def __call__(self, batch):
        assert not self.trains and isinstance(self.classifier[2], torch.nn.Identity)
        return Vectors(batch)
def convnext_tiny(weights):
    assert weights is ConvNeXt_Tiny_Weights.DEFAULT
    return Model()
`,
};

/** Writes files below a folder. */
async function below(folder, files) {
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, content);
  }
}

test("who has only pictures finds the lines that make vectors of them, and what the lines write opens", async () => {
  const lines = await readFile(path.join(root, "web/pictures.py"), "utf8");
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const pictures = ["cat", "dog"].flatMap((kind, at) => Array.from({ length: 20 }, (_, i) => [`pictures/${kind}/${i}.JPG`, Buffer.from([90 * at + i, 50, i % 7, 9])]));
  await below(folder, { ...MODULES, ...Object.fromEntries(pictures), "pictures/cat/notes.txt": "no picture" });
  execFileSync("python3", ["-"], { cwd: folder, input: lines, env: { ...process.env, PYTHONPATH: folder } });
  await on("?engine=cpu", {}, async (page) => {
    await page.page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.click("only-pictures");
    await page.says("pictures", /Nearfar trains on vectors, not on pixels/);
    assert.equal(await page.find("pictures-code").textContent(), lines);
    await page.click("copy-pictures");
    await page.says("pictures-copied", /^Code: copied\.$/);
    assert.equal(await page.page.evaluate(() => navigator.clipboard.readText()), lines);
    await page.screenshot("pictures-lines");
    await page.click("pictures-close");
    await page.find("pictures-code").waitFor({ state: "detached" });
    await page.upload(path.join(folder, "pictures.npy"), path.join(folder, "pictures.csv"));
    await page.summary(/^pictures\.npy: 40 rows of 4 features; 2 classes of 20 rows each: cat, dog\./);
    assert.equal(await page.find("named-by").inputValue(), "filename");
    await page.click("run");
    await page.status(/^Done/);
  });
  assert.ok((await readFile(path.join(root, "docs/guide.md"), "utf8")).includes(lines), "the guide has the same lines");
});

test("pictures alone are answered by those lines, and the data stays", async () => {
  await on("?engine=cpu", {}, async (page) => {
    const [cat, dog] = [await written("cat.png", "\x89PNG"), await written("dog.webp", "RIFF")];
    for (const [files, said] of [[[cat, dog], /cat\.png and 1 more are pictures\. Nearfar trains on vectors, not on pixels/], [[dog], /dog\.webp is a picture\. Nearfar trains/]]) {
      await page.upload(...files);
      await page.says("pictures", said);
      assert.match(await page.find("pictures-code").textContent(), /np\.save\("pictures\.npy"/);
      assert.equal(await page.error(), "");
      await page.page.keyboard.press("Escape");
      await page.find("pictures-code").waitFor({ state: "detached" });
    }
    await page.status(/^Ready/);
    await page.summary(/^1797 rows/);
  });
});

/** A picture of 2 by 2 pixels of one colour, as BMP. */
function bitmap([r, g, b]) {
  const bytes = Buffer.alloc(70);
  bytes.write("BM");
  for (const [at, value] of [[2, 70], [10, 54], [14, 40], [18, 2], [22, 2], [34, 16]]) bytes.writeUInt32LE(value, at);
  for (const [at, value] of [[26, 1], [28, 24]]) bytes.writeUInt16LE(value, at);
  for (const at of [54, 57, 62, 65]) bytes.set([b, g, r], at);
  return bytes;
}

test("pictures that come with arrays and a table are shown beside the rows that name them", async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const colour = (i) => [4 * i, 255 - 4 * i, 90];
  const kinds = Array.from({ length: 60 }, (_, i) => `${["ash", "elm"][i % 2]}/${i}.bmp,${["ash", "elm"][i % 2]}`);
  await below(folder, {
    "trees.csv": ["filename,label", ...kinds].join("\n"),
    ...Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`${i}.bmp`, bitmap(colour(i))])),
    "other.bmp": bitmap([0, 0, 0]),
  });
  const pictures = [...Array(60).keys()].map((i) => path.join(folder, `${i}.bmp`));
  const features = path.join(root, "tests/data/features.npy");
  await on("?engine=cpu#steps=20&batch_size=12&memory_size=24&hidden_layers=[8]&embedding_size=4", {}, async (page) => {
    await page.upload(features, path.join(folder, "trees.csv"), ...pictures, path.join(folder, "other.bmp"));
    await page.says("notice", /^Pictures: 60 of 61 are shown beside the rows that name them\. No row, or more than one, names other\.bmp\.$/);
    assert.equal(await page.error(), "");
    await page.click("run");
    await page.status(/^Done/);
    await page.find("embedding-map").click({ position: await page.point("embedding-map") });
    const { row } = await found(page);
    const near = await page.find("neighbours").locator("tbody td:nth-child(2)").evaluateAll((cells) => cells.map(({ title }) => Number(title.slice(4))));
    const rows = [row, ...near];
    const shown = page.find("neighbours").locator("canvas.photo");
    for (const [i, row] of rows.entries()) {
      const drawn = () => shown.nth(i).evaluate((canvas) => [...canvas.getContext("2d").getImageData(40, 40, 1, 1).data].slice(0, 3));
      while (String(await drawn()) !== String(colour(row))) await page.page.waitForTimeout(50);
    }
    await page.screenshot("pictures-of-rows");
    await page.find("dataset-select").selectOption("digits");
    await page.summary(/^1797 rows/);
    // Without a table that names them they are not refused, either.
    await page.upload(await written("few.csv", `x,label\n${Array.from({ length: 20 }, (_, i) => `${(7 * i) % 11}.5,${"ab"[i % 2]}`).join("\n")}\n`), pictures[0]);
    await page.says("notice", /^Pictures: 0 of 1 are shown beside the rows that name them\. No row, or more than one, names 0\.bmp\.$/);
    assert.equal(await page.error(), "");
  });
});
