//! [`Warnings`]: when nothing is learned, or less than it seems, and the likely cause.

use crate::config::TrainConfig;
use crate::dataset::{Dataset, Sides};
use crate::linear::Unfit;
use crate::losses::Loss;
use crate::miners::{Miner, TypeOfTriplets};
use crate::trainer::StepReport;

/// Steps without an active triplet before it is said.
const QUIET_STEPS: u64 = 20;

/// What a run was warned of, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    quiet_steps: u64,
    quiet_said: bool,
}

impl Warnings {
    /// What can be told before the first step.
    pub(crate) fn before(dataset: &Dataset, sides: &Sides, config: &TrainConfig) -> Self {
        let mut texts: Vec<String> = nothing_to_learn(config).into_iter().collect();
        let mut sizes = vec![0u32; dataset.class_names.len()];
        for row in &sides.train {
            sizes[dataset.labels[*row as usize] as usize] += 1;
        }
        let mut lone = dataset
            .class_names
            .iter()
            .zip(&sizes)
            .filter(|(_, size)| **size == 1);
        if let Some((name, _)) = lone.next() {
            let others = match lone.count() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            texts.push(format!(
                "Class \"{name}\"{others} has one training row: it is never a positive of another row, only a negative."
            ));
        }
        let rows = sides.train.len();
        if config.memory_size > rows {
            texts.push(format!(
                "memory_size {} is larger than the {rows} training rows: rows are stored more than once, and an older \
                 copy of a row is an easy positive of itself.",
                config.memory_size
            ));
        }
        Self {
            texts,
            ..Self::default()
        }
    }

    /// Takes in why there is no linear baseline.
    pub(crate) fn see_no_linear(&mut self, unfit: &Unfit) {
        self.texts.push(format!(
            "The head is compared with raw features only, not with a linear map (LDA): {unfit}."
        ));
    }

    /// Looks at a step.
    pub(crate) fn see(&mut self, report: &StepReport, config: &TrainConfig) {
        let mining = &report.mining;
        if mining.active > 0 {
            self.quiet_steps = 0;
            return;
        }
        self.quiet_steps += 1;
        if self.quiet_steps < QUIET_STEPS || self.quiet_said {
            return;
        }
        self.quiet_said = true;
        let cause = if mining.valid == 0 && config.m_per_class == config.batch_size {
            "each batch is of one class: lower m_per_class"
        } else if mining.valid == 0 && config.memory_size == 0 {
            "batches hold no two rows of a class: set memory_size or m_per_class, or raise batch_size"
        } else if mining.valid == 0 {
            "batch and memory hold no two rows of a class: raise memory_size or set m_per_class"
        } else if mining.mined == 0 && mining.easy == mining.valid {
            "every triplet is easy, the margin is met everywhere: it has learned what this margin can teach, or \
             miner.margin and loss.margin are too small"
        } else if mining.mined == 0 {
            "the miner keeps none of the triplets there are: change its arguments, or try type_of_triplets all or semihard"
        } else {
            "the mined triplets have no loss: raise loss.margin"
        };
        self.texts.push(format!(
            "No active triplet for {QUIET_STEPS} steps (up to step {}): nothing is learned. Likely, {cause}.",
            report.step
        ));
    }

    pub(crate) fn texts(&self) -> &[String] {
        &self.texts
    }
}

