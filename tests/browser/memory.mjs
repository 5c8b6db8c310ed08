// What the processes of a browser hold, and what of it is the page's.
import { readFileSync } from "node:fs";

const MIB = 2 ** 20;

/**
 * MiB that processes hold: the largest that shows a page, which is ours, and the one that draws and computes for all. What is shared
 * counts in equal parts, and what lies in a file, as the browser's own code does, not at all: it is as much as other browsers leave.
 */
export async function processes(browser) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  const held = (kind) => Math.max(0, ...processInfo.filter(({ type }) => type === kind).map(({ id }) => {
    try {
      const rollup = readFileSync(`/proc/${id}/smaps_rollup`, "utf8");
      return [...rollup.matchAll(/^Pss_(?:Anon|Shmem):\s+(\d+) kB$/gm)].reduce((sum, [, kib]) => sum + Number(kib) / 1024, 0);
    } catch (error) {
      // It may have ended.
      if (["ENOENT", "ESRCH"].includes(error.code)) return 0;
      throw error;
    }
  }));
  return { renderer: held("renderer"), gpu: held("GPU") };
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

/** MiB of the scripts and of the wasm of the page and of its worker, in a browser with `gc`: what nothing holds any more is collected before. */
export async function heaps({ page }) {
  const held = async (where) => where.evaluate(() => {
    gc();
    return [performance.memory?.usedJSHeapSize ?? 0, self.cores.reduce((sum, memory) => sum + memory.buffer.byteLength, 0)];
  });
  // Workers that read or write a file end when that is done.
  const workers = page.workers().map((worker) => held(worker).catch(() => [0, 0]));
  const [[script, pageWasm], ...those] = await Promise.all([held(page), ...workers]);
  return { script: script / MIB, pageWasm: pageWasm / MIB, workerWasm: those.reduce((sum, [, wasm]) => sum + wasm, 0) / MIB };
}

/** Least squares: how much a number grows in a unit of what it is beside. */
export function slope(points) {
  const mean = (at) => points.reduce((sum, point) => sum + point[at], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const spread = points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
  return spread > 0 ? points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0) / spread : 0;
}
