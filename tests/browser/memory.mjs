// What the processes of a browser hold, and what of it is the page's.
import { readFileSync } from "node:fs";

const MIB = 2 ** 20;

/**
 * MiB by process: of all that show pages, of the one that draws and computes for them, and of the browser itself. Memory that several
 * share counts in equal parts.
 */
export async function processes(browser) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  const held = {};
  for (const { type, id } of processInfo) {
    const kind = { renderer: "renderer", GPU: "gpu", browser: "browser" }[type];
    if (!kind) continue;
    try {
      const [, kib] = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, "utf8"));
      held[kind] = (held[kind] ?? 0) + (Number(kib) * 1024) / MIB;
    } catch (error) {
      // It may have ended.
      if (error.code !== "ENOENT" && error.code !== "ESRCH") throw error;
    }
  }
  return held;
}

/** Runs in a page before it does, and before its worker: keeps the memory of each core, which only grows. */
export const keeping = `
self.cores = [];
for (const name of ["instantiate", "instantiateStreaming"]) {
  const instantiate = WebAssembly[name];
  WebAssembly[name] = async (...how) => {
    const made = await instantiate.apply(WebAssembly, how);
    const { memory } = (made.instance ?? made).exports;
    if (memory) self.cores.push(memory);
    return made;
  };
}
`;

/** MiB of the JavaScript and of the wasm of the page and of its worker; what nothing holds any more is collected before. */
export async function heaps({ page }) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  const wasm = () => self.cores.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
  const [pageWasm, ...workerWasm] = await Promise.all([page.evaluate(wasm), ...page.workers().map((worker) => worker.evaluate(wasm))]);
  return { script: usedSize / MIB, pageWasm: pageWasm / MIB, workerWasm: workerWasm.reduce((sum, bytes) => sum + bytes, 0) / MIB };
}

/** Least squares: how much a number grows in a unit of what it is beside. */
export function slope(points) {
  const mean = (at) => points.reduce((sum, point) => sum + point[at], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const spread = points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
  return spread > 0 ? points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0) / spread : 0;
}
