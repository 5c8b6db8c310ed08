//! An anchor of a step in sentences: its negatives by kind, what the miner keeps, and what the loss does with it.

use nearfar::{AnchorKind, AnchorReference, Distance, Miner, OneAnchor, TrainConfig};

use super::line::shown;
use crate::words::grouped;

/// The kinds of negatives, in the order of [`OneAnchor::kinds`].
const KINDS: [&str; 3] = ["easy", "semi-hard", "hard"];

/// A value with the name of what it is.
pub(super) fn value(distance: Distance, value: f32) -> String {
    let name = match distance {
        Distance::Cosine => "similarity",
        Distance::L2 => "distance",
    };
    format!("{name} {:.3}", shown(distance, f64::from(value)))
}

/// Number of things that are one or many.
fn count(number: usize, one: &str, many: &str) -> String {
    let name = if number == 1 { one } else { many };
    format!("{} {name}", grouped(number as u64))
}

/// A margin as in the settings: without the zeros of its fraction.
fn margin(margin: f32) -> String {
    let text = format!("{margin:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The miner that chooses; `None` if every reference counts.
pub(super) fn miner(config: &TrainConfig) -> Option<&Miner> {
    Some(&config.miner).filter(|miner| config.loss.is_mined() && **miner != Miner::None)
}

/// The picture in words: how many negatives are semi-hard, and then the other kinds, what the miner keeps, and what the loss does.
pub(super) fn said(seen: &OneAnchor, config: &TrainConfig, side: usize) -> [String; 2] {
    let [positives, negatives] = seen.references;
    let rows = count(positives + negatives, "row", "rows");
    if positives == 0 {
        let text = format!(
            "None of the {rows} that this anchor is compared with is of its class: without a positive there is no triplet."
        );
        return [text, String::new()];
    }
    let [first, others] = kinds(seen, side);
    let more = [&others, &kept(seen, config, side), pull(seen, config, side)];
    [first, more.join(" ")]
}

/// The negatives by kind.
fn kinds(seen: &OneAnchor, side: usize) -> [String; 2] {
    let [[easy, _], [semihard, _], [hard, _]] = seen.kinds[side];
    let negatives = count(seen.references[1], "negative", "negatives");
    let Some(band) = seen.margins[0].or(seen.margins[1]) else {
        let first = format!(
            "Of {negatives} {} nearer to the anchor than the chosen positive.",
            count(hard, "is", "are")
        );
        return [first, String::new()];
    };
    let first = format!(
        "Of {negatives} {} semi-hard: farther from the anchor than the positive, but by no more than the margin of {}.",
        count(semihard, "is", "are"),
        margin(band),
    );
    let others = format!(
        "{} hard (nearer than the positive), {} easy (farther by more than the margin).",
        count(hard, "is", "are"),
        count(easy, "is", "are"),
    );
    [first, others]
}

/// What the miner keeps.
fn kept(seen: &OneAnchor, config: &TrainConfig, side: usize) -> String {
    let [positives, negatives] = seen.references;
    let kinds = seen.kinds[side];
    let Some(miner) = miner(config) else {
        return format!(
            "No miner chooses: {} and {} count.",
            count(positives, "positive", "positives"),
            count(negatives, "negative", "negatives"),
        );
    };
    let rule = rule(miner);
    if miner.gives_pairs() {
        let [of_positives, of_negatives] = seen.kept[side].map(|kept| grouped(kept as u64));
        return format!(
            "The miner keeps {of_positives} of {} and {of_negatives} of {}{rule}.",
            count(positives, "positive", "positives"),
            count(negatives, "negative", "negatives"),
        );
    }
    let parts = kinds.iter().zip(KINDS).rev();
    let parts: Vec<String> = parts
        .filter(|([_, kept], _)| *kept > 0)
        .map(|([all, kept], kind)| match all == kept {
            true if *all > 1 => format!("all {kept} {kind} ones"),
            true => format!("the {kind} one"),
            false => format!("{kept} of the {all} {kind} ones"),
        })
        .collect();
    match parts.is_empty() {
        true => format!("The miner keeps none of them with this positive{rule}."),
        false => format!("The miner keeps {}{rule}.", parts.join(" and ")),
    }
}

/// The rule of a miner that says more than the kinds that it keeps.
fn rule(miner: &Miner) -> &'static str {
    match miner {
        Miner::None | Miner::TripletMargin(_) => "",
        Miner::BatchHard(_) => ": the farthest positive and the nearest negative",
        Miner::BatchEasyHard(_) => ", by its two strategies",
        Miner::MultiSimilarity(_) => {
            ": those that come near the nearest negative, or the farthest positive"
        }
        Miner::PairMargin(_) => ": positives that are too far, and negatives that are too near",
        Miner::FacenetSemihard(_) => {
            ": the nearest that is farther than the positive, or else the farthest of all"
        }
        Miner::DistanceWeighted(_) => ": it draws them, as often from far away as from nearby",
    }
}

/// What the loss does with the anchor.
fn pull(seen: &OneAnchor, config: &TrainConfig, side: usize) -> &'static str {
    match (seen.slopes[side], miner(config)) {
        ([0.0, 0.0], _) => "The loss is zero here: this anchor teaches nothing.",
        (_, Some(_)) => {
            "The loss pulls kept positives nearer and pushes kept negatives away, the larger ones more strongly."
        }
        (_, None) => {
            "The loss pulls positives nearer and pushes negatives away, the larger ones more strongly."
        }
    }
}

