//! Sizes that a text tells: of the batch, the memory, the embeddings, the classes, the rows that are scored.

use std::collections::BTreeSet;

use super::calls::{Call, Code, Value};
use super::frames::{Frame, frames};
use super::message::Message;
use super::tokens::{Token, tokens};

/// A size that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Batch,
    Memory,
    Dim,
    Classes,
    PerClass,
    Rows,
    Queries,
    References,
    Cards,
}

/// Names that stand before a number, in lower case and without `_`, `-` and spaces.
const BEFORE: [(Size, &str); 9] = [
    (
        Size::Batch,
        "batchsize bs batch batchof trainbatchsize perdevicetrainbatchsize pergpubatchsize \
         pergputrainbatchsize perdevicebatchsize localbatchsize globalbatchsize imsperbatch samplespergpu b",
    ),
    (
        Size::Memory,
        "memorysize queuesize queuelen queuelength banksize xbmsize memsize memoryqueuesize memory memorybank \
         memorybanksize queue memoryof queueof bankof crossbatchmemory",
    ),
    (
        Size::Dim,
        "embeddingsize embeddingdim embeddingdimension embdim embsize embedsize embeddim featdim featuredim \
         featuresize dim dims d outdim outembeddingsize dimension dimensions dimensionality vectorsize",
    ),
    (
        Size::Classes,
        "numclasses nclasses classes numclass nclass classnum customnumclass ncls numlabels nlabels c numids \
         nids identities numidentities cnum numberofclasses",
    ),
    (
        Size::PerClass,
        "mperclass samplesperclass imagesperclass perclass numinstances numinstance imagesperid \
         imagesperperson nperclass m",
    ),
    (
        Size::Rows,
        "numsamples nsamples numimages nimages ntotal n datasetsize numrows nrows rows numembeddings numtest \
         numval testsize valsize images vectors",
    ),
    (
        Size::Queries,
        "nq numquery numqueries nquery nqueries queries query",
    ),
    (
        Size::References,
        "nb numgallery ngallery gallery corpus corpussize references database nref numreferences",
    ),
    (
        Size::Cards,
        "worldsize nprocpernode numgpus ngpus ngpu numdevices",
    ),
];

/// Nouns that stand after a number.
const AFTER: [(Size, &str); 8] = [
    (
        Size::Rows,
        "images rows samples datapoints points vectors embeddings sentences documents items records passages \
         features data pairs captions products pixels cells",
    ),
    (Size::Queries, "queries query"),
    (
        Size::References,
        "gallery references reference corpus database",
    ),
    (
        Size::Classes,
        "classes class identities ids labels categories people persons speakers",
    ),
    (Size::Dim, "dim dims dimensional dimensions d"),
    (
        Size::Cards,
        "gpus cards ranks processes a100 a100s v100 v100s h100 h100s",
    ),
    (Size::Memory, "negatives memory entries slots"),
    (
        Size::PerClass,
        "perclass imagesperclass samplesperclass perid",
    ),
];

/// Calls whose arguments are no size of the training.
const APART: [&str; 9] = [
    "CustomKNN",
    "BatchedDistance",
    "GlobalEmbeddingSpaceTester",
    "WithSameParentLabelTester",
    "BaseTester",
    "UMAP",
    "Conv2d",
    "Resize",
    "Adam",
];

/// Words before a name that make it another size's.
const OTHERS: [&str; 10] = [
    "mini",
    "eval",
    "test",
    "val",
    "validation",
    "max",
    "min",
    "image",
    "input",
    "evaluation",
];

/// Words that stand for `=`.
const MARKS: [&str; 7] = ["is", "of", "was", "to", "about", "around", "size"];

/// Names that are words of their own, and need a mark before their number.
const NEED_MARKS: [&str; 9] = [
    "images", "vectors", "queries", "query", "gallery", "corpus", "memory", "batch", "rows",
];

/// Words before `batch` after which its number counts batches.
const COUNTS: [&str; 8] = ["at", "in", "after", "until", "of", "epoch", "on", "to"];

/// Units of bytes.
const UNITS: [&str; 7] = ["gb", "gib", "mb", "mib", "kb", "g", "bytes"];

/// Sizes and words of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    sizes: Vec<(Size, u64)>,
    /// Shapes in brackets, of two to four dimensions.
    pub(super) shapes: Vec<Vec<u64>>,
    /// Names and words, in lower case.
    pub(super) words: BTreeSet<String>,
    pub(super) code: Code,
    pub(super) frames: Vec<Frame>,
    pub(super) message: Message,
    /// The whole text in lower case.
    pub(super) lower: String,
}

