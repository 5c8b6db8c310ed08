// Loads the core into a worker; commands that come before it is up wait their turn.
const waiting = [];
self.onmessage = (event) => waiting.push(event);

// Where the core saves runs: two slots for each, in a folder of the browser's private storage that has the path of the page's folder
// in its name. A run is told by a number. Run 1 is that of earlier versions of the page, which had one, at the top of the storage.
const top = () => navigator.storage.getDirectory();
const folder = async () => {
  const name = encodeURIComponent(`nearfar ${new URL("./", self.location).pathname}`);
  return (await top()).getDirectoryHandle(name, { create: true });
};
const place = (run) => (run === 1 ? top() : folder());
const names = (run) => [1, 2].map((slot) => (run === 1 ? `checkpoint-${slot}.bin` : `${run}-${slot}.bin`));
const moment = () => new Promise((over) => setTimeout(over, 50));

self.slots = {
  /** Every run that has a slot, of all tabs. */
  async list() {
    const runs = new Set();
    for await (const name of (await top()).keys()) if (name === "checkpoint-1.bin") runs.add(1);
    for await (const name of (await folder()).keys()) runs.add(parseInt(name));
    return [...runs];
  },
  /** Both slots of a run, which no one else can open then; tried so often, as the worker of a page that was left may hold them. */
  async open(run, tries) {
    if (!self.FileSystemFileHandle?.prototype.createSyncAccessHandle) {
      throw new Error("the browser gives this page no private storage (it takes https, and no private window)");
    }
    const slots = [];
    try {
      const where = await place(run);
      for (const name of names(run)) slots.push(await (await where.getFileHandle(name, { create: true })).createSyncAccessHandle());
      return slots;
    } catch (error) {
      slots.forEach((slot) => slot.close());
      if (error.name !== "NoModificationAllowedError") throw error;
      if (tries <= 1) throw new Error("another tab of this page goes on with it");
    }
    await moment();
    return self.slots.open(run, tries - 1);
  },
  /** Removes the slots of a run, where no one else has them. */
  async remove(run) {
    const where = await place(run);
    for (const name of names(run)) await where.removeEntry(name).catch(() => {});
  },
};

const files = new URLSearchParams(self.location.search);
const { default: start, help, kept } = await import(files.get("script"));
await kept?.();

/** Helps the worker that started this one: the same core on the same memory. It never returns. */
async function join({ data: [module, memory] }) {
  try {
    await start({ module_or_path: module, memory });
    self.postMessage("ready");
    help();
  } catch (error) {
    // The worker waits for its helpers, and hears nothing: the page does.
    new BroadcastChannel(files.get("traps")).postMessage(error.message);
  }
}

if (self.name === "helper") self.onmessage = join;
else {
  const load = () => start({ module_or_path: files.get("wasm") });
  // A browser that fetches a file twice at once may let one of them fail.
  await load().catch((error) => (error instanceof WebAssembly.RuntimeError ? Promise.reject(error) : load()));
}
for (const event of waiting) self.onmessage(event);
