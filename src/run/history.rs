//! [`Thinned`]: the steps and evaluations of a run that are kept: all of a short run; of a long one every second, fourth, eighth ..
//! and the last, so that a run of millions of steps holds no more than one of some thousands.

use std::fmt::{self, Formatter};

use serde::Deserializer;
use serde::de::{self, SeqAccess, Visitor};

use crate::base::error::Result;
use crate::base::memory::reserve;
use crate::rules::miners::MiningCounts;
use crate::train::trainer::{Evaluation, StepReport};

/// The most steps that are kept, beside the last.
const MOST_STEPS: u64 = 16_384;
/// The most evaluations that are kept, beside the first, the best and the last.
const MOST_EVALUATIONS: u64 = 4_096;

/// The most evaluations that are read from a checkpoint.
const MOST_READ: usize = 1 << 16;

/// Spacing of the entries that are kept of `count` numbered ones: the least power of two that keeps no more than `most`.
fn one_in(count: u64, most: u64) -> u64 {
    count.div_ceil(most).max(1).next_power_of_two()
}

/// Entries in the order of their steps, thinned to a bounded number.
#[derive(Clone, Debug)]
pub(super) struct Thinned<T> {
    kept: Vec<T>,
    /// Spacing of the entries that are kept.
    one_in: u64,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            one_in: 1,
        }
    }
}

impl<T> std::ops::Deref for Thinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.kept
    }
}

/// Reads at most as many evaluations as a run of an earlier version kept: an endless list is not held.
///
/// # Errors
/// Errors of the reader, and an error for more evaluations.
pub(super) fn few<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Evaluation>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Vec<Evaluation>;

        fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MOST_READ} evaluations")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut few = Vec::new();
            while let Some(evaluation) = all.next_element()? {
                if few.len() == MOST_READ {
                    return Err(de::Error::invalid_length(MOST_READ + 1, &self));
                }
                few.push(evaluation);
            }
            Ok(few)
        }
    }
    from.deserialize_seq(Few)
}

impl Thinned<StepReport> {
    /// Spacing of the steps that are kept of a run of `steps` steps.
    pub(super) fn steps_in(steps: u64) -> u64 {
        one_in(steps, MOST_STEPS)
    }

    /// Reserves memory for all entries that a run of `steps` steps keeps: it is held from the start, and does not grow by the step.
    ///
    /// # Errors
    /// [`crate::Error::NoMemory`].
    pub(super) fn make_room(&mut self, steps: u64) -> Result<()> {
        let len = self.kept.len();
        let most = steps.min(MOST_STEPS) as usize + 1;
        reserve(
            &mut self.kept,
            most.saturating_sub(len) as u64,
            "the history of the run",
        )?;
        // Written, so that the system commits the memory now. The compiler must not see that nobody reads it.
        let blank = StepReport {
            step: 0,
            loss: 0.0,
            mining: MiningCounts::default(),
            memory_bytes: 0,
            pml_bytes: 0,
        };
        self.kept.resize(most.max(len), std::hint::black_box(blank));
        self.kept.truncate(len);
        Ok(())
    }

    /// Adds the next step.
    pub(super) fn push(&mut self, report: StepReport) {
        let one_in = Self::steps_in(report.step);
        self.add(report, one_in, |report| report.step.is_multiple_of(one_in));
    }
}

impl Thinned<Evaluation> {
    /// Adds the next evaluation of a run that is evaluated after every `every` steps. `better` tells if the first of two is the
    /// better one: the best is kept.
    pub(super) fn push_evaluation(
        &mut self,
        evaluation: Evaluation,
        every: u64,
        better: impl Fn(&Evaluation, &Evaluation) -> bool,
    ) {
        let one_in = one_in(evaluation.step / every, MOST_EVALUATIONS);
        let best = self.iter().reduce(|best, next| match better(next, best) {
            true => next,
            false => best,
        });
        let best = best.map(|best| best.step);
        self.add(evaluation, one_in, |evaluation| {
            let number = evaluation.step / every;
            number.is_multiple_of(one_in) || best == Some(evaluation.step)
        });
    }
}

impl<T> Thinned<T> {
    /// Adds an entry. Of the entries before it those for which `stays` holds are kept: one in `one_in`.
    fn add(&mut self, entry: T, one_in: u64, stays: impl Fn(&T) -> bool) {
        // The entry before was kept only while it was the last.
        if self.kept.last().is_some_and(|last| !stays(last)) {
            self.kept.pop();
        }
        if one_in != self.one_in {
            self.kept.retain(stays);
            self.one_in = one_in;
        }
        self.kept.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::diagnostics::Diagnostics;

    #[test]
    fn a_run_holds_the_room_of_its_steps_from_the_start() {
        for steps in [0, 5, MOST_STEPS - 1, 3 * MOST_STEPS] {
            let mut kept = Thinned::default();
            kept.make_room(steps).expect("there is memory");
            let room = kept.kept.capacity();
            assert_eq!(room as u64, steps.min(MOST_STEPS) + 1);
            (1..=steps).for_each(|step| kept.push(report(step)));
            assert_eq!(kept.kept.capacity(), room);
            // Also for a run that goes on.
            kept.make_room(steps).expect("there is memory");
            assert_eq!(kept.last().map_or(0, |last| last.step), steps);
        }
    }

    fn report(step: u64) -> StepReport {
        StepReport {
            step,
            loss: 0.5,
            mining: MiningCounts::default(),
            memory_bytes: 0,
            pml_bytes: 0,
        }
    }

    #[test]
    fn a_long_run_keeps_an_even_part_of_its_steps_and_the_last() {
        let mut kept = Thinned::default();
        for step in 1..=MOST_STEPS {
            kept.push(report(step));
        }
        assert_eq!(kept.len() as u64, MOST_STEPS, "all of a short run");
        for step in MOST_STEPS + 1..=10 * MOST_STEPS + 7 {
            kept.push(report(step));
            assert!(kept.len() as u64 <= MOST_STEPS + 1);
            assert_eq!(kept.last().map(|last| last.step), Some(step));
        }
        let steps: Vec<u64> = kept.iter().map(|kept| kept.step).collect();
        let last = 10 * MOST_STEPS + 7;
        let even = (1..last).filter(|step| step % 16 == 0);
        assert_eq!(steps, even.chain([last]).collect::<Vec<_>>());
    }

    #[test]
    fn of_evaluations_the_first_the_best_and_the_last_stay() {
        let best = 25 * 5_001;
        let mut kept = Thinned::default();
        let steps = (0..=25 * 4 * MOST_EVALUATIONS).step_by(25);
        for step in steps
            .clone()
            .chain([steps.clone().last().expect("some") + 1])
        {
            let evaluation = Evaluation {
                step,
                train: None,
                validation: None,
                diagnostics: Diagnostics::default(),
            };
            kept.push_evaluation(evaluation, 25, |one, other| {
                one.step == best && other.step != best
            });
        }
        let steps: Vec<u64> = kept.iter().map(|kept| kept.step).collect();
        assert!(
            steps.len() as u64 <= MOST_EVALUATIONS + 3,
            "{}",
            steps.len()
        );
        assert_eq!(steps[0], 0);
        assert!(steps.contains(&best) && steps.is_sorted());
        assert_eq!(steps.last(), Some(&(25 * 4 * MOST_EVALUATIONS + 1)));
    }
}
