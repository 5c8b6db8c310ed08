//! Successive halving: many entries are trained a little, with one seed, and the better half goes on (Jamieson and Talwalkar 2016).
//!
//! A rung trains each entry from its start: the steps of a rung are a half, a quarter, an eighth .. of the entry's own. So every
//! rung costs about as much as the last entries with one seed. Entries that learn slowly at first are lost: on the default sample
//! `arc-face` is the second of 17 losses in the end, and among the last after a quarter of the steps. So up to some twenty are
//! trained in full.

/// The most entries that are trained in full; more are halved first.
pub(super) const MOST_IN_FULL: usize = 20;

/// Number of entries at each rung; the last number are trained in full.
pub(super) fn sizes(entries: usize) -> Vec<usize> {
    let mut sizes = vec![entries];
    let mut left = entries;
    while left > MOST_IN_FULL {
        left = left.div_ceil(2);
        sizes.push(left);
    }
    sizes
}

/// Steps of rung `rung` of `rungs` for an entry with `full` steps.
pub(super) fn steps(full: u64, rung: usize, rungs: usize) -> u64 {
    (full >> (rungs - rung).min(63)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_half_goes_on_until_twenty_are_left_or_fewer() {
        assert_eq!(sizes(20), [20]);
        assert_eq!(sizes(21), [21, 11]);
        assert_eq!(sizes(160), [160, 80, 40, 20]);
        let steps_of_160 = [0, 1, 2].map(|rung| steps(600, rung, 3));
        assert_eq!(steps_of_160, [75, 150, 300]);
        assert_eq!(steps(3, 0, 5), 1);
    }
}
