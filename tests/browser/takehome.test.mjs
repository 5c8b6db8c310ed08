// Take home: what the page saves is on the disk, whole, and what the command line gives for the same settings.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { copyFile, mkdtemp, readFile, symlink, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

import { columns, pages, saved, test, tree, unpacked } from "./playing.mjs";
import { root } from "./support.mjs";

const on = pages({ webgpu: false });
const SETTINGS = ["steps=20", "evaluate_every=20", "memory_size=256"];

/** The same 60 rows in every format that is read; with labels of their own, where the format has no texts. */
const TREES = [
  ["trees.csv"], ["trees.tsv"], ["trees.jsonl"], ["trees.parquet"], ["trees.h5ad"], ["trees.npz"],
  ["trees.npy", "labels_text.npy"], ["trees.safetensors", "labels_text.npy"],
];

/** The tensors of a safetensors file, and the rest of its header. */
function tensors(file) {
  const begin = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__: about, ...all } = JSON.parse(file.toString("utf8", 8, begin));
  const values = ({ data_offsets: [from, to] }) => new Float32Array(file.buffer.slice(file.byteOffset + begin + from, file.byteOffset + begin + to));
  return { about, shapes: Object.fromEntries(Object.entries(all).map(([name, { shape }]) => [name, shape])), values: Object.fromEntries(Object.entries(all).map(([name, of]) => [name, values(of)])) };
}

/** The largest difference of two heads. */
function apart(ours, theirs) {
  assert.deepEqual([ours.about, ours.shapes], [theirs.about, theirs.shapes]);
  return Math.max(...Object.keys(ours.values).map((name) => ours.values[name].reduce((most, value, i) => Math.max(most, Math.abs(value - theirs.values[name][i])), 0)));
}

