//! [`Tensor`]: shape and bytes of each cause.

use super::calls::Value;
use super::cause::Cause;
use super::facts::{Facts, Size};
use super::number::{close, grouped, joined};
use super::setup::Setup;
use crate::rules::pml::{
    TripletPeaks, pml_bytes, pml_bytes_of_cell, pml_bytes_of_two_pairs, pml_head_peak,
    pml_joined_peak, pml_ranking_peak,
};

/// A tensor by its shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tensor {
    /// The tensor in words.
    pub(super) name: String,
    /// `512 x 65,536 x 65,536 x 1 byte`; empty if sizes are missing.
    pub(super) shape: String,
    pub(super) bytes: Option<u64>,
    /// Bytes of all that is there at the peak of the call that makes it.
    pub(super) peak: Option<u64>,
    pub(super) assumed: Vec<String>,
}

fn product(sizes: &[u64]) -> u64 {
    sizes
        .iter()
        .fold(1, |product, size| product.saturating_mul(*size))
}

impl Tensor {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// With a shape whose elements take `each` bytes.
    fn of(mut self, sizes: &[u64], each: u64) -> Self {
        let unit = if each == 1 { "byte" } else { "bytes" };
        self.shape = format!("{} x {each} {unit}", joined(sizes));
        self.bytes = Some(product(sizes).saturating_mul(each));
        self
    }

    fn peak(mut self, peak: u64) -> Self {
        self.peak = Some(peak.max(self.bytes.unwrap_or(0)));
        self
    }

    fn assuming(mut self, assumed: Vec<String>) -> Self {
        self.assumed.extend(assumed);
        self
    }
}

/// The tensor of a cause in this text.
pub(super) fn tensor(cause: Cause, facts: &Facts, setup: &Setup) -> Tensor {
    match cause {
        Cause::Triplets
        | Cause::Joined
        | Cause::PairsByPairs
        | Cause::Angles
        | Cause::Pairs
        | Cause::OwnCopies => of_step(cause, facts, setup),
        Cause::BatchCube => {
            let (b, m) = (setup.anchors, setup.references);
            Tensor::new("one float for every triplet of the batch, valid or not")
                .of(&[b, m, m], 4)
                .assuming(setup.assumed())
        }
        Cause::Differences => differences(facts, setup),
        Cause::Ranking => ranking(facts),
        Cause::Distances => distances(facts),
        Cause::FaissScratch => faiss_scratch(facts),
        Cause::FaissIndex | Cause::Embeddings | Cause::Gathered => rows_by_dim(cause, facts),
        Cause::Head | Cause::ClassPairs | Cause::Moments => head(cause, facts, setup),
        Cause::Bank => {
            let memory = facts.size(Size::Memory).unwrap_or(setup.references);
            Tensor::new("the memory's rows").of(&[memory, setup.dim], 4)
        }
        Cause::OneCard => {
            Tensor::new("outputs, labels and loss of the whole batch, gathered on the first card")
        }
        Cause::KeptTuples => {
            let tensor = Tensor::new("three indices of each mined triplet, of all batches so far");
            tensor
                .of(&[setup.triplets(), 3], 8)
                .assuming(setup.assumed())
        }
        Cause::KeptGraph => {
            Tensor::new("the activations of all steps whose loss or embeddings are still held")
        }
        Cause::Activations => {
            Tensor::new("the network's activations of a batch, kept for the backward pass")
        }
        Cause::Validation => {
            Tensor::new("the network's activations in validation, beside what training holds")
        }
        Cause::Fragments => Tensor::new(
            "no tensor in particular: PyTorch's unused memory lies in pieces, none large enough",
        ),
        Cause::OtherProgram => {
            Tensor::new("no tensor in particular: another program holds the card")
        }
        Cause::Host => Tensor::new("memory of the host: the data and the loader's workers"),
    }
}

