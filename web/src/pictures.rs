//! For who has only pictures: Nearfar trains on vectors, and lines of Python make a vector of each picture of a folder.

use leptos::prelude::*;

use crate::dialog::Dialog;
use crate::state::State;
use crate::take_home::copy;

/// The lines: a program by itself.
const LINES: &str = include_str!("../pictures.py");

/// The dialog that has the lines.
#[component]
pub(crate) fn Pictures(state: State) -> impl IntoView {
    let shown = state.brought.pictures;
    let open = Memo::new(move |_| shown.read().is_some());
    let said = RwSignal::new(String::new());
    let close = move || {
        said.set(String::new());
        shown.set(None);
    };
    view! {
        <Dialog label="From pictures to vectors" open close=Callback::new(move |()| close())>
            <Show when=move || open.get()>
                <h2>"From pictures to vectors"</h2>
                <p data-testid="pictures">
                    <b>{shown}</b> " Nearfar trains on vectors, not on pixels: a list of numbers for each picture, which a network that knows \
                     pictures already makes of it. These lines of Python do that, on your computer."
                </p>
                <p>
                    "Put the pictures into a folder "<code>"pictures"</code>", with a folder in it for each class. The lines write "
                    <code>"pictures.npy"</code>", a vector for each picture, and "<code>"pictures.csv"</code>", its file name and its label, which \
                     is the name of its folder. Choose both files here together."
                </p>
                <section class="code" aria-label="Lines of Python">
                    <pre data-testid="pictures-code" tabindex="0">{LINES}</pre>
                </section>
                <p class="muted">"Vectors of other models serve as well, as those of CLIP or DINOv2."</p>
                <div class="foot">
                    <button class="primary" data-testid="copy-pictures" on:click=move |_| copy(LINES.to_owned(), "Code", said)>"Copy"</button>
                    <p data-testid="pictures-copied" role="status">{said}</p>
                    <button data-testid="pictures-close" on:click=move |_| close()>"Close"</button>
                </div>
            </Show>
        </Dialog>
    }
}