/// Settings under which no triplet can be both mined and active.
fn nothing_to_learn(config: &TrainConfig) -> Option<String> {
    let Loss::TripletMargin(loss) = &config.loss;
    // The band of s_ap - s_an that is mined lies above `low`, and up to `high`.
    let (low, high, what) = match &config.miner {
        Miner::None => (-2.0, 2.0, "no miner"),
        Miner::BatchHard(_)
        | Miner::BatchEasyHard(_)
        | Miner::MultiSimilarity(_)
        | Miner::PairMargin(_)
        | Miner::FacenetSemihard(_)
        | Miner::DistanceWeighted(_) => (-2.0, 2.0, "the miner"),
        Miner::TripletMargin(miner) => match miner.type_of_triplets {
            TypeOfTriplets::All => (-2.0, miner.margin, "the miner"),
            TypeOfTriplets::Easy => (miner.margin, 2.0, "the easy miner"),
            TypeOfTriplets::Semihard => (0.0, miner.margin, "the semihard miner"),
            TypeOfTriplets::Hard => (-2.0, miner.margin.min(0.0), "the hard miner"),
        },
    };
    if low >= high {
        Some(format!(
            "Nothing can be mined: {what} keeps s_ap - s_an above {low} and up to {high}. Change miner.margin."
        ))
    } else if low >= loss.margin && !loss.smooth_loss {
        Some(format!(
            "Every loss is zero: {what} keeps s_ap - s_an above {low}, and the loss is active only below {}. Raise \
             loss.margin above {low}.",
            loss.margin
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Side;
    use crate::miners::MiningCounts;

    fn config(sets: &[&str]) -> TrainConfig {
        sets.iter().fold(TrainConfig::default(), |config, set| {
            config.with_set(set).expect("sets")
        })
    }

    fn before(sets: &[&str]) -> Vec<String> {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let config = config(sets);
        let sides = Sides::new(&dataset, &config).expect("splits");
        assert_eq!(sides.of(Side::Train).len(), 808);
        Warnings::before(&dataset, &sides, &config).texts
    }

    #[test]
    fn settings_under_which_every_loss_is_zero_are_named() {
        assert_eq!(before(&["memory_size=512"]), [""; 0]);
        for sets in [
            &["memory_size=512", "miner.type_of_triplets=easy"][..],
            &["memory_size=512", "loss.margin=0"],
            &["memory_size=512", "miner.name=none", "loss.margin=-2"],
        ] {
            assert!(
                before(sets)[0].starts_with("Every loss is zero"),
                "{sets:?}"
            );
        }
        let warnings = before(&["memory_size=512", "miner.margin=0"]);
        assert!(
            warnings[0].starts_with("Nothing can be mined: the semihard miner"),
            "{warnings:?}"
        );
        let easy = before(&[
            "memory_size=512",
            "miner.type_of_triplets=easy",
            "loss.margin=0.3",
        ]);
        assert_eq!(easy, [""; 0]);
    }

    #[test]
    fn a_memory_larger_than_the_training_rows_is_named() {
        assert!(
            before(&["memory_size=1024"])[0].starts_with("memory_size 1024 is larger than the 808")
        );
    }

    #[test]
    fn a_class_with_one_row_is_named() {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        dataset.class_names.push("only once".to_owned());
        dataset.labels[7] = 10;
        let config = config(&[
            "memory_size=512",
            "test_fraction=0",
            "validation_fraction=0",
        ]);
        let sides = Sides::new(&dataset, &config).expect("splits");
        let warnings = Warnings::before(&dataset, &sides, &config).texts;
        assert!(
            warnings[0].starts_with("Class \"only once\" has one training row"),
            "{warnings:?}"
        );
    }

    #[test]
    fn twenty_steps_without_an_active_triplet_are_said_once_with_the_cause() {
        let config = config(&[]);
        let step = |step, mining| StepReport {
            step,
            loss: 0.0,
            mining,
            memory_bytes: 0,
            pml_bytes: 0,
        };
        let easy = MiningCounts {
            valid: 10,
            easy: 10,
            ..MiningCounts::default()
        };
        let active = MiningCounts {
            valid: 10,
            active: 1,
            ..MiningCounts::default()
        };
        let mut warnings = Warnings::default();
        for i in 1..20 {
            warnings.see(&step(i, easy), &config);
        }
        warnings.see(&step(20, active), &config);
        assert!(warnings.texts().is_empty());
        for i in 21..100 {
            warnings.see(&step(i, easy), &config);
        }
        assert_eq!(warnings.texts().len(), 1);
        assert!(
            warnings.texts()[0].contains("up to step 40")
                && warnings.texts()[0].contains("every triplet is easy")
        );
        let one_class = self::config(&["memory_size=0", "m_per_class=32"]);
        let mut warnings = Warnings::default();
        for i in 1..=20 {
            warnings.see(&step(i, MiningCounts::default()), &one_class);
        }
        assert!(warnings.texts()[0].contains("each batch is of one class"));
    }
}
