// The shelf: what the browser keeps for this page (IndexedDB), by number. The core puts runs on it; nothing here knows of those.
const STORE = "runs";
// Other folders of the same host have their own.
const DATABASE = `nearfar ${new URL("./", document.baseURI).pathname}`;

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const open = async () => {
  const request = indexedDB.open(DATABASE, 1);
  // The first time there is nothing.
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  const database = await done(request);
  // A newer page in another tab waits for this.
  database.onversionchange = () => database.close();
  return database;
};

// It is open before it is asked for: what is kept then is sent to it within the same turn, and a page that is left right after
// has kept it.
let opened = open();
opened.catch(() => {});

const begin = async (mode) => {
  try {
    return (await opened).transaction(STORE, mode);
  } catch {
    // It was closed.
    opened = open();
    return (await opened).transaction(STORE, mode);
  }
};

/** Changes what is kept, until that is on the disk: all of it, or where there is no room nothing. */
const change = async (how) => {
  const transaction = await begin("readwrite");
  how(transaction.objectStore(STORE));
  transaction.commit();
  await new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    // Firefox says of a full storage that it ended the transaction; nothing else does that here.
    const why = () => (transaction.error?.name === "AbortError" ? new DOMException("", "QuotaExceededError") : transaction.error);
    transaction.onabort = () => reject(why());
  });
};

self.shelf = {
  all: async () => done((await begin("readonly")).objectStore(STORE).getAll()),
  put: (number, kept) => change((store) => store.put(kept, number)),
  remove: (number) => change((store) => store.delete(number)),
};
