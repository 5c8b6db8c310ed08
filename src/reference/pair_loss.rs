//! Losses of pairs, in distances or similarities, one anchor after the other.

use crate::cpu::Distance;
use crate::rules::losses::Loss;

/// A pair of an anchor, as a loss of pairs sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairOfAnchor {
    /// Similarity of the two unit rows.
    pub similarity: f64,
    /// Similarity that gives the weights that a loss holds constant; to differentiate, leave it as it is.
    pub held: f64,
    /// Number of times that the pair counts.
    pub times: f64,
    /// Number of the other row among the anchors, if the references are the anchors themselves.
    pub other: Option<usize>,
}

/// The positives and the negatives of an anchor.
pub type PairsOfAnchor = [Vec<PairOfAnchor>; 2];

/// A loss of pairs, as its paper or PML writes it: in distances or similarities, one anchor after the other.
///
/// # Panics
/// For a loss of triplets, and for one with proxies, which [`super::proxy_loss()`] computes.
pub fn pair_loss(loss: &Loss, distance: Distance, anchors: &[PairsOfAnchor]) -> f64 {
    let by = By(distance);
    let rows = |of: &dyn Fn(&PairsOfAnchor) -> f64| -> Vec<(f64, f64)> {
        anchors.iter().map(|sides| (of(sides), 1.0)).collect()
    };
    match loss {
        Loss::TripletMargin(_) => panic!("a loss of triplets"),
        Loss::Contrastive(loss) => {
            let positives = by.hinges(anchors, 0, &|d| by.farther(d, loss.pos_margin));
            let negatives = by.hinges(anchors, 1, &|d| by.farther(loss.neg_margin, d));
            mean(&positives, &above_zero) + mean(&negatives, &above_zero)
        }
        Loss::Margin(loss) => {
            let positive = |d: f64| by.farther(d, loss.beta) + loss.margin;
            let negative = |d: f64| by.farther(loss.beta, d) + loss.margin;
            let mut terms = by.hinges(anchors, 0, &positive);
            terms.extend(by.hinges(anchors, 1, &negative));
            mean(&terms, &above_zero)
        }
        Loss::MultiSimilarity(loss) => {
            let soft = |side: &[PairOfAnchor], scale: f64, of: &dyn Fn(f64) -> f64| {
                let mut exponents = by.of_side(side, &|d| scale * of(d));
                exponents.push(0.0);
                log_sum(exponents) / scale
            };
            let of = |[positives, negatives]: &PairsOfAnchor| {
                soft(positives, loss.alpha, &|d| by.farther(d, loss.base))
                    + soft(negatives, loss.beta, &|d| by.farther(loss.base, d))
            };
            mean(&rows(&of), &every)
        }
        Loss::NtXent(loss) => by.nt_xent(anchors, loss.temperature),
        Loss::SupCon(loss) => {
            if anchors.iter().all(|[_, negatives]| negatives.is_empty()) {
                return 0.0;
            }
            mean(
                &rows(&|sides| by.sup_con(sides, loss.temperature)),
                &above_zero,
            )
        }
        Loss::Circle(loss) => mean(
            &rows(&|sides| circle(sides, loss.m, loss.gamma)),
            &above_zero,
        ),
        Loss::GeneralizedLiftedStructure(loss) => {
            let of = |[positives, negatives]: &PairsOfAnchor| {
                let positives = by.of_side(positives, &|d| by.farther(d, loss.pos_margin));
                let negatives = by.of_side(negatives, &|d| by.farther(loss.neg_margin, d));
                relu(log_sum(positives) + log_sum(negatives))
            };
            mean(&rows(&of), &every)
        }
        Loss::LiftedStructure(loss) => {
            by.lifted_structure(anchors, [loss.pos_margin, loss.neg_margin])
        }
        Loss::Nca(loss) => {
            let exponent = |pair: &PairOfAnchor| loss.softmax_scale * by.nearness(pair);
            let of = |[positives, negatives]: &PairsOfAnchor| {
                let all = positives.iter().chain(negatives).map(exponent).collect();
                log_sum(all) - log_sum(positives.iter().map(exponent).collect())
            };
            let rows = anchors
                .iter()
                .filter(|[positives, _]| !positives.is_empty());
            let terms: Vec<_> = rows.map(|sides| (of(sides), 1.0)).collect();
            mean(&terms, &every)
        }
        loss => panic!("{loss:?} learns proxies"),
    }
}

/// Measure that PML compares by: similarity or distance.
#[derive(Clone, Copy)]
struct By(Distance);

impl By {
    fn value(self, similarity: f64) -> f64 {
        match self.0 {
            Distance::Cosine => similarity,
            Distance::L2 => (2.0 - 2.0 * similarity).max(0.0).sqrt(),
        }
    }

