// Loads the core into a worker; commands that come before it is up wait their turn.
const waiting = [];
self.onmessage = (event) => waiting.push(event);
const files = new URLSearchParams(self.location.search);
const { default: start } = await import(files.get("script"));
await start({ module_or_path: files.get("wasm") });
for (const event of waiting) self.onmessage(event);
