//! The terms of the field, each explained once; [`Term`] shows one with its meaning where it stands, and [`Explained`] any
//! other word with a sentence.

use std::sync::atomic::{AtomicU32, Ordering};

use leptos::html::Button;
use leptos::prelude::*;

use crate::words::grouped;

/// Largest width of a meaning, and the room that it needs below its term, in CSS pixels.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 150.0;

/// A term and what it means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Meaning {
    name: &'static str,
    text: &'static str,
}

const fn term(name: &'static str, text: &'static str) -> Meaning {
    Meaning { name, text }
}

pub(crate) const FEATURES: Meaning = term("features", "The numbers that describe a row.");
pub(crate) const CLASSES: Meaning = term(
    "classes",
    "What the label column says. Rows of one class belong together.",
);
pub(crate) const VALIDATION: Meaning = term(
    "validation",
    "Rows that are never trained on. They are scored again and again while training goes on.",
);
pub(crate) const TEST: Meaning = term(
    "test",
    "Rows that are kept until the end and scored once: how well the head does on what it never saw.",
);
pub(crate) const STEP: Meaning = term(
    "step",
    "One batch of rows, after which the weights move a little. An epoch is once through all training rows.",
);
pub(crate) const EMBEDDINGS: Meaning = term(
    "Embeddings",
    "What the network makes of each row: a point on a sphere, near to those of rows that it takes for the same class.",
);
pub(crate) const PRINCIPAL_COMPONENTS: Meaning = term(
    "principal components",
    "Many dimensions shown as two: the two directions in which the points spread most.",
);
pub(crate) const UMAP: Meaning = term(
    "UMAP",
    "A picture in which rows that are near each other in all dimensions lie near each other. Look at who is near whom: how far groups \
     lie apart, and how large they are, says nothing.",
);
pub(crate) const SIMILARITIES: Meaning = term(
    "Cosine similarities",
    "How nearly two embeddings point the same way: 1 is the same direction, 0 a right angle, -1 the opposite.",
);
pub(crate) const SIMILARITY: Meaning = term("similarity", SIMILARITIES.text);
pub(crate) const ANCHOR: Meaning = term(
    "anchor",
    "The row that others are compared with. Each row of a batch is an anchor once.",
);
pub(crate) const POSITIVE: Meaning = term("positive", "A row of the anchor's class.");
pub(crate) const NEGATIVE: Meaning = term("negative", "A row of another class than the anchor's.");
pub(crate) const POSITIVES: Meaning = term(
    "positives",
    "Pairs of an anchor (a row of the batch) with a row of its own class.",
);
pub(crate) const NEGATIVES: Meaning = term(
    "negatives",
    "Pairs of an anchor (a row of the batch) with a row of another class.",
);
pub(crate) const SEMIHARD: Meaning = term(
    "semi-hard",
    "Rows of a wrong class almost as close as the right one: farther than the positive, but by less than the margin. \
     The band is drawn for a positive of middle similarity.",
);
pub(crate) const TRIPLETS: Meaning = term(
    "Triplets",
    "Three rows: an anchor, a positive (a row of its class) and a negative (a row of another). Training pulls the first \
     two together and pushes the third away.",
);
pub(crate) const PAIRS: Meaning = term(
    "Pairs",
    "Two rows: an anchor, and a positive (a row of its class) or a negative (a row of another). Training pulls positives \
     nearer and pushes negatives away.",
);
pub(crate) const VALID: Meaning = term(
    "valid",
    "All triplets that the rows of batch and memory can form; all pairs, where the loss looks at pairs. Few classes make many: with \
     1,024 memory rows an anchor of ten classes has 94,000, one of 450 has 2,100.",
);
pub(crate) const MINED: Meaning = term(
    "mined",
    "What the miner keeps for the loss. A pair that stands in several mined triplets counts once for each.",
);
pub(crate) const ACTIVE: Meaning = term(
    "active",
    "Mined triplets, or pairs, whose loss is above zero. Only these move the weights.",
);
pub(crate) const LOSS: Meaning = term(
    "Loss",
    "The number that training makes small. Of the triplet margin loss: by how much active triplets fall short of the margin, \
     on average.",
);
pub(crate) const GRADIENT_NORM: Meaning = term(
    "gradient",
    "Length of the gradient of all weights at the last score: how far the loss wants to move the head. Near 0 nothing is \
     learned any more; many times what it was, and the learning rate is too high.",
);
pub(crate) const MEAN_SIMILARITY: Meaning = term(
    "mean similarity",
    "Mean cosine similarity of two of 256 training rows, whatever their classes. Near 0 the embeddings fill the sphere; at 1 \
     they have all collapsed to one point.",
);
pub(crate) const EFFECTIVE_RANK: Meaning = term(
    "directions",
    "Effective rank: in how many directions the embeddings of 256 training rows spread. Far fewer than the dimensions: \
     the head uses only part of them.",
);
pub(crate) const MEMORY_AGE: Meaning = term(
    "Memory rows",
    "Cross-batch memory: the last rows that were embedded are kept, and each batch is compared with them too. Their age \
     matters, as the head has moved on since.",
);
pub(crate) const DEVICE_MEMORY: Meaning = term(
    "Device memory",
    "Memory of the GPU, or of the CPU where that does the work. A run never holds more than its budget.",
);
pub(crate) const STEP_MEMORY: Meaning = term(
    "a step's mining",
    "The part of the memory that the triplets or pairs of one step take here. The rest in use is the data, the network, the memory bank and what validation takes.",
);
pub(crate) const PML: Meaning = term(
    "the same in PML (estimate)",
    "What the triplets or pairs of the same step would take in PyTorch Metric Learning, a Python library, which holds them all at once.",
);
pub(crate) const BOUNDARY: Meaning = term(
    "boundary",
    "Positives should be nearer than this, negatives farther. It is learned with the head.",
);
pub(crate) const PRECISION_AT_1: Meaning = term(
    "precision@1",
    "How often the closest other row has the same class. 1 is always, 0 never.",
);
pub(crate) const R_PRECISION: Meaning = term(
    "R-precision",
    "Where a class has R other rows: the part of the R closest rows that are of it.",
);
pub(crate) const MAP_AT_R: Meaning = term(
    "MAP@R",
    "How well whole classes are grouped: which of the R closest rows are of the same class, and how early they come; R is \
     how many other rows the class has. 1 is perfect.",
);
pub(crate) const COMPARED_MAP_AT_R: Meaning = term(
    "MAP@R",
    "How well whole classes are grouped. Where validation rows are few, and in folds, they look for their nearest rows among training \
     rows too: it may come out higher than on the test rows, most for a head that learns its rows by heart. 1 is perfect.",
);
pub(crate) const MAP: Meaning = term(
    "MAP",
    "Mean average precision: how early all rows of the same class come, among all rows. 1 is perfect.",
);
pub(crate) const MRR: Meaning = term(
    "MRR",
    "Mean reciprocal rank: 1 where the closest row is right, 1/2 where the second is the first right one, 1/3 where the \
     third is, on average.",
);
pub(crate) const RECALL: Meaning = term(
    "recall@2",
    "How often at least one of the 2 closest rows has the same class; recall@4 of the 4 closest, and so on.",
);
pub(crate) const STANDARD_ERROR: Meaning = term(
    "standard error",
    "How far chance alone moves the number: with other rows of the same kind it would mostly stay within two standard \
     errors.",
);
pub(crate) const FALSE_MATCH: Meaning = term(
    "false match rate",
    "Of the pairs of different classes, the part whose similarity is at or above the threshold: they are taken for the same. \
     FMR, as ISO/IEC 19795-1 has it.",
);
pub(crate) const FALSE_NON_MATCH: Meaning = term(
    "false non-match rate",
    "Of the pairs of the same class, the part whose similarity is below the threshold: they are missed. FNMR, as ISO/IEC \
     19795-1 has it.",
);
pub(crate) const EQUAL_ERROR: Meaning = term(
    "equal error rate",
    "Both rates, at the similarity where they are equal: one number for how well pairs are told apart. Lower is better.",
);
pub(crate) const F1: Meaning = term(
    "F1",
    "The pairs at or above the threshold are taken for the same class. Precision is the part of them that is; recall, the part of all \
     pairs of the same class that is among them; F1, the harmonic mean of both. It goes by how many pairs of either kind there are.",
);
pub(crate) const LONE: Meaning = term(
    "lone queries",
    "Rows that are the only one of their class here: there is nothing for them to find, so they are left out.",
);
pub(crate) const FILES: Meaning = term(
    "CSV, Parquet, NPY, AnnData ..",
    "CSV, JSON Lines, Parquet, NPY, NPZ, safetensors, HDF5 and AnnData (.h5ad), also packed with gzip. A run that you took home opens \
     here, too (ZIP).",
);
pub(crate) const RAW: Meaning = term(
    "raw features",
    "The score of your rows before any network, with the scaling that the network gets them in: what you have without training.",
);
pub(crate) const LDA: Meaning = term(
    "linear map (LDA)",
    "Linear discriminant analysis, fitted to the training rows at once, without steps; no wider than the head. Where that \
     finds more, one output is a constant, so that rows are compared by distance. A head is worth its effort where it beats this.",
);