/// Tensors of a miner or a loss.
fn of_step(cause: Cause, facts: &Facts, setup: &Setup) -> Tensor {
    let (b, m) = (setup.anchors, setup.references);
    let [positives, negatives] = setup.pairs();
    let triplets = setup.triplets();
    let mined = || {
        if setup.mines_triplets() {
            Some(setup.mined(facts))
        } else {
            None
        }
    };
    let tensor = match cause {
        Cause::Triplets if setup.miner == "AngularMiner" && !facts.says(&["int_max"]) => {
            let peak = triplets.saturating_mul(24 * setup.dim + 33);
            Tensor::new("embeddings of every triplet in AngularMiner: triplets x embedding_size")
                .of(&[triplets, setup.dim], 4)
                .peak(peak)
        }
        Cause::Triplets
            if b.saturating_mul(m.saturating_mul(m)) < (1 << 31) - 1
                || facts.says(&["int_max"]) =>
        {
            let peaks = TripletPeaks::new(b, m, triplets, mined().unwrap_or(triplets));
            let peak = if setup.mines_triplets() {
                peaks.miner
            } else {
                pml_bytes(b, m, triplets).max(peaks.loss)
            };
            Tensor::new("all triplets at once: labels x references x references")
                .of(&[b, m, m], 1)
                .peak(peak)
        }
        Cause::Triplets => {
            let peaks = TripletPeaks::new(b, m, triplets, mined().unwrap_or(triplets));
            let peak = if setup.mines_triplets() {
                peaks.miner
            } else {
                peaks.miner.max(peaks.loss)
            };
            Tensor::new("three indices of every triplet, listed and then joined")
                .of(&[triplets, 3], 8)
                .peak(peak)
        }
        Cause::Joined => Tensor::new("positive pairs x negative pairs, joined on their anchors")
            .of(&[positives, negatives], 1)
            .peak(pml_joined_peak(positives, negatives, triplets)),
        Cause::PairsByPairs => {
            let loss = if setup.loss.is_empty() {
                "NTXentLoss"
            } else {
                &setup.loss
            };
            let (p, n) = mined().map_or((positives, negatives), |mined| (mined, mined));
            let peak = p
                .saturating_mul(n)
                .saturating_mul(pml_bytes_of_two_pairs(loss).max(17));
            Tensor::new(format!("positive pairs x negative pairs of {loss}"))
                .of(&[p, n], 4)
                .peak(peak)
        }
        Cause::Angles => {
            let pairs = mined().unwrap_or(positives);
            let peak = product(&[pairs, m, pml_bytes_of_two_pairs("AngularLoss")]);
            Tensor::new("positive pairs x references of AngularLoss")
                .of(&[pairs, m], 4)
                .peak(peak)
        }
        Cause::OwnCopies => {
            let pairs = mined().unwrap_or(positives);
            let peak = pairs.saturating_mul(b.saturating_add(25));
            Tensor::new("kept pairs or triplets x batch, to leave out each anchor's own copy")
                .of(&[pairs, b], 1)
                .peak(peak)
        }
        _ => {
            // A loss of one's own sees each item in several views.
            let squares = |views: &u64| {
                let cells = (b * views).saturating_mul(b * views);
                facts
                    .message
                    .asked
                    .is_some_and(|asked| close(cells.saturating_mul(4), asked))
            };
            if !setup.banked
                && let Some(views) = (2..=8).find(squares)
            {
                let tensor = Tensor::new("matrices of all views of the batch x all views");
                let assumed =
                    format!("{views} views of each item follow from the bytes that were asked for");
                return tensor
                    .of(&[b * views, b * views], 4)
                    .assuming(vec![assumed]);
            }
            let class = if setup.loss.is_empty() {
                &setup.miner
            } else {
                &setup.loss
            };
            let of_cell = pml_bytes_of_cell(class).max(match setup.miner.as_str() {
                "" => 0,
                miner => pml_bytes_of_cell(miner),
            });
            let name = format!(
                "matrices of batch x references{}, and the indices of their pairs",
                in_class(class)
            );
            Tensor::new(name)
                .of(&[b, m], 4)
                .peak(product(&[b, m, of_cell]))
        }
    };
    tensor.assuming(setup.assumed())
}

