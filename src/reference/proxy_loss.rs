//! Losses with proxies, one row after the other.

use crate::cpu::Distance;
use crate::rules::losses::{Loss, ProxyAnchorLoss};

/// A loss with proxies, as PML writes it: `similarities[row][class]` are those of a row with the proxies of a class. `held`: the
/// similarities at the point of a derivative; they choose the nearest proxy. `weights`: factor of each row's loss, or in proxy
/// anchor, less 1, a part of its exponents.
///
/// # Panics
/// For a loss without proxies.
pub fn proxy_loss(
    loss: &Loss,
    distance: Distance,
    similarities: &[Vec<Vec<f64>>],
    held: &[Vec<Vec<f64>>],
    labels: &[usize],
    weights: &[f64],
) -> f64 {
    let nearest = |row: usize, class: usize| {
        let held = &held[row][class];
        let best = (0..held.len()).fold(0, |best, i| if held[i] > held[best] { i } else { best });
        similarities[row][class][best]
    };
    let logits = |row: usize, of: &dyn Fn(usize, bool) -> f64| -> f64 {
        let classes = 0..similarities[row].len();
        let logits: Vec<f64> = classes
            .map(|class| of(class, class == labels[row]))
            .collect();
        cross_entropy(&logits, labels[row])
    };
    let only = |row: usize, class: usize| match distance {
        Distance::Cosine => similarities[row][class][0],
        Distance::L2 => -(2.0 - 2.0 * similarities[row][class][0]).max(0.0).sqrt(),
    };
    let of_row = |row: usize| match loss {
        Loss::ProxyNca(loss) => logits(row, &|class, _| loss.softmax_scale * only(row, class)),
        Loss::NormalizedSoftmax(loss) => {
            logits(row, &|class, _| only(row, class) / loss.temperature)
        }
        Loss::CosFace(loss) => logits(row, &|class, own| {
            loss.scale * (only(row, class) - if own { loss.margin } else { 0.0 })
        }),
        Loss::ArcFace(loss) => logits(row, &|class, own| match own {
            true => loss.scale * arc_face(only(row, class), loss.margin),
            false => loss.scale * only(row, class),
        }),
        Loss::SubCenterArcFace(loss) => logits(row, &|class, own| match own {
            true => loss.scale * arc_face(nearest(row, class), loss.margin),
            false => loss.scale * nearest(row, class),
        }),
        Loss::SoftTriple(loss) => logits(row, &|class, own| {
            let of_class = &similarities[row][class];
            let weights: Vec<f64> = of_class.iter().map(|s| (s / loss.gamma).exp()).collect();
            let products = weights.iter().zip(of_class).map(|(weight, s)| weight * s);
            let s = products.sum::<f64>() / weights.iter().sum::<f64>();
            loss.la * (s - if own { loss.margin } else { 0.0 })
        }),
        loss => panic!("{loss:?} is no sum over rows of a loss with proxies"),
    };
    if let Loss::ProxyAnchor(loss) = loss {
        return proxy_anchor(loss, &only, similarities[0].len(), labels, weights);
    }
    let rows = (0..labels.len()).map(|row| weights[row] * of_row(row));
    rows.sum::<f64>() / labels.len() as f64
}

fn cross_entropy(logits: &[f64], label: usize) -> f64 {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|x| (x - top).exp()).sum();
    top + sum.ln() - logits[label]
}

fn arc_face(cosine: f64, degrees: f64) -> f64 {
    let (theta, margin) = (cosine.acos(), degrees.to_radians());
    if theta <= std::f64::consts::PI - margin {
        (theta + margin).cos()
    } else {
        cosine - margin * margin.sin()
    }
}

/// `of`: the value of a row with the one proxy of a class.
fn proxy_anchor(
    loss: &ProxyAnchorLoss,
    of: &dyn Fn(usize, usize) -> f64,
    classes: usize,
    labels: &[usize],
    weights: &[f64],
) -> f64 {
    let (mut with_rows, mut positives, mut negatives) = (0, 0.0, 0.0);
    for class in 0..classes {
        let sum = |own: bool, exponent: &dyn Fn(f64) -> f64| -> f64 {
            let side = (0..labels.len()).filter(|row| (labels[*row] == class) == own);
            let terms = side.map(|row| (exponent(of(row, class)) + weights[row] - 1.0).exp());
            terms.sum::<f64>().ln_1p()
        };
        with_rows += usize::from(labels.contains(&class));
        positives += sum(true, &|s| -loss.alpha * (s - loss.margin));
        negatives += sum(false, &|s| loss.alpha * (s + loss.margin));
    }
    positives / with_rows as f64 + negatives / classes as f64
}
