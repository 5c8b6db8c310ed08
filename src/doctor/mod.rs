//! Which tensor ran out of memory? Takes the text of a traceback, or the lines that set up PyTorch Metric Learning, faiss or torch;
//! gives the tensor, its bytes by shape, the reason, the change there, and the same work here with its plan.
//!
//! The rules: `tables` has the signs of each cause, `tensors` its shape and bytes, `advice` and `words` its words. What the text does not
//! say is assumed aloud, and a text that none of the rules knows is told so.

mod advice;
mod calls;
mod cause;
mod facts;
mod frames;
mod here;
mod message;
mod number;
mod row_tensors;
mod setup;
mod shape;
mod signs;
mod step_tensors;
mod tables;
mod tensors;
mod tokens;
mod words;

use serde::Serialize;

use crate::base::ledger::Bytes;
use cause::Cause;
use facts::Facts;
use number::close;
use setup::Setup;
use shape::Tensor;
use signs::{Sign, signs};
use tensors::tensor;

pub use here::Here;

/// Answer to a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The cause in one word, such as `ranking`; `unknown` if no rule knows the text.
    pub cause: &'static str,
    /// The tensor in words.
    pub tensor: String,
    /// Its shape and the bytes of an element.
    pub shape: String,
    /// Bytes of the tensor.
    pub bytes: Option<u64>,
    /// Bytes of the call that makes it, at its peak, above what was there before.
    pub peak_bytes: Option<u64>,
    /// Bytes that the allocator's message says were asked for.
    pub asked_bytes: Option<u64>,
    /// Sign of the cause in the text.
    pub seen: String,
    /// The reason.
    pub why: String,
    /// Changes in the person's own code, best first; for an unknown text what else to paste.
    pub there: Vec<String>,
    /// The same work here.
    pub here: Option<Here>,
    /// What the text does not say and was assumed.
    pub assumed: Vec<String>,
    /// Other tensors that the text speaks for, less strongly.
    pub also: Vec<Other>,
}

/// Another tensor that the text speaks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Other {
    /// The cause in one word.
    pub cause: &'static str,
    /// The tensor in words.
    pub tensor: String,
    /// Its bytes.
    pub bytes: Option<u64>,
}

impl Diagnosis {
    /// The answer in lines, each with its heading.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("Tensor", self.tensor.clone())];
        let size = |bytes: u64| Bytes(bytes).to_string();
        let bytes = self.bytes.map(size);
        match (self.shape.is_empty(), bytes) {
            (true, None) => {}
            (true, Some(bytes)) => lines.push(("Bytes", bytes)),
            (false, None) => lines.push(("Bytes", self.shape.clone())),
            (false, Some(bytes)) => lines.push(("Bytes", format!("{} = {bytes}", self.shape))),
        }
        if let Some(peak) = self.peak_bytes {
            let text = format!("{} with all that the call makes beside it", size(peak));
            lines.push(("At peak", text));
        }
        if let Some(asked) = self.asked_bytes {
            lines.push(("Asked for", format!("{}, by the message", size(asked))));
        }
        lines.extend(self.assumed.iter().map(|what| ("Assumed", what.clone())));
        if !self.why.is_empty() {
            lines.push(("Sign", self.seen.clone()));
            lines.push(("Why", self.why.clone()));
        }
        lines.extend(self.there.iter().map(|change| ("Change", change.clone())));
        if let Some(here) = &self.here {
            let plan = Bytes(here.plan_bytes).rounded_up();
            lines.push(("Nearfar", here.command.clone()));
            lines.push(("", format!("{plan} planned, for {}", here.sizes)));
        }
        for other in &self.also {
            let bytes = other.bytes.map(|bytes| format!(", {}", size(bytes)));
            let text = format!("{}{}", other.tensor, bytes.unwrap_or_default());
            lines.push(("Perhaps", text));
        }
        lines
    }
}

/// The least weight of a sign that names a tensor.
const ENOUGH: u32 = 30;

/// Words of a text about memory.
const MEMORY: [&str; 9] = [
    "memory",
    "oom",
    " ram",
    "gib",
    " gb",
    "killed",
    "is full",
    "int_max",
    "exit code 137",
];

/// Finds the tensor that ran out of memory in a text.
pub fn diagnose(text: &str) -> Diagnosis {
    let facts = Facts::read(text);
    let setup = Setup::read(&facts);
    let mut signs = signs(&facts);
    signs.extend(of_setup(&facts, &setup));
    if scores_whole(&facts) {
        let rankings = signs.iter_mut().filter(|sign| sign.cause == Cause::Ranking);
        rankings.for_each(|sign| sign.cause = Cause::Distances);
    }
    // The first of equals stays first.
    signs.sort_by_key(|sign| u32::MAX - sign.weight);
    let mut known: Vec<Sign> = Vec::new();
    for sign in signs {
        if known.iter().all(|other| other.cause != sign.cause) {
            known.push(sign);
        }
    }
    let speaks = facts.message.is_there || facts.says(&MEMORY);
    let is_about_memory = speaks || setup.is_called(&facts);
    match known.first() {
        Some(sign) if sign.weight >= ENOUGH && is_about_memory => {
            of(sign, &known[1..], &facts, &setup)
        }
        _ => unknown(&facts),
    }
}

