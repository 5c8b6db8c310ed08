//! The shelf: texts and files that the browser keeps for this page (`IndexedDB`), by number. Knows nothing of runs.

use std::cell::RefCell;

use js_sys::{Array, Object, Promise, Reflect};
use leptos::prelude::window;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, future_to_promise, spawn_local};
use web_sys::{File, IdbDatabase, IdbObjectStore, IdbRequest, IdbTransactionMode};

const DATABASE: &str = "nearfar";
const STORE: &str = "runs";

thread_local! {
    static OPENED: RefCell<Option<Promise>> = const { RefCell::new(None) };
}

/// What is kept under a number.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) text: String,
    pub(crate) file: Option<File>,
}

/// Everything that is kept.
///
/// # Errors
/// Where the browser gives the page no storage.
pub(crate) async fn all() -> Result<Vec<Kept>, JsValue> {
    let request = store(IdbTransactionMode::Readonly).await?.get_all()?;
    let found: Array = done(&request).await?.unchecked_into();
    let kept = found.iter().filter_map(|object| {
        let get = |key: &str| Reflect::get(&object, &key.into()).ok();
        Some(Kept {
            text: get("text")?.as_string()?,
            file: get("file").and_then(|file| file.dyn_into().ok()),
        })
    });
    Ok(kept.collect())
}

/// Keeps something under a number, in place of what was there.
///
/// # Errors
/// As [`all`], and where there is no room.
pub(crate) async fn put(number: f64, kept: &Kept) -> Result<(), JsValue> {
    let object = Object::new();
    Reflect::set(&object, &"text".into(), &kept.text.as_str().into())?;
    if let Some(file) = &kept.file {
        Reflect::set(&object, &"file".into(), file)?;
    }
    let store = store(IdbTransactionMode::Readwrite).await?;
    store.put_with_key(&object, &number.into())?;
    finished(&store).await
}

/// Forgets what is kept under a number.
///
/// # Errors
/// As [`all`].
pub(crate) async fn remove(number: f64) -> Result<(), JsValue> {
    let store = store(IdbTransactionMode::Readwrite).await?;
    store.delete(&number.into())?;
    finished(&store).await
}

/// Opens the database before it is asked for: what is kept then is sent to it within the same turn, and a page that is left right
/// after has kept it.
pub(crate) fn open_early() {
    spawn_local(async { drop(JsFuture::from(opened()).await) });
}

/// The store, for one transaction.
async fn store(mode: IdbTransactionMode) -> Result<IdbObjectStore, JsValue> {
    let mut tries = 0;
    loop {
        let database: Result<IdbDatabase, _> =
            JsFuture::from(opened()).await.map(JsCast::unchecked_into);
        let begun = database.and_then(|it| it.transaction_with_str_and_mode(STORE, mode));
        match begun {
            Ok(transaction) => return transaction.object_store(STORE),
            Err(error) if tries > 0 => return Err(error),
            // The browser may have closed it.
            Err(_) => OPENED.set(None),
        }
        tries += 1;
    }
}

/// The database, opened once for all who ask: they get it in their order.
fn opened() -> Promise {
    OPENED.with_borrow_mut(|opened| {
        let open = async || open().await.map(JsValue::from);
        opened
            .get_or_insert_with(|| future_to_promise(open()))
            .clone()
    })
}

async fn open() -> Result<IdbDatabase, JsValue> {
    let factory = window().indexed_db()?.ok_or(JsValue::NULL)?;
    let request = factory.open_with_u32(DATABASE, 1)?;
    let asked = request.clone();
    // The first time there is nothing.
    let make = Closure::once_into_js(move || {
        let database: Result<IdbDatabase, _> = asked.result().map(JsCast::unchecked_into);
        database
            .and_then(|database| database.create_object_store(STORE))
            .ok();
    });
    request.set_onupgradeneeded(Some(make.unchecked_ref()));
    let database: IdbDatabase = done(&request).await?.unchecked_into();
    // A newer page in another tab waits for this.
    let closed = database.clone();
    let close = Closure::once_into_js(move || {
        closed.close();
        OPENED.set(None);
    });
    database.set_onversionchange(Some(close.unchecked_ref()));
    Ok(database)
}

/// Waits for an answer.
async fn done(request: &IdbRequest) -> Result<JsValue, JsValue> {
    let answered = Promise::new(&mut |resolve, reject| {
        request.set_onsuccess(Some(&resolve));
        request.set_onerror(Some(&reject));
    });
    JsFuture::from(answered).await?;
    request.result()
}

#[expect(
    deprecated,
    reason = "by web-sys alone: browsers and their standard keep it"
)]
/// Ends the transaction, and waits until what was changed is on the disk.
async fn finished(store: &IdbObjectStore) -> Result<(), JsValue> {
    let transaction = store.transaction();
    transaction.commit()?;
    let over = Promise::new(&mut |resolve, reject| {
        transaction.set_oncomplete(Some(&resolve));
        transaction.set_onabort(Some(&reject));
    });
    JsFuture::from(over).await.map(drop)
}
