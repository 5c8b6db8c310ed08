//! Similarities of the pairs of a step, positives and negatives, and the band of semi-hard negatives.

use leptos::prelude::*;
use nearfar::{Distance, Miner, PairHistogram, TrainConfig};

use crate::chart::{Along, Canvas, Line, Plot, Scale};
use crate::plots::Key;
use crate::state::{Curves, State};
use crate::terms::{self, Term};
use crate::words::grouped;

/// Margin of the band: the miner's, or the loss's if the miner has none; `None` if neither has one.
fn margin(config: &TrainConfig) -> Option<f64> {
    match (&config.miner, &config.loss) {
        (Miner::TripletMargin(miner), loss) if !loss.learns_proxies() => Some(miner.margin),
        (_, loss) => Some(loss.triplet_margin()?.margin),
    }
}

/// Similarities of semi-hard negatives for a positive at the median: farther than it, but by less than the margin.
fn band(curves: &Curves) -> Option<(f64, f64)> {
    let (median, margin) = (
        curves.pairs.as_ref()?.median_positive()?,
        margin(&curves.config)?,
    );
    match curves.config.distance {
        Distance::Cosine => Some((median - margin, median)),
        Distance::L2 => {
            let farthest = (2.0 - 2.0 * median).max(0.0).sqrt() + margin;
            Some(((1.0 - farthest * farthest / 2.0).max(-1.0), median))
        }
    }
}

/// The share of the counts between two similarities, if those of a bin are spread evenly over it.
fn share_between(counts: &[u64], (low, high): (f64, f64)) -> f64 {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let within = counts.iter().enumerate().map(|(bin, count)| {
        let (from, to) = (PairHistogram::bound(bin), PairHistogram::bound(bin + 1));
        let part = (to.min(high) - from.max(low)) / (to - from);
        part.clamp(0.0, 1.0) * *count as f64
    });
    within.sum::<f64>() / all
}

/// The share of the counts in the bin of a similarity.
fn share_at(counts: &[u64], at: f64) -> f64 {
    let within =
        |bin: &usize| (PairHistogram::bound(*bin)..PairHistogram::bound(bin + 1)).contains(&at);
    let bin = (0..counts.len()).find(within);
    let count = bin.map_or(0, |bin| counts[bin]);
    count as f64 / counts.iter().sum::<u64>().max(1) as f64
}

/// The outline of a histogram: the share of the pairs in each bin.
fn outline(counts: &[u64]) -> Vec<(f64, f64)> {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let step = |(bin, count): (usize, &u64)| {
        let share = *count as f64 / all;
        [bin, bin + 1].map(|bin| (PairHistogram::bound(bin), share))
    };
    counts.iter().enumerate().flat_map(step).collect()
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent > 0.0 && percent < 0.1 => format!("{percent:.2} %"),
        percent if percent > 0.0 && percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Plot of both histograms and the band, with the shares at the `pointed` place of the axis.
fn plot(curves: &Curves, pointed: Option<f64>) -> Plot {
    let pairs = curves.pairs.as_ref();
    let lines = pairs.map_or_else(Vec::new, |pairs| {
        vec![
            Line::dashed("negative", outline(&pairs.negatives)).wide(2.0),
            Line::new("positive", outline(&pairs.positives)),
        ]
    });
    let plot = Plot {
        band: band(curves),
        ..Plot::new(Scale::Linear, Along::new(-1.0, 1.0), lines)
    };
    plot.saying(pointed, |at| {
        let of = |counts: &[u64]| percent(share_at(counts, at));
        let shares = pairs.map(|pairs| {
            let (alike, others) = (of(&pairs.positives), of(&pairs.negatives));
            format!(": {alike} of positives, {others} of negatives")
        });
        format!("{at:.2}{}", shares.unwrap_or_default())
    })
}

/// The plot in words, once there are pairs.
fn said(curves: &Curves) -> Option<String> {
    let pairs = curves.pairs.as_ref()?;
    let median = pairs.median_positive()?;
    let share = |range| percent(share_between(&pairs.negatives, range));
    let nearer = share((median, 1.0));
    let of = match curves.config.loss.learns_proxies() {
        true => "the rows with the proxies",
        false => "the pairs",
    };
    let said = format!(
        "Similarities of {of} of step {}: half of the positive pairs are above {median:.2}; of the negative pairs {nearer} are above \
         that",
        pairs.step
    );
    let Some((low, high)) = band(curves) else {
        return Some(said);
    };
    let within = share((low, high));
    Some(format!(
        "{said}, hard, and {within} between {low:.2} and that, in the margin's band, semi-hard"
    ))
}

/// Histograms of the positive and the negative pairs by similarity, over each other, and the band.
#[component]
pub(crate) fn SimilarityPlot(state: State) -> impl IntoView {
    let curves = state.curves;
    let pointed = RwSignal::new(None);
    let plot = move || plot(&curves.read(), pointed.get());
    let title = move || match &curves.read().pairs {
        Some(pairs) => format!(", step {}", pairs.step),
        None => String::new(),
    };
    let positives = Signal::derive(move || {
        let curves = curves.read();
        let pairs = curves.pairs.as_ref()?;
        let count = grouped(pairs.positives.iter().sum());
        let median = pairs.median_positive();
        Some(median.map_or(count.clone(), |median| {
            format!("{count}, median {median:.2}")
        }))
    });
    let negatives = Signal::derive(move || {
        let curves = curves.read();
        let pairs = curves.pairs.as_ref()?;
        Some(grouped(pairs.negatives.iter().sum()))
    });
    let in_band = Signal::derive(move || {
        let curves = curves.read();
        let share = share_between(&curves.pairs.as_ref()?.negatives, band(&curves)?);
        Some(format!("{} of negatives", percent(share)))
    });
    let has_band = Memo::new(move |_| margin(&curves.read().config).is_some());
    let or_dash = move |text: Signal<Option<String>>| {
        Signal::derive(move || text.get().unwrap_or_else(|| "–".to_owned()))
    };
    let text = Signal::derive(move || {
        let said = said(&curves.read());
        said.unwrap_or_else(|| "Similarities of the pairs of a step: none yet".to_owned())
    });
    view! {
        <figure>
            <figcaption>
                <h2 title="How many of the pairs of a step have which similarity"><Term term=terms::SIMILARITIES/> {title}</h2>
                <Key color="positive" name=terms::POSITIVES value=or_dash(positives)/>
                <Key color="negative" name=terms::NEGATIVES dashed=true value=or_dash(negatives)/>
                <Show when=move || has_band.get()>
                    <Key color="band" name=terms::SEMIHARD band=true value=or_dash(in_band)/>
                </Show>
            </figcaption>
            <Canvas testid="chart-similarities" text plot state pointed/>
        </figure>
    }
}