    /// Amount by which `a` is farther than `b`.
    fn farther(self, a: f64, b: f64) -> f64 {
        match self.0 {
            Distance::Cosine => b - a,
            Distance::L2 => a - b,
        }
    }

    fn nearness(self, pair: &PairOfAnchor) -> f64 {
        self.farther(0.0, self.value(pair.similarity))
    }

    fn of_side(self, side: &[PairOfAnchor], of: &dyn Fn(f64) -> f64) -> Vec<f64> {
        let values = side.iter().map(|pair| self.value(pair.similarity));
        values.map(of).collect()
    }

    /// The part of `of` above zero for each pair of a side, and the number of times that the pair counts.
    fn hinges(
        self,
        anchors: &[PairsOfAnchor],
        side: usize,
        of: &dyn Fn(f64) -> f64,
    ) -> Vec<(f64, f64)> {
        let pairs = anchors.iter().flat_map(|sides| &sides[side]);
        let hinge = |pair: &PairOfAnchor| relu(of(self.value(pair.similarity)));
        pairs.map(|pair| (hinge(pair), pair.times)).collect()
    }

    fn nt_xent(self, anchors: &[PairsOfAnchor], temperature: f64) -> f64 {
        let mut terms = Vec::new();
        for [positives, negatives] in anchors {
            for positive in positives {
                let own = self.nearness(positive) / temperature;
                let others = negatives.iter().map(|negative| {
                    let x = self.nearness(negative) / temperature;
                    negative.times * (x - own).exp()
                });
                terms.push((others.sum::<f64>().ln_1p(), positive.times));
            }
        }
        mean(&terms, &every)
    }

    fn sup_con(self, [positives, negatives]: &PairsOfAnchor, temperature: f64) -> f64 {
        let exponent = |pair: &PairOfAnchor| self.nearness(pair) / temperature;
        let all = log_sum(positives.iter().chain(negatives).map(exponent).collect());
        let sum: f64 = positives.iter().map(exponent).sum();
        if positives.is_empty() {
            0.0
        } else {
            all - sum / positives.len() as f64
        }
    }

    fn lifted_structure(
        self,
        anchors: &[PairsOfAnchor],
        [pos_margin, neg_margin]: [f64; 2],
    ) -> f64 {
        if anchors.iter().all(|[_, negatives]| negatives.is_empty()) {
            return 0.0;
        }
        let mut terms = Vec::new();
        for (anchor, [positives, _]) in anchors.iter().enumerate() {
            for positive in positives {
                let both = std::iter::once(anchor).chain(positive.other);
                let negatives = both.flat_map(|row| &anchors[row][1]);
                let sum: f64 = negatives
                    .map(|n| n.times * self.farther(neg_margin, self.value(n.similarity)).exp())
                    .sum();
                let log = if sum > 0.0 { sum.ln() } else { 0.0 };
                let value = self.value(positive.similarity);
                let lost = relu(self.farther(value, pos_margin) + log);
                terms.push((lost * lost / 2.0, positive.times));
            }
        }
        mean(&terms, &every)
    }
}

fn circle([positives, negatives]: &PairsOfAnchor, m: f64, gamma: f64) -> f64 {
    if positives.is_empty() || negatives.is_empty() {
        return 0.0;
    }
    let of_positive =
        |pair: &PairOfAnchor| -gamma * relu(1.0 + m - pair.held) * (pair.similarity - (1.0 - m));
    let of_negative = |pair: &PairOfAnchor| gamma * relu(pair.held + m) * (pair.similarity - m);
    let positives = log_sum(positives.iter().map(of_positive).collect());
    let negatives = log_sum(negatives.iter().map(of_negative).collect());
    softplus(positives + negatives)
}

fn relu(x: f64) -> f64 {
    x.max(0.0)
}

fn softplus(x: f64) -> f64 {
    relu(x) + (-x.abs()).exp().ln_1p()
}

/// Log-sum-exp; 0 without exponents.
fn log_sum(exponents: Vec<f64>) -> f64 {
    let top = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = exponents.iter().map(|x| (x - top).exp()).sum();
    if exponents.is_empty() {
        0.0
    } else {
        top + sum.ln()
    }
}

/// Mean of the `(term, times)` whose term is `counted`, each as often as `times`.
fn mean(terms: &[(f64, f64)], counted: &dyn Fn(f64) -> bool) -> f64 {
    let counted = terms.iter().filter(|(term, _)| counted(*term));
    let (sum, times) = counted.fold((0.0, 0.0), |(sum, all), (term, times)| {
        (sum + term * times, all + times)
    });
    if times == 0.0 { 0.0 } else { sum / times }
}

fn above_zero(term: f64) -> bool {
    term > 0.0
}

fn every(_: f64) -> bool {
    true
}
