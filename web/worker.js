// Loads the core into a worker; commands that come before it is up wait their turn.
const waiting = [];
self.onmessage = (event) => waiting.push(event);
const files = new URLSearchParams(self.location.search);
const { default: start } = await import(files.get("script"));
const load = () => start({ module_or_path: files.get("wasm") });
// A browser that fetches a file twice at once may let one of them fail.
await load().catch((error) => (error instanceof WebAssembly.RuntimeError ? Promise.reject(error) : load()));
for (const event of waiting) self.onmessage(event);
