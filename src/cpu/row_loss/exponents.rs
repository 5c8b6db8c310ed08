//! Exponents and margins of pairs, of which sums and slopes are made.

use super::form::{Form, RowCost};
use super::pairs::{Numbers, Pairs};

/// Log-sum-exp over no pairs, in a row's numbers.
pub(super) const EMPTY: f32 = -1e30;

/// `log(exp(a) + exp(b))`.
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + ((a - top).exp() + (b - top).exp()).ln()
}

impl RowCost {
    /// Amount by which a pair misses its margin; 0 if it meets it.
    #[inline(always)]
    pub(super) fn hinge(&self, positive: bool, v: f32) -> f32 {
        if positive {
            (self.margins[0] - v).max(0.0)
        } else {
            (v - self.margins[1]).max(0.0)
        }
    }

    /// The constant factor of a pair in [`Form::Circle`].
    #[inline(always)]
    pub(super) fn relaxed(&self, positive: bool, v: f32) -> f32 {
        if positive {
            (1.0 + self.margins[1] - v).max(0.0)
        } else {
            (v + self.margins[1]).max(0.0)
        }
    }

    /// Computes the exponents of the pairs.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    pub(super) fn exponents(&self, pairs: &Pairs, x: &mut Numbers) {
        let ([scale_p, scale_n], [margin_p, margin_n]) = (self.scales, self.margins);
        match (self.form, pairs.positive) {
            (Form::Contrastive | Form::Margin, _) => {}
            (Form::MultiSimilarity | Form::ProxyAnchor, true) => {
                pairs.each(x, |v| scale_p * (margin_p - v));
            }
            (Form::MultiSimilarity | Form::ProxyAnchor, false) => {
                pairs.each(x, |v| scale_n * (v - margin_n));
            }
            (Form::NtXent | Form::SupCon, _) => pairs.each(x, |v| scale_p * v),
            (Form::Circle, true) => {
                pairs.each(x, |v| -scale_p * self.relaxed(true, v) * (v - margin_p));
            }
            (Form::Circle, false) => {
                pairs.each(x, |v| scale_p * self.relaxed(false, v) * (v - margin_n));
            }
            (Form::GeneralizedLifted | Form::Lifted, true) => pairs.each(x, |v| margin_p - v),
            (Form::GeneralizedLifted | Form::Lifted, false) => pairs.each(x, |v| v - margin_n),
            (Form::Softmax, true) => pairs.each(x, |v| scale_p * (v - margin_p)),
            (Form::ArcFace, true) => {
                let wider = Wider::by(margin_p);
                pairs.each(x, |v| scale_p * wider.than(v).0);
            }
            (Form::Softmax | Form::ArcFace, false) => pairs.each(x, |v| scale_n * v),
        }
        if self.adds_weights() {
            for (x, added) in x.iter_mut().zip(&pairs.added) {
                *x += added;
            }
        }
    }

    /// Log-sum-exp over the negatives of both rows of a positive pair in [`Form::Lifted`], and the amount by which the pair then
    /// misses its margin. `own`, `other`: the log-sum-exp of each row, [`EMPTY`] without negatives.
    pub(super) fn lifted(&self, v: f32, own: f32, other: f32) -> (f64, f32) {
        let log = log_add(f64::from(own), f64::from(other));
        let log = if log <= f64::from(EMPTY) { 0.0 } else { log };
        (log, (f64::from(self.margins[0] - v) + log).max(0.0) as f32)
    }
}

/// Angular margin in radians, with its sine and cosine.
#[derive(Clone, Copy)]
pub(super) struct Wider {
    margin: f32,
    sin: f32,
    cos: f32,
}

impl Wider {
    pub(super) fn by(margin: f32) -> Self {
        let angle = f64::from(margin);
        Self {
            margin,
            sin: libm::sin(angle) as f32,
            cos: libm::cos(angle) as f32,
        }
    }

    /// `cos(acos(v) + margin)`, and its slope; `v - margin sin(margin)` if the angle would pass a half turn, so that it goes on
    /// falling.
    #[inline(always)]
    pub(super) fn than(self, v: f32) -> (f32, f32) {
        const NEAREST: f32 = 1.0 - 1e-7;
        let Self { margin, sin, cos } = self;
        if v < -cos {
            return (v - margin * sin, 1.0);
        }
        let inside = v.abs() <= NEAREST;
        let v = v.clamp(-NEAREST, NEAREST);
        let height = (1.0 - v * v).sqrt();
        let slope = if inside { cos + v / height * sin } else { 0.0 };
        (v * cos - height * sin, slope)
    }
}
