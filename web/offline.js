// Keeps the files of the page, so that it comes up without a network once it was loaded: a service worker. It answers for the
// files that are named here, below its own folder, and for nothing else.

const folder = new URL("./", self.location);
// Pages of other folders of the same host have caches of their own.
const NAME = `nearfar ${folder.pathname}`;
// What the page needs to come up with what it opens first, beside what its HTML names; and what is kept when it is used.
// What reads files is among the former: people try with their own whether the page works without a network.
const NEEDED = ["worker.js", "manifest.json", "digits.npy", "nearfar-files.js", "nearfar-files_bg.wasm"];
const USED = ["tour.js", "earlier.js", "cells.npz", "LICENSES.txt", "nearfar-bench.js", "nearfar-bench_bg.wasm"];
// Trunk names a file by its content: under such a name there is never another one. The number has no leading zeros.
const HASHED = /[\w-]+-[0-9a-f]{9,16}(?:_bg|_rest)?\.(?:js|wasm|css|svg)/g;

// What comes under a name with such an ending. A host may answer with its HTML for a file that is not there yet.
const TYPES = { js: /javascript/, wasm: /^application\/wasm/, css: /^text\/css/, svg: /^image\/svg/, npz: /^(?!text)/, npy: /^(?!text)/ };

const at = (name) => new URL(name, folder).href;
const named = (html) => [...new Set(html.match(HASHED))];

/** Whether this is an answer that may be kept under a name. */
const fits = (name, { ok, redirected, headers }) =>
  ok && !redirected && (TYPES[name.split(".").pop()] ?? /^/).test(headers.get("content-type") ?? "");

/** What was kept under a name, where that may be. */
async function kept(cache, name) {
  const found = await cache.match(at(name), { ignoreVary: true });
  return found && fits(name, found) ? found : undefined;
}

// What a host may send, and this adds where it does not. Memory is shared between workers, which threads ask for, where no other page
// can reach this one. And the rule of the page ends at its worker, which is under what comes with this file.
const ALONE = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const RULE = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; worker-src 'self'";
const RULES = { "": ALONE, "worker.js": { ...ALONE, "content-security-policy": RULE } };

/** The page and its worker with these headers. */
function ruled(name, response) {
  if (!RULES[name] || !response.ok) return response;
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  for (const [header, value] of Object.entries(RULES[name])) if (!headers.has(header)) headers.set(header, value);
  return new Response(response.body, { status, statusText, headers });
}

// The page says which of its cores it came up with: the other one is not fetched.
const OTHER = new URLSearchParams(self.location.search).has("threads") ? "nearfar-web-" : "nearfar-threads-";
const isNeeded = (name, at, names) => !name.startsWith(OTHER) || !names.some((other) => /^nearfar-\w+-.*wasm$/.test(other) && !other.startsWith(OTHER));

/** Keeps a version of the page once all of its files are there, and drops the files of the version before the last. */
async function keep(cache, response) {
  const before = (await (await kept(cache, ""))?.text()) ?? "";
  const html = await response.clone().text();
  const names = named(html);
  // Something else may have answered in the page's place.
  if (html === before || names.length === 0) return;
  const add = async (name, mode) => {
    const response = await fetch(at(name), { cache: mode });
    if (!fits(name, response)) throw new Error(`${name}: ${response.status}`);
    await cache.put(at(name), response);
  };
  // The browser has just fetched these. What it cannot give of its own, as of a file that is too large for it, is fetched again.
  const again = async (name) => (await kept(cache, name)) ?? add(name, "force-cache").catch(() => add(name, "no-store"));
  await Promise.all([...names.filter(isNeeded).map(again), ...NEEDED.map((name) => add(name, "no-cache"))]);
  await cache.put(at(""), response);
  // Pages of the last version may still be open.
  const stay = new Set([...names, ...named(before), "", ...NEEDED, ...USED].map(at));
  for (const { url } of await cache.keys()) if (!stay.has(url)) await cache.delete(url);
}

/** From the network, and kept; without one, what was kept. */
async function fresh(event, name) {
  const cache = await caches.open(NAME);
  try {
    const response = await fetch(event.request);
    if (fits(name, response)) {
      const copy = response.clone();
      event.waitUntil((name === "" ? keep(cache, copy) : cache.put(at(name), copy)).catch(() => {}));
    }
    return ruled(name, response);
  } catch (error) {
    const old = await kept(cache, name);
    // As a new one it has the address that was asked for: a worker reads its files from that.
    if (old) return ruled(name, new Response(old.body, old));
    throw error;
  }
}

/** What was kept; else, and where a page that did not come up asks past that, from the network. */
async function same(event, name) {
  const found = event.request.cache !== "reload" && (await kept(await caches.open(NAME), name));
  return found || fresh(event, name);
}

self.addEventListener("install", (event) => {
  const install = async () => {
    const response = await fetch(at(""), { cache: "no-cache" });
    if (!response.ok) throw new Error(`the page: ${response.status}`);
    await keep(await caches.open(NAME), response);
    await self.skipWaiting();
  };
  event.waitUntil(install());
});

// From its first load on, samples and what is fetched on demand are kept as they are used.
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { method, url, headers } = event.request;
  const { href } = new URL(url.split(/[?#]/)[0]);
  if (method !== "GET" || !href.startsWith(folder.href) || headers.has("range")) return;
  const name = href.slice(folder.href.length);
  if (name === "" || name === "index.html") event.respondWith(fresh(event, ""));
  else if (named(name)[0] === name) event.respondWith(same(event, name));
  else if ([...NEEDED, ...USED].includes(name)) event.respondWith(fresh(event, name));
});