/// A reference in a sentence: what it is, where it stands, and what is done with it.
pub(super) fn reference(
    seen: &OneAnchor,
    config: &TrainConfig,
    other: &AnchorReference,
    side: usize,
) -> String {
    let stand = other.stands[side];
    let mut parts = vec![match other.positive {
        true => format!("positive, {}", value(seen.distance, stand.value)),
        false => format!(
            "negative, class {}, {}",
            other.class,
            value(seen.distance, stand.value)
        ),
    }];
    let has_band = seen.margins[0].or(seen.margins[1]).is_some() && seen.positive.is_some();
    if !other.positive && has_band {
        parts.push(KINDS[stand.kind as usize].to_owned());
    }
    let chooses = miner(config).is_some();
    parts.push(match (stand.kept, is_kept(config, other, side)) {
        (_, _) if !chooses => String::new(),
        (0, _) => "not kept".to_owned(),
        (_, true) => "kept".to_owned(),
        (_, false) => "kept with another positive".to_owned(),
    });
    let all = seen.slopes[side][usize::from(!other.positive)];
    let part = 100.0 * stand.slope.abs() / all;
    parts.push(match stand.slope {
        0.0 => "the loss leaves it alone".to_owned(),
        slope if slope < 0.0 => format!("pulled nearer with {part:.1} % of all pull"),
        _ => format!("pushed away with {part:.1} % of all push"),
    });
    if let Some(age) = other.age.filter(|age| *age > 0) {
        let steps = count(age as usize, "step", "steps");
        parts.push(format!("stored {steps} before"));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Tells if a reference is drawn as kept: a negative with the chosen positive, unless the miner gives pairs.
pub(super) fn is_kept(config: &TrainConfig, other: &AnchorReference, side: usize) -> bool {
    let stand = other.stands[side];
    match other.positive || miner(config).is_some_and(Miner::gives_pairs) {
        true => stand.kept > 0,
        false => stand.with,
    }
}

/// Name of the kind of a negative, for style and tests.
pub(super) fn kind(other: &AnchorReference, side: usize) -> &'static str {
    match other.stands[side].kind {
        _ if other.positive => "positive",
        AnchorKind::Easy => "easy",
        AnchorKind::Semihard => "semihard",
        AnchorKind::Hard => "hard",
    }
}
