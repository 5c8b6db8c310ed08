// Moves what earlier versions of the page kept, under names that all folders of the host shared, to where this page keeps its own:
// one thing after the other, each taken from its old place once it is in the new one. What there is no room for stays.

const folder = new URL("./", document.baseURI).pathname;
const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = request.onblocked = () => reject(request.error);
});

/** A change of a store, once it is on the disk. */
const changed = (database, store, change) => new Promise((resolve, reject) => {
  const transaction = database.transaction(store, "readwrite");
  change(transaction.objectStore(store));
  transaction.oncomplete = resolve;
  transaction.onabort = () => reject(transaction.error);
});

async function move(name, store) {
  const before = await done(indexedDB.open(name));
  if (before.objectStoreNames.contains(store)) {
    const request = indexedDB.open(`${name} ${folder}`, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(store);
    const now = await done(request);
    const old = () => before.transaction(store).objectStore(store);
    const there = await done(now.transaction(store).objectStore(store).getAllKeys());
    for (const key of await done(old().getAllKeys())) {
      const kept = await done(old().get(key));
      if (!there.includes(key)) await changed(now, store, (store) => store.put(kept, key));
      await changed(before, store, (store) => store.delete(key));
    }
    now.close();
  }
  before.close();
  await done(indexedDB.deleteDatabase(name));
}

for (const [name, store] of [["nearfar", "runs"], ["nearfar files", "last"]]) await move(name, store).catch(() => {});
dispatchEvent(new Event("nearfar-kept"));