impl Facts {
    pub(super) fn read(text: &str) -> Self {
        let tokens = tokens(text);
        let code = Code::read(&tokens);
        let words = tokens.iter().filter_map(Token::word).map(str::to_lowercase);
        let mut facts = Self {
            words: words.collect(),
            frames: frames(text),
            message: Message::read(text),
            lower: text.to_lowercase(),
            ..Self::default()
        };
        let apart = |call: &&Call| APART.contains(&call.name.as_str());
        let apart: Vec<(usize, usize)> = code
            .calls
            .iter()
            .filter(apart)
            .map(|call| call.span)
            .collect();
        let is_apart = |at: usize| {
            apart
                .iter()
                .any(|(start, end)| (*start..=*end).contains(&at))
        };
        for at in (0..tokens.len()).filter(|at| !is_apart(*at)) {
            facts.sizes.extend(named_before(&tokens, at));
            facts.sizes.extend(named_after(&tokens, at));
            facts.shapes.extend(shape(&tokens[at..]));
        }
        // Names that stand for a product, a power or another name.
        for (name, value, _) in code.names.iter().filter(|(_, _, at)| !is_apart(*at)) {
            if let Some(number) = whole(value.number())
                && let Some(size) = size_of(&name.to_lowercase().replace('_', ""), &BEFORE)
            {
                facts.sizes.push((size, number));
            }
        }
        facts.code = code;
        facts.read_calls();
        facts
    }

    /// Sizes that stand in calls by place.
    fn read_calls(&mut self) {
        let number = |call: &Call, name: &str, place: usize| whole(call.number(name, place));
        let mut found = Vec::new();
        for call in &self.code.calls {
            let name = call.name.as_str();
            match name {
                "CrossBatchMemory" | "XBM" => {
                    found.push((Size::Dim, number(call, "embedding_size", 1)));
                    found.push((Size::Memory, number(call, "memory_size", 2)));
                }
                "MPerClassSampler" => {
                    found.push((Size::PerClass, number(call, "m", 1)));
                    found.push((Size::Batch, number(call, "batch_size", 2)));
                }
                "DataLoader" => found.push((Size::Batch, number(call, "batch_size", 1))),
                "randint" => {
                    let bound =
                        number(call, "high", 1).filter(|_| call.number("low", 0) == Some(0.0));
                    found.push((Size::Classes, bound));
                }
                _ if is_head(name) => {
                    found.push((Size::Classes, number(call, "num_classes", 0)));
                    found.push((Size::Dim, number(call, "embedding_size", 1)));
                }
                _ if name.starts_with("IndexFlat") || name.starts_with("GpuIndexFlat") => {
                    found.push((
                        Size::Dim,
                        call.numbers().first().copied().and_then(|d| whole(Some(d))),
                    ));
                }
                _ => {}
            }
            if ["randn", "rand", "zeros", "ones", "empty", "Size", "random"].contains(&name) {
                let shape: Vec<u64> = call
                    .numbers()
                    .into_iter()
                    .filter_map(|n| whole(Some(n)))
                    .collect();
                if (2..=4).contains(&shape.len()) {
                    self.shapes.push(shape);
                }
            }
        }
        let known = found
            .into_iter()
            .filter_map(|(size, number)| Some((size, number?)));
        self.sizes.extend(known);
        // `dim=1` is an axis.
        self.sizes
            .retain(|(size, number)| *size != Size::Dim || *number >= 4);
    }

    /// The largest number that the text gives a size.
    pub(super) fn size(&self, size: Size) -> Option<u64> {
        let all = self.sizes.iter().filter(|(known, _)| *known == size);
        all.map(|(_, number)| *number).max()
    }

    /// The shape that a message names: `an array with shape (a, b)`, `tensor with shape[a,b,c]`.
    pub(super) fn refused_shape(&self) -> Option<Vec<u64>> {
        let at = self.lower.rfind("with shape")?;
        let text: String = self.lower[at + 10..].chars().take(60).collect();
        shape(&tokens(&text))
    }

    /// Tells if one of these words is in the text.
    pub(super) fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.words.contains(*word))
    }

    /// Tells if one of these phrases is in the text.
    pub(super) fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.lower.contains(phrase))
    }

    /// The argument of the last call of this name.
    pub(super) fn argument(&self, call: &str, name: &str, place: usize) -> Option<&Value> {
        self.code.call(call)?.argument(name, place)
    }
}

