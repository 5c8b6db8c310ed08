//! Student's t distribution, as far as intervals need it: the value that it passes with a given probability.

/// Steps of a bisection, enough for 12 digits.
const HALVINGS: usize = 80;
/// The most terms of the continued fraction; a few tens are enough.
const TERMS: usize = 500;

/// The value that a variable of `df` degrees of freedom, above 0 and maybe no whole number, passes with probability `p`,
/// between 0 and 0.5.
pub(crate) fn upper_quantile(p: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high, df) > p && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if tail(middle, df) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability of a value above `t`, which is at least 0.
fn tail(t: f64, df: f64) -> f64 {
    incomplete_beta(df / (df + t * t), df / 2.0, 0.5) / 2.0
}

/// The regularized incomplete beta function, by its continued fraction (DLMF 8.17.22) in Lentz's form.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // It converges fast on this side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let log = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * libm::log(x)
        + b * libm::log1p(-x);
    let apart = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / apart(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in (1..TERMS).map(|m| m as f64) {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / apart(1.0 + term * d);
            c = apart(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= f64::EPSILON * fraction.abs() {
            break;
        }
    }
    libm::exp(log) * fraction / a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_scipy() {
        // scipy.stats.t.isf(p, df)
        for (p, df, expected) in [
            (0.025, 1.0, 12.706204736174705),
            (0.025, 2.0, 4.302652729749464),
            (0.025, 10.0, 2.2281388519862753),
            (0.001, 2.5, 13.822193110865964),
            (0.0012, 4.0, 6.832556046137208),
            (0.00119, 48.7, 3.2057422988076385),
            (0.025, 1000000.0, 1.9599663568141072),
            (0.4, 3.0, 0.2766706623326898),
            (1e-05, 30.0, 5.054032421446494),
        ] {
            let off = (upper_quantile(p, df) / expected - 1.0).abs();
            assert!(off < 1e-9, "{p} {df}: {off}");
        }
    }
}
