// Files are opened again by a click, where the browser lets a page remember them (the File System Access API): it keeps what
// leads to the file, not its content, and asks the person before the file is read again. Elsewhere nothing here does anything.

// Other folders of the same host have their own.
const DATABASE = `nearfar files ${new URL("./", document.baseURI).pathname}`;
const STORE = "last";
const input = () => document.querySelector("input[type=file]");
const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** The store of the files that were opened last. */
async function store(mode) {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  return (await done(request)).transaction(STORE, mode).objectStore(STORE);
}

/** Shows the button that opens these files again. */
function offer(handles) {
  const button = document.getElementById("reopen");
  if (!button || !handles?.length) return;
  button.textContent = `Open ${handles.map((handle) => handle.name).join(" and ")} again`;
  button.onclick = () => reopen(handles);
  button.hidden = false;
}

async function remember(handles) {
  await done((await store("readwrite")).put(handles, 0));
  offer(handles);
}

/** Gives files to the page as if they were chosen there. */
function choose(files) {
  const chosen = new DataTransfer();
  for (const file of files) chosen.items.add(file);
  input().files = chosen.files;
  input().dispatchEvent(new Event("change", { bubbles: true }));
}

async function reopen(handles) {
  for (const handle of handles) if ((await handle.requestPermission({ mode: "read" })) !== "granted") return;
  try {
    choose(await Promise.all(handles.map((handle) => handle.getFile())));
  } catch {
    const button = document.getElementById("reopen");
    button.textContent = `${handles.map((handle) => handle.name).join(" and ")}: no longer there`;
    button.onclick = null;
  }
}

/** The browser's dialog, asked for what can be remembered. */
async function pick() {
  const accept = { "application/octet-stream": input().accept.split(",") };
  const handles = await showOpenFilePicker({ multiple: true, types: [{ description: "Tables and runs", accept }] });
  choose(await Promise.all(handles.map((handle) => handle.getFile())));
  await remember(handles);
}

if ("showOpenFilePicker" in self) {
  // A person who closes the dialog chose nothing; a browser that keeps nothing remembers nothing.
  const nothing = () => {};
  addEventListener("click", (event) => {
    if (event.target !== input() || event.target === null) return;
    event.preventDefault();
    pick().catch(nothing);
  }, true);
  addEventListener("drop", async ({ dataTransfer }) => {
    // They can be asked for only while the files are dropped.
    const items = [...dataTransfer.items].filter((item) => item.kind === "file");
    const handles = await Promise.all(items.map((item) => item.getAsFileSystemHandle())).catch(nothing);
    if (handles?.length && handles.every((handle) => handle?.kind === "file")) await remember(handles).catch(nothing);
  }, true);
  addEventListener("nearfar-up", async () => offer(await done((await store("readonly")).get(0)).catch(nothing)), { once: true });
}