fn in_class(class: &str) -> String {
    if class.is_empty() {
        String::new()
    } else {
        format!(" in {class}")
    }
}

fn differences(facts: &Facts, setup: &Setup) -> Tensor {
    let tensor = Tensor::new("a difference of every two rows: rows x rows x dimensions");
    if let Some(shape) = facts
        .shapes
        .iter()
        .find(|shape| shape.len() == 3 && shape[0] >= 8 && shape[1] >= 8)
    {
        return tensor.of(shape, 4);
    }
    let (b, m, d) = (setup.anchors, setup.references, setup.dim);
    let peak = product(&[b, m]).saturating_mul(12 * d + 33);
    tensor
        .of(&[b, m, d], 4)
        .peak(peak)
        .assuming(setup.assumed())
}

/// Rows that are scored: queries and references, and what is assumed of them.
pub(super) struct Scored {
    pub(super) queries: Option<u64>,
    pub(super) references: Option<u64>,
    pub(super) dim: Option<u64>,
    pub(super) own: bool,
}

impl Scored {
    pub(super) fn read(facts: &Facts) -> Self {
        let usual = |shape: &&Vec<u64>| shape.len() == 2 && shape[0] >= 200;
        let shapes: Vec<&Vec<u64>> = facts.shapes.iter().filter(usual).collect();
        let rows = |at: usize| shapes.get(at).map(|shape| shape[0]);
        let square = shapes
            .iter()
            .find(|shape| shape[1] >= 1000 && shape[0] >= 1000);
        let dim = facts
            .size(Size::Dim)
            .or_else(|| shapes.iter().map(|shape| shape[1]).find(|dim| *dim <= 8192));
        let (queries, references) = (facts.size(Size::Queries), facts.size(Size::References));
        let all = facts.size(Size::Rows).or_else(|| rows(0));
        let (queries, references) = match (queries, references, square) {
            (Some(queries), Some(references), _) => (Some(queries), Some(references)),
            (None, None, Some(shape)) if dim != Some(shape[1]) => (Some(shape[0]), Some(shape[1])),
            (queries, references, _) => {
                (queries.or(rows(0)).or(all), references.or(rows(1)).or(all))
            }
        };
        Self {
            queries,
            references,
            dim,
            own: queries == references,
        }
    }
}

fn ranking(facts: &Facts) -> Tensor {
    let scored = Scored::read(facts);
    let k = facts.argument("AccuracyCalculator", "k", 4);
    let name =
        "the ranking of every query: queries x k neighbours, their distances, labels and masks";
    let mut assumed = Vec::new();
    if facts.code.call("AccuracyCalculator").is_none() {
        assumed.push("k=None is assumed, PML's default: all references".to_owned());
    }
    let (Some(queries), Some(references)) = (scored.queries, scored.references) else {
        let Some(cells) = facts.message.asked.map(|asked| asked / 8) else {
            let mut tensor = Tensor::new(name).assuming(assumed);
            tensor.shape = "N x N x 8 bytes: paste len(dataset)".to_owned();
            return tensor;
        };
        let rows = cells.isqrt();
        assumed.push(format!(
            "{} rows follow from the bytes that were asked for (8 a cell)",
            grouped(rows)
        ));
        return Tensor::new(name).of(&[rows, rows], 8).assuming(assumed);
    };
    let own = scored.own;
    let neighbours = match k {
        Some(Value::Number(k)) => *k as u64,
        Some(Value::Text(text)) if text == "max_bin_count" => {
            let classes = facts.size(Size::Classes).unwrap_or_else(|| {
                assumed
                    .push("100 classes of one size are assumed: the text does not say".to_owned());
                100
            });
            references
                .div_ceil(classes)
                .saturating_sub(u64::from(own))
                .max(1)
        }
        _ => references.saturating_sub(u64::from(own)).max(1),
    };
    // Alone, precision at 1 and R-precision need no mean over ranks.
    let included = facts
        .code
        .call("AccuracyCalculator")
        .map(|call| format!("{call:?}"))
        .unwrap_or_default();
    let averaged = !included.contains("include") || included.contains("average");
    let includes = facts.says(&["include=(", "include=["]);
    let averaged = if includes {
        facts.says(&["mean_average_precision"])
    } else {
        averaged
    };
    if own {
        assumed.push("each row is a query and a reference".to_owned());
    }
    Tensor::new(name)
        .of(&[queries, neighbours], 8)
        .peak(pml_ranking_peak(queries, neighbours, own, averaged))
        .assuming(assumed)
}