/// Tells if a class has a matrix of learned rows, `(num_classes, embedding_size)`.
pub(super) fn is_head(name: &str) -> bool {
    [
        "ArcFaceLoss",
        "CosFaceLoss",
        "SubCenterArcFaceLoss",
        "LargeMarginSoftmaxLoss",
        "SphereFaceLoss",
        "NormalizedSoftmaxLoss",
        "ProxyAnchorLoss",
        "ProxyNCALoss",
        "SoftTripleLoss",
        "P2SGradLoss",
        "DynamicSoftMarginLoss",
        "InstanceLoss",
    ]
    .contains(&name)
}

/// A whole number above 0.
pub(super) fn whole(number: Option<f64>) -> Option<u64> {
    let number = number?;
    (number.fract() == 0.0 && (1.0..1e15).contains(&number)).then_some(number as u64)
}

fn size_of(name: &str, table: &[(Size, &str)]) -> Option<Size> {
    let row = table
        .iter()
        .find(|(_, names)| names.split(' ').any(|known| known == name));
    row.map(|(size, _)| *size)
}

/// A name of one to four words from `at` on, and the place after it.
fn names(tokens: &[Token], at: usize) -> Vec<(String, usize)> {
    let (mut name, mut found, mut at) = (String::new(), Vec::new(), at);
    for _ in 0..4 {
        let Some(word) = tokens.get(at).and_then(Token::word) else {
            break;
        };
        name.push_str(&word.to_lowercase().replace('_', ""));
        at += 1;
        found.push((name.clone(), at));
        if tokens.get(at).is_some_and(|token| token.is('-')) {
            at += 1;
        }
    }
    found.reverse();
    found
}

/// `batch_size = 512`, `batch size: 32/64`, `--batch-size 256`, `the batch size is 600`.
fn named_before(tokens: &[Token], at: usize) -> Option<(Size, u64)> {
    if is_inside_a_name(tokens, at) {
        return None;
    }
    let before = at.checked_sub(1).and_then(|before| tokens[before].word());
    let counts = before.is_some_and(|word| COUNTS.contains(&word.to_lowercase().as_str()));
    for (name, next) in names(tokens, at) {
        let Some(size) = size_of(&name, &BEFORE) else {
            continue;
        };
        let (marked, next) = mark(tokens, next, name.len() == 1);
        // A bare letter or word needs a mark: `d = 128`, not `step b 3`; a flag and a size with its own name need none.
        let needs = name.len() == 1 || NEED_MARKS.contains(&name.as_str());
        if needs && !marked && (name != "batch" || counts) {
            continue;
        }
        let mut number = whole(tokens.get(next).and_then(Token::number))?;
        if tokens.get(next + 1).is_some_and(|token| token.is('/'))
            && let Some(other) = whole(tokens.get(next + 2).and_then(Token::number))
        {
            number = number.max(other);
        }
        // `memory: 16 GiB` is no count of rows.
        let unit = tokens.get(next + 1).and_then(Token::word);
        let unit = unit.unwrap_or_default().to_lowercase();
        let is_of_bytes = UNITS.contains(&unit.as_str());
        return (!is_of_bytes).then_some((size, number));
    }
    None
}

/// Tells if a longer name goes on here, `eval_batch_size` or `mini-batch size`, which is another size.
fn is_inside_a_name(tokens: &[Token], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| tokens.get(before)) else {
        return false;
    };
    let word = before.word().map(str::to_lowercase);
    word.is_some_and(|word| OTHERS.contains(&word.as_str()))
        || before.is('-') && at >= 2 && tokens[at - 2].word().is_some()
}

/// Skips what stands between a name and its number; tells if that marks a size, and gives the place after it.
fn mark(tokens: &[Token], mut at: usize, is_letter: bool) -> (bool, usize) {
    let mut marked = false;
    for _ in 0..3 {
        match tokens.get(at) {
            Some(Token::Mark('=' | ':')) => marked = true,
            Some(Token::Mark('`' | '*' | '~' | '(')) if !is_letter => {}
            Some(Token::Word(word)) if !is_letter && MARKS.contains(&word.as_str()) => {
                marked = true;
            }
            _ => break,
        }
        at += 1;
    }
    (marked, at)
}

