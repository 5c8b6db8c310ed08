//! Tensors of rows that are scored, searched or gathered: rankings, matrices of distances, embeddings, faiss's own.

use super::calls::Value;
use super::cause::Cause;
use super::facts::{Facts, Size};
use super::number::{close, grouped};
use super::shape::{Tensor, product};
use crate::rules::pml::pml_ranking_peak;

/// Phrases of re-ranking.
const RANKS_AGAIN: [&str; 6] = [
    "re-ranking",
    "re_ranking",
    "reranking",
    "rerank",
    "k_reciprocal",
    "jaccard",
];

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

pub(super) fn ranking(facts: &Facts) -> Tensor {
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

pub(super) fn distances(facts: &Facts) -> Tensor {
    let sorts = facts.says(&["argsort", ".sort(", "torch.sort"]);
    let name = match sorts {
        true => "a matrix of all distances, and the order of each row (8 bytes a cell)",
        false => "a matrix of all distances or similarities: queries x references",
    };
    let of_numpy = facts.says(&["sklearn", "numpy"])
        && facts.says(&["arraymemoryerror", "unable to allocate"]);
    let each = match of_numpy || facts.says(&["float64", "double"]) {
        true => 8,
        false => 4,
    };
    let tensor = Tensor::new(name);
    let asked = facts.message.asked;
    let scored = Scored::read(facts);
    match compared(facts, &scored) {
        (Some(queries), Some(references)) => {
            let told = told(product(&[queries, references]), asked);
            let each = told.unwrap_or(each);
            let tensor = of_both_sides(tensor, [queries, references], each, sorts);
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
            tensor.of(&[rows, other], each).assuming(vec![assumed])
        }
        _ => of_no_side(tensor, each, asked),
    }
}

/// Rows that are compared: queries and references.
fn compared(facts: &Facts, scored: &Scored) -> (Option<u64>, Option<u64>) {
    match (scored.queries, scored.references) {
        // Queries and gallery stand on both sides.
        (Some(q), Some(g)) if q != g && facts.says(&RANKS_AGAIN) => {
            let all = q.saturating_add(g);
            (Some(all), Some(all))
        }
        both => both,
    }
}

/// Bytes of a number, told by the bytes that were asked for.
fn told(cells: u64, asked: Option<u64>) -> Option<u64> {
    let asked = asked?;
    let fits = |each: &u64| close(cells.saturating_mul(*each), asked);
    [2, 4, 8, 1].into_iter().find(fits)
}

/// A matrix of distances whose sides are both known.
fn of_both_sides(tensor: Tensor, sides: [u64; 2], each: u64, sorts: bool) -> Tensor {
    let cells = product(&sides);
    let tensor = tensor.of(&sides, each);
    let bytes = tensor.bytes.unwrap_or(0);
    let peak = match sorts {
        true => bytes.saturating_add(cells.saturating_mul(8)),
        false => bytes,
    };
    tensor.peak(peak)
}

/// A matrix of distances of which the bytes alone are known, or nothing.
fn of_no_side(mut tensor: Tensor, each: u64, asked: Option<u64>) -> Tensor {
    match asked {
        Some(asked) if asked > 1 << 28 => {
            let rows = (asked / each).isqrt();
            let assumed = format!(
                "{} rows follow from the bytes that were asked for ({each} a cell)",
                grouped(rows)
            );
            tensor.of(&[rows, rows], each).assuming(vec![assumed])
        }
        _ => {
            tensor.shape = "queries x references x 4 bytes: paste the shapes of both".to_owned();
            tensor
        }
    }
}

pub(super) fn faiss_scratch(facts: &Facts) -> Tensor {
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

pub(super) fn rows_by_dim(cause: Cause, facts: &Facts) -> Tensor {
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
