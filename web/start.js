// Starts the page. Where it cannot be loaded, or cannot go on, it says so.

// A module of one function that returns a 128-bit vector: what the core is compiled to needs it.
const simd = new Uint8Array([0,97,115,109,1,0,0,0,1,5,1,96,0,1,123,3,2,1,0,10,10,1,8,0,65,0,253,15,253,98,11]);
let started = false;
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

addEventListener("DOMContentLoaded", async () => {
  if (!self.WebAssembly || !WebAssembly.validate(simd)) document.getElementById("unsupported").hidden = false;
  try {
    // Trunk writes the hashed names of the core's two files into links that preload them.
    const file = (link) => document.querySelector(`link[rel=${link}]`).href;
    const { default: start } = await import(file("modulepreload"));
    const load = () => start({ module_or_path: file("preload][as=fetch") });
    // A browser that fetches a file twice at once may let one of them fail.
    await load().catch((error) => (error instanceof WebAssembly.RuntimeError ? Promise.reject(error) : load()));
  } catch (error) {
    if (await again().catch(() => false)) return;
    throw error;
  }
  started = true;
  if (self.name === SECOND) self.name = "";
  for (const id of ["failed", "loading"]) document.getElementById(id).hidden = true;
  if (new URLSearchParams(location.search).has("tour")) await import("./tour.js");
});

// The page says so when its worker has come up: from then on, keeping its files is in the way of nothing. Over http from another
// machine, and in some private windows, there are no service workers: then a network is needed.
addEventListener("nearfar-up", async () => {
  navigator.serviceWorker?.register("offline.js").catch(() => {});
  // What earlier versions of the page kept; a browser that lists no databases may have some.
  const kept = await indexedDB.databases?.().catch(() => []);
  if (kept?.every(({ name }) => !/^nearfar( files)?$/.test(name)) !== true) await import("./earlier.js");
}, { once: true });