/// `120K images`, `10 classes`, `8 GPUs`, `512-dim`, `3 million vectors`.
fn named_after(tokens: &[Token], at: usize) -> Option<(Size, u64)> {
    let mut number = whole(tokens.get(at)?.number())?;
    let mut next = at + 1;
    if tokens
        .get(next)
        .is_some_and(|token| token.is('-') || token.is('+'))
    {
        next += 1;
    }
    if let Some(word) = tokens.get(next).and_then(Token::word) {
        let scale = match word.to_lowercase().as_str() {
            "million" | "m" => 1_000_000,
            "thousand" | "k" => 1_000,
            _ => 1,
        };
        if scale > 1 {
            number = number.checked_mul(scale)?;
            next += 1;
        }
    }
    // An adjective or two may stand between: `59551 training images`.
    for skipped in 0..3 {
        for (name, end) in names(tokens, next + skipped) {
            if let Some(size) = size_of(&name, &AFTER)
                && !tokens.get(end).is_some_and(|token| token.is('='))
            {
                let is_rows = matches!(
                    size,
                    Size::Rows | Size::Queries | Size::References | Size::Memory
                );
                return (!is_rows || number >= 50).then_some((size, number));
            }
        }
        let word = tokens.get(next + skipped).and_then(Token::word)?;
        if [
            "and", "or", "but", "the", "is", "with", "per", "of", "on", "in", "x", "by", "to",
            "for",
        ]
        .contains(&word)
        {
            return None;
        }
    }
    None
}

/// `[64, 65536]`, `(31257735, 128)`, `780k x 780k`.
fn shape(tokens: &[Token]) -> Option<Vec<u64>> {
    let number = |at: usize| whole(tokens.get(at).and_then(Token::number));
    if let (Some(a), Some("x" | "X" | "by"), Some(b)) =
        (number(0), tokens.get(1).and_then(Token::word), number(2))
    {
        return Some(vec![a, b]);
    }
    if !(tokens.first()?.is('(') || tokens.first()?.is('[')) {
        return None;
    }
    let (mut shape, mut at) = (Vec::new(), 1);
    loop {
        shape.push(number(at)?);
        match tokens.get(at + 1)? {
            Token::Mark(',') => at += 2,
            Token::Mark(')' | ']') => break,
            _ => return None,
        }
        // `(1200,)`
        if tokens.get(at)?.is(')') {
            break;
        }
    }
    (2..=4).contains(&shape.len()).then_some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_in_code_and_in_prose() {
        let size = |text: &str, size| Facts::read(text).size(size);
        for (text, of, expected) in [
            ("batch_size = 512", Size::Batch, 512),
            (
                "The batchsize is 600 and images per class is 200.",
                Size::Batch,
                600,
            ),
            (
                "The batchsize is 600 and images per class is 200.",
                Size::PerClass,
                200,
            ),
            (
                "python train.py --batch-size 256 --embedding-dim 64",
                Size::Batch,
                256,
            ),
            (
                "python train.py --batch-size 256 --embedding-dim 64",
                Size::Dim,
                64,
            ),
            (
                "batch size: 32/64; loss=NTXent; memory (1024/2048)",
                Size::Batch,
                64,
            ),
            ("a dataset of ~120K datapoints", Size::Rows, 120_000),
            (
                "59,551 training images of 11316 classes on 8 GPUs",
                Size::Rows,
                59_551,
            ),
            (
                "59,551 training images of 11316 classes on 8 GPUs",
                Size::Classes,
                11_316,
            ),
            (
                "59,551 training images of 11316 classes on 8 GPUs",
                Size::Cards,
                8,
            ),
            ("3 million vectors, 512-dim", Size::Rows, 3_000_000),
            ("3 million vectors, 512-dim", Size::Dim, 512),
            (
                "CrossBatchMemory(loss, 128, memory_size=2 ** 16)",
                Size::Memory,
                65_536,
            ),
            ("ArcFaceLoss(10000, 512)", Size::Classes, 10_000),
            ("labels = torch.randint(0, 10, (1200,))", Size::Classes, 10),
        ] {
            assert_eq!(size(text, of), Some(expected), "{text}");
        }
        assert_eq!(size("eval_batch_size=2048", Size::Batch), None);
        assert_eq!(size("CustomKNN(d, batch_size=32)", Size::Batch), None);
        assert_eq!(size("GPU memory: 16 GiB", Size::Memory), None);
        let shapes = Facts::read("torch.Size([1200, 192]) and 780k x 780k").shapes;
        assert_eq!(shapes[..2], [vec![1200, 192], vec![780_000, 780_000]]);
    }
}
