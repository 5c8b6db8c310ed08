// Every GPU works or gets a sentence: the least that WebGPU promises, and GPUs that are not given, or not for long.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";

import { pages, test, why } from "./playing.mjs";
import { ended, leaving } from "./saving.mjs";
import { root } from "./support.mjs";

const on = pages();
const RUN = "data=digits&steps=8&evaluate_every=4&hidden_layers=[16]&batch_size=16&memory_size=64&evaluate_queries=50";

/** Runs before the worker: what plays the GPU here does not say so, or else the page takes the CPU. */
const hardware = `Object.defineProperty(GPUAdapterInfo.prototype, "isFallbackAdapter", { get: () => false });`;

/** An adapter that offers the least of each limit and nothing else, and gives no device that asks for more. */
const least = `
const LEAST = {
  maxTextureDimension1D: 8192, maxTextureDimension2D: 8192, maxTextureDimension3D: 2048, maxTextureArrayLayers: 256, maxBindGroups: 4,
  maxBindGroupsPlusVertexBuffers: 24, maxBindingsPerBindGroup: 1000, maxDynamicUniformBuffersPerPipelineLayout: 8,
  maxDynamicStorageBuffersPerPipelineLayout: 4, maxSampledTexturesPerShaderStage: 16, maxSamplersPerShaderStage: 16,
  maxStorageBuffersPerShaderStage: 8, maxStorageTexturesPerShaderStage: 4, maxUniformBuffersPerShaderStage: 12,
  maxUniformBufferBindingSize: 65536, maxStorageBufferBindingSize: 134217728, minUniformBufferOffsetAlignment: 256,
  minStorageBufferOffsetAlignment: 256, maxVertexBuffers: 8, maxBufferSize: 268435456, maxVertexAttributes: 16,
  maxVertexBufferArrayStride: 2048, maxInterStageShaderVariables: 16, maxColorAttachments: 8, maxColorAttachmentBytesPerSample: 32,
  maxComputeWorkgroupStorageSize: 16384, maxComputeInvocationsPerWorkgroup: 256, maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256, maxComputeWorkgroupSizeZ: 64, maxComputeWorkgroupsPerDimension: 65535,
};
for (const [name, most] of Object.entries(LEAST)) Object.defineProperty(GPUSupportedLimits.prototype, name, { get: () => most });
Object.defineProperty(GPUAdapter.prototype, "features", { get: () => new Set() });
const ask = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (how = {}) {
  for (const [name, asked] of Object.entries(how.requiredLimits ?? {})) {
    const more = name.startsWith("min") ? asked < LEAST[name] : asked > LEAST[name];
    if (more) throw new DOMException(name + ": " + asked + " is more than there is", "OperationError");
  }
  if ([...(how.requiredFeatures ?? [])].length > 0) throw new TypeError("there is no such feature: " + [...how.requiredFeatures]);
  self.devices = (self.devices ?? 0) + 1;
  return ask.call(this, how);
};
`;

/** Opens the page with this before its worker. */
async function before(script, where, check, ready) {
  const worker = await readFile(path.join(root, "dist/worker.js"), "utf8");
  const route = (route) => route.fulfill({ body: `${script}\n${worker}`, contentType: "text/javascript" });
  await on(`${where}#${RUN}`, { ...leaving, prepare: (page) => page.route("**/worker.js*", route), ...(ready && { ready }) }, check);
}

/** What a run comes to. */
async function ran(page) {
  await page.click("run");
  return ended(page);
}

test("a GPU that offers the least of WebGPU, and nothing beside it, gives the same results", async () => {
  let usual;
  await on(`?engine=gpu#${RUN}`, leaving, async (page) => { usual = await ran(page); });
  await before(least, "?engine=gpu", async (page) => {
    assert.match(await why(page), /buffers up to 128 MiB/);
    assert.deepEqual(await ran(page), usual);
    assert.ok(await page.page.workers()[0].evaluate(() => self.devices > 0));
    // What no buffer of it holds is refused beforehand, with its limit.
    await page.set("Budget, MiB", "4096");
    await page.set("Memory rows", "3000000");
    await page.says("forecast", /cannot start: .*128 MiB/);
  });
});

const requests = "GPU.prototype.requestAdapter";
const devices = "GPUAdapter.prototype.requestDevice";

/** Where a GPU is given so, the page runs on the CPU, says why, and comes to what the CPU comes to; nothing runs where a GPU is asked for. */
async function leavesTheCpu(ways) {
  let usual;
  await on(`?engine=cpu#${RUN}`, leaving, async (page) => { usual = await ran(page); });
  for (const [what, script, said] of ways) {
    await before(script, "", async (page) => {
      assert.equal(await page.text("device"), "Runs on the CPU.", what);
      assert.match(await why(page), said, what);
      assert.deepEqual(await ran(page), usual, what);
    });
    await before(script, "?engine=gpu", async (page) => {
      await page.says("no-engine", /^Nothing can run: the link asks for a GPU \(engine=gpu\), and this browser offers none\./);
      assert.equal(await page.text("device"), "No GPU.", what);
    });
  }
}

test("a GPU that is not given leaves the CPU, and says why", async () => {
  await leavesTheCpu([
    ["no adapter", `${requests} = async () => null;`, /the browser offers no GPU, though it could \(WebGPU\)/],
    ["an adapter that is refused", `${requests} = async () => { throw new DOMException("switched off", "OperationError"); };`, /the browser offers no GPU/],
    ["a device that is refused", `${hardware} ${devices} = async () => { throw new DOMException("no more devices", "OperationError"); };`, /the GPU cannot be used \(the adapter gave no device: .*no more devices/],
  ]);
  // No browser throws where it is asked for a promise; something that stands in its place may.
  await before(`${requests} = () => { throw new TypeError("switched off"); };`, "", async (page) => {
    assert.match(await page.error(), /^The worker, which does the computing, stopped unexpectedly \(Uncaught TypeError: switched off\)/);
    page.problems.length = 0;
  }, /^The computing stopped/);
});

test("a GPU that is lost as soon as it is given, or at its first work, leaves the CPU", () => leavesTheCpu([
  ["a device that is lost already", `${hardware} const ask = ${devices}; ${devices} = async function (how) { const device = await ask.call(this, how); device.destroy(); return device; };`, /the GPU cannot be used \(the device was lost/],
  ["a device that is lost at its first work", `${hardware} const ask = ${devices}; ${devices} = async function (how) { const device = await ask.call(this, how); const { queue } = device; const submit = queue.submit.bind(queue); queue.submit = (parts) => { submit(parts); if (parts.length > 0) device.destroy(); }; return device; };`, /the GPU cannot be used \(the device was lost/],
]));
