// Starts the page. Where it cannot be loaded, or cannot go on, it says so.

// A module of one function that returns a 128-bit vector: what the core is compiled to needs it.
const simd = new Uint8Array([0,97,115,109,1,0,0,0,1,5,1,96,0,1,123,3,2,1,0,10,10,1,8,0,65,0,253,15,253,98,11]);
let started = false;
// Letters that are read from the last row of a class.
document.documentElement.classList.toggle("large", new URLSearchParams(location.search).has("large"));
// What the tab is called while the page is loaded once more: that outlasts the load.
const SECOND = "nearfar, once more";

/** Says what went wrong; of what goes wrong once the page is up, only a trap in the core is ours. */
const fail = (error) => {
  const failed = document.getElementById("failed");
  if (!failed?.hidden || (started && !(error instanceof WebAssembly.RuntimeError))) return;
  const why = error?.message ?? "one of its files did not arrive";
  failed.textContent = started
    ? `The page stopped unexpectedly (${why}): reload it to go on.`
    : `Nearfar could not be loaded (${why}): reload the page; if that does not help, try a current Chrome, Edge, Firefox or Safari.`;
  failed.hidden = false;
  document.getElementById("loading").hidden = true;
};
// Files that do not come are told of only on their way down.
addEventListener("error", (event) => fail(event.error), true);
addEventListener("unhandledrejection", (event) => fail(event.reason));

/**
 * Loads the page once more, with its files from its host, past what was kept of them: what was kept may be cut, or of another
 * version. Says whether it does: not where the host does not answer, and not twice in a row.
 */
const again = async () => {
  const isSecond = self.name === SECOND;
  self.name = "";
  if (isSecond || !(await fetch("offline.js", { cache: "no-store" })).ok) return false;
  self.name = SECOND;
  await self.caches?.delete(`nearfar ${new URL("./", document.baseURI).pathname}`);
  const files = document.querySelectorAll("script[src], link[href]");
  await Promise.allSettled([...files].map(({ src, href }) => fetch(src ?? href, { cache: "reload" })));
  location.reload();
  return true;
};

/**
 * The files of a core, which the build writes into the page's head: its script, what is needed first, and where it is published what is
 * needed later. The core with threads is not always built.
 */
const core = (name) => document.querySelector(`meta[name=${name}]`)?.content.split(" ");
const [own, shared] = [core("core"), core("core-threads")];

/** Tells if the core with threads is worth it: the CPU computes, on two cores or more, and the browser lets the page share memory. */
async function onThreads() {
  if (!shared || !self.crossOriginIsolated || navigator.hardwareConcurrency < 2 || !Atomics.waitAsync) return false;
  const asked = new URLSearchParams(location.search);
  const engine = asked.get("engine");
  // The bench has a core of its own, on one thread.
  if (asked.has("bench")) return false;
  if (engine) return engine === "cpu";
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  return !adapter || (adapter.info ?? adapter).isFallbackAdapter;
}

/** Has the browser fetch a core, one and not the other; the links say which it is. */
function choose([script, wasm]) {
  document.querySelectorAll("link[data-core]").forEach((link) => link.remove());
  for (const [rel, href, as] of [["modulepreload", script, "script"], ["preload", wasm, "fetch"]]) {
    const link = Object.assign(document.createElement("link"), { rel, href, as, crossOrigin: "anonymous" });
    link.dataset.core = "";
    document.head.append(link);
  }
}
const chosen = onThreads().catch(() => false).then((isShared) => (isShared ? shared : own));
chosen.then(choose);

/** Starts the core that was chosen. */
async function begin([script, wasm]) {
  const { default: start, kept } = await import(new URL(script, document.baseURI));
  await kept?.();
  const load = () => start({ module_or_path: new URL(wasm, document.baseURI) });
  // A browser that fetches a file twice at once may let one of them fail.
  await load().catch((error) => (error instanceof WebAssembly.RuntimeError ? Promise.reject(error) : load()));
}

let isShared = false;
addEventListener("DOMContentLoaded", async () => {
  if (!self.WebAssembly || !WebAssembly.validate(simd)) document.getElementById("unsupported").hidden = false;
  try {
    isShared = (await chosen) === shared;
    await begin(await chosen).catch((error) => {
      // Not kept for a page without a network, or too much memory to share for a small machine.
      if (!isShared || error instanceof WebAssembly.RuntimeError) throw error;
      isShared = false;
      choose(own);
      return begin(own);
    });
  } catch (error) {
    if (await again().catch(() => false)) return;
    throw error;
  }
  started = true;
  if (self.name === SECOND) self.name = "";
  for (const id of ["failed", "loading"]) document.getElementById(id).hidden = true;
  if (new URLSearchParams(location.search).has("tour")) await tour();
});

const tour = async () => (await import("./tour.js")).tour();
addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-testid=tour]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  tour();
});

// The page says so when its worker has come up: from then on, keeping its files is in the way of nothing. Over http from another
// machine, and in some private windows, there are no service workers: then a network is needed.
addEventListener("nearfar-up", async () => {
  // What is needed later: fetched at leisure, so that nothing has to wait for it.
  (await import(new URL((isShared ? shared : own)[0], document.baseURI))).ahead?.();
  navigator.serviceWorker?.register(isShared ? "offline.js?threads" : "offline.js").catch(() => {});
  // What earlier versions of the page kept; a browser that lists no databases may have some.
  const kept = await indexedDB.databases?.().catch(() => []);
  if (kept?.every(({ name }) => !/^nearfar( files)?$/.test(name)) !== true) await import("./earlier.js");
}, { once: true });