/// [`LDA`] under a shorter name.
pub(crate) const LINEAR_MAP: Meaning = term("linear map", LDA.text);

pub(crate) const SECONDS: Meaning = term("seconds", "How long the run took: training and scoring.");
pub(crate) const SPREAD: Meaning = term(
    "spread",
    "Standard deviation over the seeds: how far a run moves with other first weights and other batches.",
);
pub(crate) const INTERVAL: Meaning = term(
    "where it may lie",
    "The dot is the score. The bar is where it lies with other validation rows and other seeds, beside the best, which is the \
     line across. A bar that ends before the line: clearly worse.",
);
pub(crate) const BEHIND: Meaning = term(
    "behind the best",
    "The best's precision@1 less this one's, and from where to where that may go with other validation rows and other seeds: \
     in 95 of 100 comparisons all these intervals are right at once.",
);

/// Meaning of [`VALIDATION`] where its rows are ranked among so many training rows too.
pub(crate) fn validation(among: usize) -> String {
    let among = among_training(among);
    let among = among.map_or_else(String::new, |it| {
        format!(" Here {it}; MAP@R may come out higher than on the test rows, since the head has already drawn those together.")
    });
    VALIDATION.text.to_owned() + &among
}

/// What else few validation rows are compared with, in a clause; `None` if they are compared with each other alone.
pub(crate) fn among_training(rows: usize) -> Option<String> {
    (rows > 0).then(|| {
        let rows = grouped(rows as u64);
        format!("they are few, so each looks for its nearest rows among {rows} training rows too")
    })
}