fn distances(facts: &Facts) -> Tensor {
    let scored = Scored::read(facts);
    let sorts = facts.says(&["argsort", ".sort(", "torch.sort"]);
    let name = match sorts {
        true => "a matrix of all distances, and the order of each row (8 bytes a cell)",
        false => "a matrix of all distances or similarities: queries x references",
    };
    let each = match facts.says(&["float64", "double"])
        || facts.says(&["sklearn", "numpy"])
            && facts.says(&["arraymemoryerror", "unable to allocate"])
    {
        true => 8,
        false => 4,
    };
    let asked = facts.message.asked;
    let ranks_again = facts.says(&[
        "re-ranking",
        "re_ranking",
        "reranking",
        "rerank",
        "k_reciprocal",
        "jaccard",
    ]);
    let (queries, references) = match (scored.queries, scored.references) {
        // Queries and gallery stand on both sides.
        (Some(q), Some(g)) if ranks_again && q != g => {
            let all = q.saturating_add(g);
            (Some(all), Some(all))
        }
        both => both,
    };
    match (queries, references) {
        (Some(queries), Some(references)) => {
            let cells = product(&[queries, references]);
            // The bytes that were asked for tell the kind of number.
            let told = asked.and_then(|asked| {
                [2, 4, 8, 1]
                    .into_iter()
                    .find(|each| close(cells.saturating_mul(*each), asked))
            });
            let tensor = Tensor::new(name).of(&[queries, references], told.unwrap_or(each));
            let bytes = tensor.bytes.unwrap_or(0);
            let peak = if sorts {
                bytes.saturating_add(cells.saturating_mul(8))
            } else {
                bytes
            };
            let tensor = tensor.peak(peak);
            match told.is_none() && scored.own {
                true => tensor.assuming(vec!["each row is compared with each".to_owned()]),
                false => tensor,
            }
        }
        (Some(rows), None) | (None, Some(rows)) if asked.is_some_and(|asked| asked > rows) => {
            let other = asked.unwrap_or(0) / rows / each;
            let assumed = format!(
                "{} on the other side follow from the bytes that were asked for",
                grouped(other)
            );
            Tensor::new(name)
                .of(&[rows, other], each)
                .assuming(vec![assumed])
        }
        _ => match asked {
            Some(asked) if asked > 1 << 28 => {
                let rows = (asked / each).isqrt();
                let assumed = format!(
                    "{} rows follow from the bytes that were asked for ({each} a cell)",
                    grouped(rows)
                );
                Tensor::new(name)
                    .of(&[rows, rows], each)
                    .assuming(vec![assumed])
            }
            _ => {
                let mut tensor = Tensor::new(name);
                tensor.shape =
                    "queries x references x 4 bytes: paste the shapes of both".to_owned();
                tensor
            }
        },
    }
}

fn faiss_scratch(facts: &Facts) -> Tensor {
    let mut tensor = Tensor::new("faiss's scratch on the card, of a fixed size whatever the rows");
    let asked = facts.message.asked.filter(|_| facts.says(&["faiss"]));
    match asked {
        Some(asked) => tensor.bytes = Some(asked),
        None => {
            tensor.bytes = Some(1536 << 20);
            tensor
                .assumed
                .push("a card of 8 GiB or more is assumed, where faiss takes 1,536 MiB".to_owned());
        }
    }
    tensor.shape = "one buffer for each card".to_owned();
    tensor
}