test("what is taken home from the page is what the command line leaves", async () => {
  const folder = path.join(await mkdtemp(path.join(os.tmpdir(), "nearfar-")), "run");
  const cli = path.join(root, "target/debug/nearfar");
  const sets = SETTINGS.flatMap((set) => ["--set", set]);
  execFileSync(cli, ["train", "--engine", "cpu", "--data", "sample:mirrored", "--out", folder, ...sets], { stdio: "ignore" });
  const native = (name) => readFile(path.join(folder, name));
  await on(`?engine=cpu#data=mirrored&${SETTINGS.join("&")}`, {}, async (page) => {
    assert.equal(await page.find("take-home").getAttribute("aria-disabled"), "true", "there is no head yet");
    await page.click("run");
    await page.status(/^Done/);
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
    await page.screenshot("take-home");
    const { name, bytes } = await saved(page, "zip");
    assert.equal(name, "nearfar.zip");
    const files = unpacked(bytes);
    const listed = (path) => execFileSync("find", [".", "-type", "f"], { cwd: path, encoding: "utf8" }).trim().split("\n").map((file) => file.slice(2)).sort();
    assert.deepEqual(Object.keys(files).sort(), listed(folder), "the files of the folder");
    // Nothing in these is measured: they are equal, byte for byte.
    for (const same of ["config.json", "link.txt", "nearfar_train.py", "sides.npy", "nearfar_data.npz", "test_labels.csv", "sentence-transformers/modules.json"]) {
      assert.ok(files[same].equals(await native(same)), same);
    }
    // A browser has no fused multiply-add: heads differ in their last bits.
    const head = tensors(files["head.safetensors"]);
    const off = apart(head, tensors(await native("head.safetensors")));
    console.log(`largest difference of a weight from the command line's: ${off}`);
    assert.ok(off <= 1e-5, `${off}`);
    head.values["0.weight"][0] += 1e-4;
    assert.ok(apart(head, tensors(await native("head.safetensors"))) > 1e-5, "another weight would be found");
    const report = JSON.parse(files["history.json"]);
    assert.equal(report.history.length, 20);
    assert.equal(report.final.test.precision_at_1.toFixed(2), (await page.number("precision-at-1")).toFixed(2));
    // A piece by itself is the archive's.
    const piece = await saved(page, "onnx");
    assert.equal(piece.name, "head.onnx");
    assert.ok(piece.bytes.equals(files["head.onnx"]));
    // Charts: as files, and as they stand on the page.
    const charts = unpacked((await saved(page, "charts")).bytes);
    const losses = String(charts["charts/loss.csv"]).trim().split("\n").slice(1).map((line) => Number(line.split(",")[2]));
    assert.deepEqual(losses, report.history.map((step) => step.loss));
    assert.match(String(charts["charts/precision_at_1.svg"]), /^<svg [^]*<\/svg>\n$/);
    const titles = await page.find("picture").locator("option").allInnerTexts();
    assert.ok(["Finding the class", "Loss"].every((title) => titles.includes(title)), titles.join());
    await page.find("picture").selectOption("chart-loss");
    const picture = await saved(page, "png");
    assert.equal(picture.name, "loss.png");
    assert.deepEqual([...picture.bytes.subarray(1, 4)], [...Buffer.from("PNG")]);
    // Its ground is the page's, not see-through, and there is a line on it.
    const corner = await page.page.evaluate(async (bytes) => {
      const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
      const context = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, image.width, image.height);
      let coloured = 0;
      for (let i = 0; i < data.length; i += 4) coloured += Math.max(...data.subarray(i, i + 3)) - Math.min(...data.subarray(i, i + 3)) > 40;
      return { alpha: data[3], coloured: coloured > 100 };
    }, [...picture.bytes]);
    assert.deepEqual(corner, { alpha: 255, coloured: true });
    // A table of lists, which the command line reads as what it is.
    const table = path.join(folder, "from_the_page.parquet");
    await writeFile(table, (await saved(page, "parquet")).bytes);
    const { data } = JSON.parse(execFileSync(cli, ["train", "--engine", "cpu", "--data", table, "--labels", "label", "--set", "steps=1", "--json"], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
    assert.deepEqual([data.rows, data.dim], [report.data.test, 64]);
    // Another side, and a piece of several files.
    await page.find("take-home-side").selectOption("validation");
    const rows = await saved(page, "npy");
    assert.equal(rows.name, "validation_embeddings.npy");
    assert.equal(rows.bytes.length, 128 + report.data.validation * 64 * 4);
    const projector = unpacked((await saved(page, "projector")).bytes);
    assert.deepEqual(Object.keys(projector).sort(), ["projector/metadata.tsv", "projector/projector_config.json", "projector/vectors.tsv"]);
    assert.equal(projector["projector/vectors.tsv"].toString().trim().split("\n").length, report.data.validation);
    assert.match((await saved(page, "neighbours")).name, /^validation_neighbours\.npz$/);
    // What was saved opens on the command line.
    const archive = path.join(folder, "from-the-page.zip");
    await writeFile(archive, bytes);
    execFileSync(cli, ["embed", "--engine", "cpu", "--model", archive, "--data", "sample:mirrored", "--out", path.join(folder, "x.npy")], { stdio: "ignore" });
    await page.page.keyboard.press("Escape");
    await page.find("taken").waitFor({ state: "hidden" });
  });
});

/** A Python with what the lines of code import, if there is one: that of `make test-python`, or the one that is named. */
function python(...modules) {
  const known = [process.env.NEARFAR_PYTHON, path.join(root, "target/python/bin/python"), "python3"].filter(Boolean);
  return known.find((program) => spawnSync(program, ["-c", `import ${modules.join(", ")}`]).status === 0);
}

/** Runs the lines of JavaScript in Node on the rows of the file, in the place of random ones. */
async function inNode(folder, lines) {
  const [, ...rows] = (await readFile(tree("trees.csv"), "utf8")).trim().split("\n");
  const numbers = rows.flatMap((row) => row.split(",").slice(2).map(Number));
  const given = lines.replace("Float32Array.from({ length: 5 * 5 }, Math.random)", `Float32Array.from(${JSON.stringify(numbers)})`).replace("[5, 5]", "[60, 5]");
  await symlink(path.join(root, "tests/browser/node_modules"), path.join(folder, "node_modules"));
  await writeFile(path.join(folder, "lines.mjs"), `${given}\nconsole.log(JSON.stringify([...embeddings.data]));\n`);
  const said = execFileSync(process.execPath, ["lines.mjs"], { cwd: folder, stdio: ["ignore", "pipe", "ignore"] });
  const expected = new Float32Array((await readFile(path.join(folder, "rows.npy"))).buffer.slice(128));
  const made = JSON.parse(said);
  assert.equal(made.length, expected.length);
  assert.ok(made.every((value, at) => Math.abs(value - expected[at]) < 1e-5));
}

test("the lines of code are those of the command line, are copied, and do with the files beside them what they say", async () => {
  const cli = path.join(root, "target/debug/nearfar");
  const programs = { PyTorch: ["torch", "safetensors"], "ONNX Runtime": ["onnxruntime", "numpy"], scanpy: ["anndata"], JavaScript: [] };
  await on("?engine=cpu#steps=20&evaluate_every=20&batch_size=12&memory_size=24&hidden_layers=[8]&embedding_size=4&standardize=true", {}, async (page) => {
    await page.page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.upload(tree("trees.h5ad"));
    await page.summary(/: 60 rows/);
    await page.click("run");
    await page.status(/^Done: 20 steps/);
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
    await page.screenshot("take-home-code");
    const coded = {};
    for (const network of ["linear", "head"]) {
      const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
      await page.click(`take-${network}`);
      await page.says("code", new RegExp(`"${network}\\.(safetensors|onnx)"`));
      const { name, bytes } = await saved(page, "code");
      assert.equal(name, network === "head" ? "code.md" : "linear_code.md");
      coded[network] = bytes;
      const told = Object.fromEntries([...String(bytes).matchAll(/## In (.*)\n\n```(?:python|js)\n([^]*?)\n```/g)].map(([, name, lines]) => [name, lines]));
      assert.deepEqual(Object.keys(told), Object.keys(programs));
      await page.find("take-home-side").selectOption("all");
      await writeFile(path.join(folder, "rows.npy"), (await saved(page, "npy")).bytes);
      for (const [program, modules] of Object.entries(programs)) {
        await page.find("code-program").getByRole("button", { name: program }).click();
        const lines = await page.find("code").textContent();
        assert.equal(lines, told[program], program);
        await page.click("copy-code");
        await page.says("taken", /^Code: copied\.$/);
        assert.equal(await page.page.evaluate(() => navigator.clipboard.readText()), lines);
        const [download] = await Promise.all([page.page.waitForEvent("download"), page.click("save-code-file")]);
        assert.ok(lines.includes(`"${download.suggestedFilename()}"`), `${program} reads what is saved, ${download.suggestedFilename()}`);
        await writeFile(path.join(folder, download.suggestedFilename()), await readFile(await download.path()));
        if (program === "JavaScript") {
          await inNode(folder, lines);
          continue;
        }
        const found = python(...modules);
        console.log(`${program}: ${found ? "the lines run" : "not run, as no Python here has it"}`);
        if (!found) continue;
        // The rows of the file in the place of random ones; no map and no picture, for which scanpy is needed.
        const source = lines.replace(/rand\(5, (\d+)\)/, (_, dim) => (assert.equal(dim, "5"), "rand(60, 5)"))
          .replace("np.random.rand(60, 5)", "np.array(x)").replace("torch.rand(60, 5)", "torch.tensor(x)").replace("import scanpy as sc", "import anndata as sc").replace(/^sc\.(pp|tl|pl)\..*$/gm, "");
        const check = program === "scanpy"
          ? "embeddings = sc.read_h5ad('trees_nearfar.h5ad').obsm['X_nearfar']"
          : "embeddings = numpy.asarray(embeddings)";
        const script = `import anndata, numpy\nx = anndata.read_h5ad("trees.h5ad").X.astype("float32").tolist()\n${source}\nimport numpy\n${check}
assert abs(embeddings - numpy.load("rows.npy")).max() < 1e-5, embeddings - numpy.load("rows.npy")\n`;
        await copyFile(tree("trees.h5ad"), path.join(folder, "trees.h5ad"));
        const ran = spawnSync(found, ["-"], { cwd: folder, input: script, encoding: "utf8" });
        assert.equal(ran.status, 0, `${program}: ${ran.stderr}`);
      }
      await page.find("code-program").getByRole("button", { name: "PyTorch" }).click();
    }
    // The link opens the page with the settings of the run, whatever was changed since.
    await page.page.keyboard.press("Escape");
    await page.set("Steps", "33");
    await page.click("take-home");
    await page.click("copy-link");
    await page.says("taken", /^Link: copied\.$/);
    const link = await page.page.evaluate(() => navigator.clipboard.readText());
    assert.equal(link, await page.find("link").inputValue());
    assert.match(link, /^http:.*\?engine=cpu#data=file%3Atrees\.h5ad&.*&steps=20$/);
    await page.page.keyboard.press("Escape");
    // The command line prints the same lines for what was saved.
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
    const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
    const [archive, out] = ["run.zip", "code.md"].map((name) => path.join(folder, name));
    await writeFile(archive, (await saved(page, "zip")).bytes);
    for (const [network, of] of [["head", []], ["linear", ["--linear"]]]) {
      execFileSync(cli, ["export", archive, "--format", "code", "--out", out, ...of], { stdio: "ignore" });
      assert.ok(coded[network].equals(await readFile(out)), `${network}: as the command line writes them`);
    }
  });
});

test("cells go home as a file of cells with their own names, and rows that are no cells do not", async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const cli = path.join(root, "target/debug/nearfar");
  const cells = path.join(root, "tests/corpus/two_labels.h5ad");
  const settings = "steps=2&batch_size=4&memory_size=8&validation_fraction=0";
  const trained = async (page, ...files) => {
    await page.upload(...files);
    if (files[0] === cells) {
      await page.find("label-column").selectOption("donor");
      // Whatever a person calls them, Python finds them by the names of the file.
      await page.find("named-by").selectOption("batch");
    }
    await page.summary(/rows of \d features; 3 classes/);
    await page.click("run");
    await page.status(/^Done: 2 steps/);
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-npy]")?.getAttribute("aria-disabled") === "false");
  };
  await on(`?engine=cpu#${settings}`, {}, async (page) => {
    await trained(page, tree("trees.csv"));
    assert.ok(await page.find("export-npy").isVisible() && !await page.find("export-h5ad").isVisible(), "trees are no cells");
  });
  await on(`?engine=cpu#${settings}`, {}, async (page) => {
    await trained(page, cells);
    await page.find("take-home-side").selectOption("all");
    const [{ name, bytes }, { bytes: npy }, { bytes: archive }] = [await saved(page, "h5ad"), await saved(page, "npy"), await saved(page, "zip")];
    assert.equal(name, "all_embeddings.h5ad");
    const [run, out] = ["run.zip", "native"].map((name) => path.join(folder, name));
    await writeFile(run, archive);
    const native = async (piece) => {
      execFileSync(cli, ["export", run, "--engine", "cpu", "--format", piece, "--side", "all", "--data", cells, "--out", out], { stdio: "ignore" });
      return readFile(out);
    };
    // A browser has no fused multiply-add: but for the last bits of embeddings, the file is the command line's.
    const [ours, theirs] = [npy.subarray(128), (await native("npy")).subarray(128)];
    const expected = await native("h5ad");
    const at = expected.indexOf(theirs);
    assert.ok(at > 0 && ours.length === theirs.length && ours.length > 0);
    ours.copy(expected, at);
    assert.ok(bytes.equals(expected));
  });
});

test("what was taken home is opened again, looks as it did, and goes on", async () => {
  let archive, verdict, score;
  const settings = SETTINGS.join("&");
  await on(`?engine=cpu#data=mirrored&${settings}`, {}, async (page) => {
    await page.click("run");
    await page.status(/^Done/);
    [verdict, score] = [await page.text("verdict"), await page.text("precision-at-1")];
    await page.click("take-home");
    await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
    const { bytes } = await saved(page, "zip");
    archive = path.join(await mkdtemp(path.join(os.tmpdir(), "nearfar-")), "run.zip");
    await writeFile(archive, bytes);
  });
  // Another page, with other data and settings: nothing is left here of the run.
  await on("?engine=cpu#data=many-classes&steps=10", {}, async (page) => {
    await page.upload(archive);
    await page.status(/^Done: 20 steps/);
    assert.deepEqual([await page.text("verdict"), await page.text("precision-at-1")], [verdict, score]);
    assert.equal(await page.knob("Memory rows"), "256", "its settings");
    await page.click("view-runs");
    assert.equal(await page.find("runs").locator("tbody tr").count(), 1, "it is kept now");
    await page.click("view-run");
    // More steps go on from there, and end where a run of as many does.
    await page.set("Steps", "40");
    await page.click("run");
    await page.says("notice", /the run goes on after step 20\./);
    await page.status(/^Done: 40 steps/);
    const whole = await page.text("verdict");
    await page.set("Seed", "1");
    await page.set("Seed", "0");
    await page.click("reset");
    await page.click("run");
    await page.status(/^Done: 40 steps/);
    assert.equal(await page.text("verdict"), whole);
    await page.click("view-runs");
    assert.equal(await page.find("runs").locator("tbody tr").count(), 3);
    // The command line opens it too, and says what an archive is that it does not know.
    const other = path.join(path.dirname(archive), "other.zip");
    await writeFile(other, Buffer.from("504b0506000000000000000000000000000000000000", "hex"));
    await page.click("view-run");
    await page.upload(other);
    await page.says("error", /^other\.zip: there is no checkpoint\.bin in the archive/);
  });
});

/** Opens an archive on the page, and takes the run home again. */
async function throughThePage(page, archive) {
  await page.upload(archive);
  await page.status(/^Done: 20 steps/);
  await page.click("take-home");
  await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
  return unpacked((await saved(page, "zip")).bytes);
}

test("a run of the command line has the same bytes when the page takes it home", async () => {
  const temporary = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const [folder, archive] = [path.join(temporary, "run"), path.join(temporary, "run.zip")];
  const cli = path.join(root, "target/debug/nearfar");
  const sets = SETTINGS.flatMap((set) => ["--set", set]);
  execFileSync(cli, ["train", "--engine", "cpu", "--data", "sample:mirrored", "--out", folder, ...sets], { stdio: "ignore" });
  execFileSync(cli, ["export", folder, "--format", "zip", "--out", archive], { stdio: "ignore" });
  await on("?engine=cpu#data=many-classes&steps=10", {}, async (page) => {
    const files = await throughThePage(page, archive);
    const differing = [];
    for (const [name, bytes] of Object.entries(files)) {
      if (!bytes.equals(await readFile(path.join(folder, name)))) {
        differing.push(name);
      }
    }
    // The page adds to a checkpoint how its map lies, and it makes embeddings anew, without a fused multiply-add.
    assert.deepEqual(differing.sort(), ["checkpoint.bin", "test_embeddings.npy"]);
    const parts = (file) => {
      const length = Number(file.readBigUInt64LE(12));
      const said = JSON.parse(file.toString("utf8", 20, 20 + length));
      delete said.run.axes;
      return [said, file.toString("base64", 20 + length, file.length - 8)];
    };
    assert.deepEqual(parts(files["checkpoint.bin"]), parts(await readFile(path.join(folder, "checkpoint.bin"))));
    const floats = (bytes) => new Float32Array(new Uint8Array(bytes.subarray(128)).buffer);
    const [ours, theirs] = [floats(files["test_embeddings.npy"]), floats(await readFile(path.join(folder, "test_embeddings.npy")))];
    assert.equal(ours.length, theirs.length);
    assert.ok(ours.every((value, i) => Math.abs(value - theirs[i]) <= 1e-5));
  });
});

test("rows of any format are dropped, looked at and trained on, and the same head is taken home", async () => {
  const cli = path.join(root, "target/debug/nearfar");
  const folder = await mkdtemp(path.join(os.tmpdir(), "nearfar-"));
  const settings = "steps=20&evaluate_every=20&batch_size=12&memory_size=24&hidden_layers=[8]&embedding_size=4";
  const heads = {};
  for (const names of TREES) {
    await on(`?engine=cpu#${settings}`, {}, async (page) => {
      await page.upload(...names.map(tree));
      await page.summary(/: 60 rows of 5 features; 3 classes of 20 rows each: ash, birch, château/);
      const table = await columns(page);
      assert.match(table.find(([, , role]) => role === "label")[1], /^ash, /, names[0]);
      assert.match(table.find(([, , role]) => role === "feature")[1], /^\[?-0\.48/, names[0]);
      await page.click("run");
      await page.status(/^Done: 20 steps/);
      await page.click("take-home");
      await page.page.waitForFunction(() => document.querySelector("[data-testid=export-zip]")?.getAttribute("aria-disabled") === "false");
      const { bytes } = await saved(page, "zip");
      heads[names[0]] = tensors(unpacked(bytes)["head.safetensors"]).values;
      // The embeddings of every row are those that the command line makes of the same file with the head that was saved.
      await page.find("take-home-side").selectOption("all");
      const { bytes: ours } = await saved(page, "npy");
      const [archive, out] = ["run.zip", "x.npy"].map((name) => path.join(folder, name));
      await writeFile(archive, bytes);
      execFileSync(cli, ["embed", "--engine", "cpu", "--model", archive, "--data", tree(names[0]), "--out", out], { stdio: "ignore" });
      const values = (file) => new Float32Array(file.buffer.slice(file.byteOffset + 128, file.byteOffset + file.length));
      const [own, theirs] = [values(ours), values(await readFile(out))];
      assert.deepEqual([own.length, theirs.length], [240, 240]);
      assert.ok(own.every((value, i) => Math.abs(value - theirs[i]) < 1e-5), names[0]);
    });
  }
  for (const [name, head] of Object.entries(heads)) assert.deepEqual(head, heads["trees.csv"], name);
});