/// The explanation that is open: one at a time on the whole page.
#[derive(Clone, Copy)]
struct Open(RwSignal<Option<u32>>);

/// Lets explanations open, and closes them by a press anywhere else. The returned function closes the open one, as Escape does, and
/// tells if there was one.
pub(crate) fn provide() -> impl Fn() -> bool + Copy {
    let open = RwSignal::new(None);
    provide_context(Open(open));
    window_event_listener(leptos::ev::pointerdown, move |event| {
        let target = event
            .target()
            .and_then(|target| wasm_bindgen::JsCast::dyn_into::<web_sys::Element>(target).ok());
        let within = target
            .as_ref()
            .and_then(|target| target.closest(".explained").ok().flatten());
        if within.is_none() {
            open.set(None);
        }
        let within = target.and_then(|target| target.closest(".why").ok().flatten());
        if within.is_none() {
            close_why();
        }
    });
    move || open.try_update(Option::take).flatten().is_some() || close_why()
}

/// Closes *Why* of the verdict, which lies over what is below it; tells if it was open.
fn close_why() -> bool {
    let why = document().query_selector(".why[open]").ok().flatten();
    why.is_some_and(|why| why.remove_attribute("open").is_ok())
}

/// A term of the field, with its meaning.
#[component]
pub(crate) fn Term(
    term: Meaning,
    /// Words in place of the term itself.
    #[prop(optional)]
    name: &'static str,
) -> impl IntoView {
    let name = if name.is_empty() { term.name } else { name };
    view! { <Explained name text=term.text/> }
}

/// A question mark beside a control, and what the control is for.
#[component]
pub(crate) fn About(of: &'static str, text: &'static str) -> impl IntoView {
    view! { <span class="about"><Explained name="?" label=format!("What is {of}?") text/></span> }
}

/// Words, and a sentence about them by hover, focus or tap; Escape closes it.
#[component]
pub(crate) fn Explained(
    #[prop(into)] name: Signal<String>,
    #[prop(into)] text: Signal<String>,
    /// Accessible name, if `name` is no word.
    #[prop(optional)]
    label: String,
    /// The `data-testid` of the button.
    #[prop(optional)]
    testid: &'static str,
) -> impl IntoView {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = NEXT.fetch_add(1, Ordering::Relaxed);
    let Open(open) = expect_context();
    let place = RwSignal::new(Place::default());
    let button = NodeRef::<Button>::new();
    let show = move || {
        if let Some(button) = button.get_untracked() {
            place.set(beside(&button));
            open.set(Some(own));
        }
    };
    let hide = move || {
        if open.get_untracked() == Some(own) {
            open.set(None);
        }
    };
    let is_open = move || open.get() == Some(own);
    let meaning = move || {
        let side = |at: usize| move || place.with(|place| place[at].clone());
        is_open().then(|| {
            view! {
                <span class="meaning" role="tooltip" style=("left", side(0)) style=("top", side(1)) style=("bottom", side(2))>{text}</span>
            }
        })
    };
    view! {
        <span class="explained" on:mouseenter=move |_| show() on:mouseleave=move |_| hide()>
            <button
                type="button" node_ref=button aria-label=(!label.is_empty()).then_some(label) aria-description=text aria-expanded=move || is_open().to_string()
                data-testid=(!testid.is_empty()).then_some(testid)
                on:focus=move |_| show() on:blur=move |_| hide() on:click=move |_| show()
            >{name}</button>
            {meaning}
        </span>
    }
}

/// Left, top and bottom of a meaning on the screen.
type Place = [String; 3];

/// Position of a meaning: below its term, above it if there is no room, and always on the screen.
fn beside(button: &web_sys::HtmlElement) -> Place {
    let size = |value: Result<wasm_bindgen::JsValue, _>| {
        value.ok().and_then(|value| value.as_f64()).unwrap_or(0.0)
    };
    let (width, height) = (size(window().inner_width()), size(window().inner_height()));
    let rect = button.get_bounding_client_rect();
    let left = rect.left().min(width - WIDTH - 8.0).max(8.0);
    let (top, bottom) = if rect.bottom() + HEIGHT < height {
        (format!("{}px", rect.bottom()), "auto".to_owned())
    } else {
        ("auto".to_owned(), format!("{}px", height - rect.top()))
    };
    [format!("{left}px"), top, bottom]
}