fn rows_by_dim(cause: Cause, facts: &Facts) -> Tensor {
    let scored = Scored::read(facts);
    let (name, times) = match cause {
        Cause::FaissIndex => ("the vectors of the index, in one buffer on the card", 1),
        Cause::Gathered => (
            "the embeddings of all cards on each card: cards x rows x dimensions",
            facts.size(Size::Cards).unwrap_or(1),
        ),
        _ => ("the embeddings of all rows: rows x dimensions", 1),
    };
    let rows = match cause {
        Cause::Gathered => facts
            .size(Size::Rows)
            .or(facts.size(Size::Batch))
            .or(scored.references),
        _ => facts.size(Size::Rows).max(scored.references),
    };
    let tensor = Tensor::new(name);
    match (rows, scored.dim, facts.message.asked) {
        // Rows that are counted over all cards have the bytes that were asked for.
        (Some(rows), Some(dim), asked)
            if times > 1 && !asked.is_some_and(|asked| close(product(&[rows, dim, 4]), asked)) =>
        {
            tensor.of(&[times, rows, dim], 4)
        }
        (Some(rows), Some(dim), _) => tensor.of(&[rows, dim], 4),
        (_, Some(dim), Some(asked)) => {
            let rows = asked / 4 / dim.max(1);
            let assumed = format!(
                "{} rows follow from the bytes that were asked for",
                grouped(rows)
            );
            tensor.of(&[rows, dim], 4).assuming(vec![assumed])
        }
        (_, _, asked) => Tensor {
            bytes: asked,
            shape: "rows x dimensions x 4 bytes: paste both".to_owned(),
            ..tensor
        },
    }
}

fn head(cause: Cause, facts: &Facts, setup: &Setup) -> Tensor {
    let classes = facts.size(Size::Classes);
    let centers = match setup.loss.as_str() {
        "SubCenterArcFaceLoss" => facts
            .argument("SubCenterArcFaceLoss", "sub_centers", 9)
            .and_then(Value::number)
            .unwrap_or(3.0) as u64,
        "SoftTripleLoss" => facts
            .argument("SoftTripleLoss", "centers_per_class", 2)
            .and_then(Value::number)
            .unwrap_or(10.0) as u64,
        _ => 1,
    };
    let Some(classes) = classes else {
        let mut tensor = Tensor::new(match cause {
            Cause::Moments => "two moments of Adam for every weight",
            Cause::ClassPairs => "classes x classes of the regularizer",
            _ => "the head's weights, a row for each class, and its logits",
        });
        tensor.shape =
            "classes x dimensions x 4 bytes: paste num_classes and embedding_size".to_owned();
        tensor.bytes = facts.message.asked;
        return tensor;
    };
    let (rows, dim) = (classes.saturating_mul(centers), setup.dim);
    let mut assumed = setup.assumed();
    assumed.retain(|what| what.starts_with("batch"));
    if facts.size(Size::Dim).is_none() {
        assumed.push(format!(
            "embedding_size {dim} is assumed: the text does not say"
        ));
    }
    match cause {
        Cause::ClassPairs => Tensor::new(
            "classes x classes of the regularizer: each class's weights beside each other's",
        )
        .of(&[rows, rows], 4),
        Cause::Moments => {
            assumed.retain(|what| !what.starts_with("batch"));
            let tensor = Tensor::new("a moment of Adam for the head's weights, one of two")
                .of(&[rows, dim], 4);
            let both = tensor.bytes.unwrap_or(0).saturating_mul(2);
            tensor.peak(both).assuming(assumed)
        }
        _ => {
            let weights =
                Tensor::new("the head's weights, a row for each class").of(&[rows, dim], 4);
            let logits =
                Tensor::new("the head's logits: batch x classes").of(&[setup.anchors, rows], 4);
            let larger = if weights.bytes >= logits.bytes {
                weights
            } else {
                logits
            };
            larger
                .peak(pml_head_peak(&setup.loss, setup.anchors, rows, dim))
                .assuming(assumed)
        }
    }
}
