//! Message of a page that cannot go on. Errors before the core is up are reported by `index.html`.

use std::panic::PanicHookInfo;

use leptos::prelude::document;

/// Shows a panic on the page, and logs it to the console.
pub(crate) fn watch() {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        console_error_panic_hook::hook(info);
        let Some(failed) = document().get_element_by_id("failed") else {
            return;
        };
        let why = info.payload_as_str().unwrap_or("without a reason");
        let text = format!("The page stopped unexpectedly ({why}): reload it to go on.");
        failed.set_text_content(Some(&text));
        failed.remove_attribute("hidden").ok();
    }));
}