fn of(sign: &Sign, others: &[Sign], facts: &Facts, setup: &Setup) -> Diagnosis {
    let found = tensor(sign.cause, facts, setup);
    let also = others.iter().filter(|other| other.weight >= 40).take(2);
    let also = also.map(|other| {
        let tensor = tensor(other.cause, facts, setup);
        Other {
            cause: other.cause.name(),
            tensor: tensor.name,
            bytes: tensor.bytes,
        }
    });
    Diagnosis {
        cause: sign.cause.name(),
        seen: sign.seen.clone(),
        why: advice::why(sign.cause, facts, setup),
        there: advice::there(sign.cause, facts, setup),
        here: here::here(sign.cause, facts, setup),
        also: also.collect(),
        tensor: found.name,
        shape: found.shape,
        bytes: found.bytes,
        peak_bytes: found.peak,
        asked_bytes: facts.message.asked,
        assumed: found.assumed,
    }
}

fn unknown(facts: &Facts) -> Diagnosis {
    let paste = [
        "the whole traceback, from \"Traceback (most recent call last)\" to the last line",
        "the lines that make the loss, the miner, CrossBatchMemory, AccuracyCalculator or the faiss index",
        "batch size, memory_size, embedding_size, number of classes, and rows that are scored: len(dataset)",
    ];
    Diagnosis {
        cause: "unknown",
        tensor: "This text names no tensor that the rules know.".to_owned(),
        asked_bytes: facts.message.asked,
        there: paste.map(|what| format!("Paste {what}.")).to_vec(),
        ..Diagnosis::default()
    }
}

/// Signs of what the code sets up: each tensor that it makes; the largest weighs most, and one of the bytes that were asked for more.
fn of_setup(facts: &Facts, setup: &Setup) -> Vec<Sign> {
    let causes = made(facts, setup);
    let made: Vec<(Cause, Tensor)> = causes
        .into_iter()
        .map(|cause| (cause, tensor(cause, facts, setup)))
        .collect();
    let size = |tensor: &Tensor| tensor.peak.or(tensor.bytes).unwrap_or(0);
    let largest = made
        .iter()
        .map(|(_, tensor)| size(tensor))
        .max()
        .unwrap_or(0);
    let mut taken = false;
    let signs = made.iter().map(|(cause, tensor)| {
        let is_asked = facts
            .message
            .asked
            .zip(tensor.bytes)
            .is_some_and(|(asked, bytes)| {
                let mask = *cause == Cause::PairsByPairs && close(bytes / 4, asked);
                // A size that was taken from these bytes proves nothing.
                let is_told = !tensor
                    .assumed
                    .iter()
                    .any(|what| what.contains("bytes that were asked for"));
                is_told && bytes > 1 << 24 && (mask || close(bytes, asked))
            });
        // The angular loss keeps its matrix for the backward pass; its miner gives all back.
        let is_largest = !taken && (size(tensor) == largest || *cause == Cause::Angles);
        taken |= is_largest;
        let (weight, seen) = match (is_asked, is_largest) {
            (true, _) => (92, "its bytes are those that were asked for"),
            (_, true) => (58, "it is the largest tensor of this setup"),
            _ => (42, "the setup makes it"),
        };
        Sign {
            cause: *cause,
            weight,
            seen: seen.to_owned(),
        }
    });
    signs.collect()
}

/// An `AccuracyCalculator` keeps few neighbours, which its `CustomKNN` takes of a whole matrix.
fn scores_whole(facts: &Facts) -> bool {
    let k = facts
        .argument("AccuracyCalculator", "k", 4)
        .and_then(|k| k.number());
    let search = facts.code.call("CustomKNN");
    k.is_some_and(|k| k < 200.0)
        && search.is_some_and(|call| call.argument("batch_size", 1).is_none())
}

/// Tensors that a setup makes, the more likely first.
fn made(facts: &Facts, setup: &Setup) -> Vec<Cause> {
    let mut made = Vec::new();
    let loss = setup.loss.as_str();
    let sets_pairs = ["NTXentLoss", "LiftedStructureLoss", "TupletMarginLoss"].contains(&loss);
    if setup.has_head() {
        made.push(Cause::Head);
        if facts.says(&["weight_regularizer", "regularfaceregularizer"]) {
            made.push(Cause::ClassPairs);
        }
        if loss == "SoftTripleLoss" && facts.message.asked.is_some_and(|asked| asked > 1 << 30) {
            made.push(Cause::ClassPairs);
        }
        if facts.has(&["adam", "adamw"]) {
            made.push(Cause::Moments);
        }
    } else if setup.is_there() {
        if loss == "AngularLoss" {
            made.push(Cause::Angles);
        }
        match setup.miner.as_str() {
            "TripletMarginMiner" | "AngularMiner" => {
                made.push(Cause::Triplets);
                if setup.banked {
                    made.push(Cause::OwnCopies);
                }
            }
            "" if setup.loses_triplets() && setup.banked => made.push(Cause::Joined),
            "" if setup.loses_triplets() => made.push(Cause::Triplets),
            _ => {}
        }
        if sets_pairs {
            made.push(Cause::PairsByPairs);
        }
        if loss == "SignalToNoiseRatioContrastiveLoss" {
            made.push(Cause::Differences);
        }
        made.push(Cause::Pairs);
        if setup.banked {
            made.push(Cause::Bank);
        }
    }
    let calculates = facts.has(&["accuracycalculator", "get_accuracy", "precisioncalculator"]);
    if calculates {
        made.insert(0, Cause::Ranking);
    } else if facts.has(&["customknn"]) {
        made.insert(0, Cause::Distances);
    }
    made
}
