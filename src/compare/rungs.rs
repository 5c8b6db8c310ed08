//! Successive halving: many entries are trained a little, with one seed, and the better half goes on (Jamieson and Talwalkar 2016).
//!
//! A rung trains each entry from its start: the steps of a rung are a half, a quarter, an eighth .. of the entry's own. So every
//! rung costs about as much as the last entries with one seed. Entries that learn slowly at first are lost: on the default sample
//! `arc-face` is the second of 17 losses in the end, and among the last after a quarter of the steps. So up to some twenty are
//! trained in full. Where the time is limited, the best third goes on: of two rungs the first then has more of the steps.

/// The most entries that are trained in full; more are halved first.
pub(super) const MOST_IN_FULL: usize = 20;
/// The most entries of the last rung where the time is limited.
const MOST_AT_LAST: usize = 4;

/// Entries of a comparison that are trained alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rung {
    /// Number of entries.
    pub(super) entries: usize,
    /// Seeds that each is trained with.
    pub(super) seeds: usize,
    /// Part of an entry's own steps.
    pub(super) share: f64,
}

/// Rungs of a comparison; the last trains in full.
pub(super) fn of(entries: usize, seeds: usize) -> Vec<Rung> {
    reduced(entries, MOST_IN_FULL, 2, seeds)
}

/// Rungs where the time is limited, before any part is cut.
pub(super) fn timed(entries: usize) -> Vec<Rung> {
    reduced(entries, MOST_AT_LAST, 3, 1)
}

/// Rungs of which each has one entry in `by` of the one before, until no more than `most` are left.
fn reduced(entries: usize, most: usize, by: usize, seeds: usize) -> Vec<Rung> {
    let mut sizes = vec![entries];
    let mut left = entries;
    while left > most {
        left = left.div_ceil(by);
        sizes.push(left);
    }
    let last = sizes.len() - 1;
    let rung = |(at, entries): (usize, usize)| Rung {
        entries,
        seeds: if at == last { seeds } else { 1 },
        share: (by as f64).powi(at as i32 - last as i32),
    };
    sizes.into_iter().enumerate().map(rung).collect()
}

/// Part of an entry's steps where the time is limited and nothing is cut, `before` rungs before the last.
pub(super) fn timed_share(before: usize) -> f64 {
    3f64.powi(-(before as i32))
}

/// Steps of a rung for an entry with `full` steps.
pub(super) fn steps(full: u64, share: f64) -> u64 {
    ((full as f64 * share) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_half_goes_on_until_twenty_are_left_or_fewer() {
        let sizes = |entries| {
            of(entries, 3)
                .iter()
                .map(|rung| rung.entries)
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(20), [20]);
        assert_eq!(sizes(21), [21, 11]);
        assert_eq!(sizes(160), [160, 80, 40, 20]);
        let of_160 = of(160, 3);
        let steps_of_160 = [0, 1, 2, 3].map(|rung| steps(600, of_160[rung].share));
        assert_eq!(steps_of_160, [75, 150, 300, 600]);
        assert_eq!(
            of_160.iter().map(|rung| rung.seeds).collect::<Vec<_>>(),
            [1, 1, 1, 3]
        );
        assert_eq!(steps(3, 1.0 / 32.0), 1);
    }

    #[test]
    fn where_the_time_is_limited_the_best_third_goes_on() {
        let rungs = timed(11);
        assert_eq!(
            rungs.iter().map(|rung| rung.entries).collect::<Vec<_>>(),
            [11, 4]
        );
        assert_eq!([0, 1].map(|rung| steps(400, rungs[rung].share)), [133, 400]);
        assert_eq!(timed(4).len(), 1);
    }
}
