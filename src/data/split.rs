//! [`Sides`] of a split: the rows for training, for validation, and for the test at the end.

use rand::seq::SliceRandom as _;

use super::{Dataset, Texts};
use crate::base::error::{Error, Result};
use crate::base::order;
use crate::base::quote::quoted;
use crate::base::rng;
use crate::rules::config::{Split, TrainConfig};

/// Rows of the class of median size up to which whole classes are held out: a random split leaves a class's rows alone on each
/// side.
const FEW_ROWS: u32 = 4;

/// Number of classes from which on whole classes can be held out.
const CLASSES_TO_PART: usize = 20;

/// The column that tells the rows of a second file from those of the first.
pub(super) const SIDE_COLUMN: &str = "side";

/// Rows of a class from which on a stratified split divides it; smaller classes are for training.
const FEWEST_TO_DIVIDE: usize = 3;

/// Random orders of the groups that are tried, of which the best is taken: few, so that it stays a random draw.
const GROUP_ORDERS: usize = 8;
/// Groups for training, test and validation at least, if there are that many: a query of one group is searched among another.
const FEWEST_GROUPS: [usize; 3] = [1, 2, 1];
/// Number of groups from which on two are for validation: a threshold is fitted across them.
const GROUPS_TO_FIT: usize = 8;

/// A side of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Rows that the model is fitted to.
    Train,
    /// Rows whose scores are shown during training.
    Validation,
    /// Rows that are scored once, at the end.
    Test,
}

/// The rows of each side, ascending; no row is on two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// Rows that the model is fitted to.
    pub train: Vec<u32>,
    /// Rows whose scores are shown during training.
    pub validation: Vec<u32>,
    /// Rows that are scored once, at the end.
    pub test: Vec<u32>,
}

impl Side {
    /// Adjective of its rows, as in "test rows".
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Train => "training",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

impl Sides {
    /// The rows of one side.
    pub fn of(&self, side: Side) -> &[u32] {
        match side {
            Side::Train => &self.train,
            Side::Validation => &self.validation,
            Side::Test => &self.test,
        }
    }

    /// Splits the rows as the settings say.
    ///
    /// # Errors
    /// [`Error::Config`] when no two classes are left to train on, or a split column is missing or names no known side.
    pub fn new(dataset: &Dataset, config: &TrainConfig) -> Result<Self> {
        let mut sides = match &config.split {
            Split::Random => {
                let mut rows: Vec<u32> = (0..dataset.rows() as u32).collect();
                rows.shuffle(&mut rng::stream(config.data_seed(), "split"));
                cut(&rows, config)
            }
            Split::Stratified => Self::stratified(dataset, config),
            Split::ByClass => Self::by_class(dataset, config, false),
            Split::ByClassShuffled => Self::by_class(dataset, config, true),
            Split::ByGroup => Self::by_group(dataset, config)?,
            Split::Column(name) => Self::by_column(dataset, name, config)?,
        };
        let mut classes = dataset.labels_of(&sides.train);
        order::sort_numbers(&mut classes);
        classes.dedup();
        if classes.len() < 2 {
            let left = match classes.first() {
                None => "no row is left to train on".to_owned(),
                Some(class) => format!(
                    "only rows of the class {} are left to train on, and nothing can be learned from one class",
                    quoted(&dataset.class_names[*class as usize])
                ),
            };
            let how = match config.split {
                Split::Random | Split::Stratified => "lower test_fraction or validation_fraction",
                Split::ByClass | Split::ByClassShuffled => {
                    "lower test_fraction or validation_fraction, or set split to random"
                }
                Split::ByGroup => "bring more groups, or set split to another",
                Split::Column(_) => "choose another split",
            };
            return Err(Error::Config(format!("{left}: {how}")));
        }
        for side in [&mut sides.train, &mut sides.validation, &mut sides.test] {
            order::sort_numbers(side);
        }
        Ok(sides)
    }

    /// Divides every class in the same proportions; the sides are as large as with [`Split::Random`].
    fn stratified(dataset: &Dataset, config: &TrainConfig) -> Self {
        let mut rng = rng::stream(config.data_seed(), "split");
        let mut classes = vec![Vec::new(); dataset.class_names.len()];
        for (row, label) in (0..).zip(&dataset.labels) {
            classes[*label as usize].push(row);
        }
        // In random order, so that equal remainders are not always rounded up for the same classes.
        classes.shuffle(&mut rng);
        let mut sides = Self::default();
        let few = |rows: &Vec<u32>| rows.len() < FEWEST_TO_DIVIDE;
        sides.train = classes.extract_if(.., |rows| few(rows)).flatten().collect();
        classes.iter_mut().for_each(|rows| rows.shuffle(&mut rng));
        for (side, fraction) in [
            (&mut sides.test, config.test_fraction),
            (&mut sides.validation, config.validation_fraction),
        ] {
            let shares = shares(&classes, fraction);
            for (rows, taken) in classes.iter_mut().zip(shares) {
                side.extend(rows.drain(..taken));
            }
        }
        sides.train.extend(classes.into_iter().flatten());
        sides
    }

    /// Puts whole classes on a side, so that the model has never seen test classes.
    fn by_class(dataset: &Dataset, config: &TrainConfig, shuffled: bool) -> Self {
        let mut classes: Vec<u32> = (0..dataset.class_names.len() as u32).collect();
        if shuffled {
            classes.shuffle(&mut rng::stream(config.data_seed(), "split"));
        }
        let sides = cut(&classes, config);
        let rows = |classes: &[u32]| {
            let mut chosen = vec![false; dataset.class_names.len()];
            classes
                .iter()
                .for_each(|class| chosen[*class as usize] = true);
            (0..dataset.rows() as u32)
                .filter(|row| chosen[dataset.labels[*row as usize] as usize])
                .collect()
        };
        Self {
            train: rows(&sides.train),
            validation: rows(&sides.validation),
            test: rows(&sides.test),
        }
    }

    /// Puts whole groups on a side, so that each class is divided in about the requested proportions. In each of several random
    /// orders a group goes to the side that misses most of its rows; the order with the least deviation is taken. If there are
    /// three groups, two are for the test, so that one can be searched among the other.
    fn by_group(dataset: &Dataset, config: &TrainConfig) -> Result<Self> {
        let groups = dataset.groups(config)?.unwrap_or_default();
        let mut rng = rng::stream(config.data_seed(), "split");
        let count = groups.iter().max().map_or(0, |last| *last as usize + 1);
        let mut rows = vec![Vec::new(); count];
        for (row, group) in (0..).zip(&groups) {
            rows[*group as usize].push(row);
        }
        let dealing = Dealing::new(dataset, &rows, config);
        let mut order: Vec<usize> = (0..count).collect();
        let mut best: Option<(f64, Vec<usize>)> = None;
        for _ in 0..GROUP_ORDERS {
            order.shuffle(&mut rng);
            let (off, side_of) = dealing.deal(&order);
            if best.as_ref().is_none_or(|(least, _)| off < *least) {
                best = Some((off, side_of));
            }
        }
        let mut sides = Self::default();
        let (_, side_of) = best.unwrap_or_default();
        for (rows, side) in rows.into_iter().zip(side_of) {
            let side = match side {
                0 => &mut sides.train,
                1 => &mut sides.test,
                _ => &mut sides.validation,
            };
            side.extend(rows);
        }
        Ok(sides)
    }

    fn by_column(dataset: &Dataset, name: &str, config: &TrainConfig) -> Result<Self> {
        let values = dataset.text_column("split", name)?;
        let mut sides = Self::default();
        for (row, value) in (0..).zip(values.iter()) {
            match side_of(value) {
                Some(Side::Train) => sides.train.push(row),
                Some(Side::Validation) => sides.validation.push(row),
                Some(Side::Test) => sides.test.push(row),
                None => {
                    return Err(Error::Config(format!(
                        "split: column {} holds {} in row {}: expected train, validation (also val, valid, dev or eval) or test",
                        quoted(name),
                        quoted(value),
                        row + 1
                    )));
                }
            }
        }
        // A second file names the test rows, not the validation rows, and so may a column.
        if sides.validation.is_empty() {
            sides
                .train
                .shuffle(&mut rng::stream(config.data_seed(), "split"));
            let keep = sides.train.len() - part(sides.train.len(), config.validation_fraction);
            sides.validation = sides.train.split_off(keep);
        }
        Ok(sides)
    }
}

/// Whole groups that are dealt to the sides: train, test and validation.
struct Dealing {
    /// Number of rows of each class, by group.
    classes: Vec<Vec<(usize, f64)>>,
    /// Rows of each class.
    sizes: Vec<u32>,
    /// Share of the rows that each side shall have, and its groups at least.
    parts: [f64; 3],
    fewest: [usize; 3],
}

impl Dealing {
    fn new(dataset: &Dataset, rows: &[Vec<u32>], config: &TrainConfig) -> Self {
        let classes = rows.iter().map(|rows: &Vec<u32>| {
            let mut labels = dataset.labels_of(rows);
            order::sort_numbers(&mut labels);
            let runs = labels.chunk_by(|a, b| a == b);
            runs.map(|run| (run[0] as usize, run.len() as f64))
                .collect()
        });
        let tested = config.test_fraction;
        let steering = (1.0 - tested) * config.validation_fraction;
        let parts = [1.0 - tested - steering, tested, steering];
        // A side without a fraction needs no group; if groups are few, validation gives way first, then the test.
        let mut fewest = FEWEST_GROUPS;
        fewest[2] += usize::from(rows.len() >= GROUPS_TO_FIT);
        for (fewest, part) in fewest.iter_mut().zip(parts) {
            if part <= 0.0 {
                *fewest = 0;
            }
        }
        for side in [2, 1] {
            let over = fewest.iter().sum::<usize>().saturating_sub(rows.len());
            fewest[side] -= over.min(fewest[side]);
        }
        Self {
            classes: classes.collect(),
            sizes: dataset.class_sizes(),
            parts,
            fewest,
        }
    }

    /// Side of each group if they are dealt in this order, each to the side that misses its rows most; and how far the sides are
    /// off their shares.
    fn deal(&self, order: &[usize]) -> (f64, Vec<usize>) {
        let Self { classes, sizes, .. } = self;
        let (parts, count) = (self.parts, order.len());
        let missing = |part: f64| sizes.iter().map(|size| part * f64::from(*size)).collect();
        let mut missing: [Vec<f64>; 3] = parts.map(missing);
        let mut wanted = self.fewest;
        let mut side_of = vec![0; count];
        for (done, group) in order.iter().enumerate() {
            let is_short = wanted.iter().sum::<usize>() >= count - done;
            let gain = |side: usize| -> f64 {
                let of_class = |(class, rows): &(usize, f64)| {
                    missing[side][*class] * rows / f64::from(sizes[*class])
                };
                classes[*group].iter().map(of_class).sum()
            };
            let may = |side: &usize| parts[*side] > 0.0 && (!is_short || wanted[*side] > 0);
            let most = |a: &usize, b: &usize| gain(*a).total_cmp(&gain(*b)).then(b.cmp(a));
            let side = (0..3).filter(may).max_by(most).unwrap_or(0);
            for (class, rows) in &classes[*group] {
                missing[side][*class] -= rows;
            }
            wanted[side] = wanted[side].saturating_sub(1);
            side_of[*group] = side;
        }
        let off = missing.iter().flat_map(|missing| missing.iter().zip(sizes));
        let off = off.map(|(missing, size)| missing * missing / f64::from(*size).max(1.0));
        (off.sum(), side_of)
    }
}

/// The side that a cell of a split column names, whatever its case.
fn side_of(cell: &str) -> Option<Side> {
    match cell.trim().to_ascii_lowercase().as_str() {
        "train" | "training" => Some(Side::Train),
        "validation" | "valid" | "val" | "dev" | "eval" => Some(Side::Validation),
        "test" | "testing" => Some(Side::Test),
        _ => None,
    }
}

impl Dataset {
    /// Notes if another split than a random one suits these rows.
    pub(super) fn note_split(&mut self) {
        let note = if let Some(column) = self.split_column() {
            format!(
                "the column {} reads like a split, and is used as one unless split is set to another: it says which rows train, validate and are tested",
                quoted(column)
            )
        } else if let Some(rows) = self.few_rows_a_class() {
            format!(
                "at least half of the classes have {rows} rows or fewer: unless split is set or a test file is given, whole classes are held \
                 out (split=by-class-shuffled), so that a tested row has another of its class beside it"
            )
        } else {
            return;
        };
        self.notes.push(note);
    }

    /// Rows of the class of median size, if they are so few that a random split would part them.
    pub(super) fn few_rows_a_class(&self) -> Option<u32> {
        let mut sizes = self.class_sizes();
        order::sort_numbers(&mut sizes);
        let middle = *sizes.get(sizes.len() / 2)?;
        (sizes.len() >= CLASSES_TO_PART && middle <= FEW_ROWS).then_some(middle)
    }

    /// The first column that reads like a split: each of its cells names a side, and some but not all name training.
    pub(super) fn split_column(&self) -> Option<&str> {
        let reads = |values: &Texts| {
            let sides: Option<Vec<Side>> = values.iter().map(side_of).collect();
            sides.is_some_and(|sides| {
                let trains = |side: &&Side| **side == Side::Train;
                (1..sides.len()).contains(&sides.iter().filter(trains).count())
            })
        };
        let found = self.columns.iter().find(|(_, values)| reads(values));
        found.map(|(name, _)| name.as_str())
    }
}

/// Cuts the first part for training, the last for the test, and the rest between them for validation.
fn cut(items: &[u32], config: &TrainConfig) -> Sides {
    let kept = items.len() - part(items.len(), config.test_fraction);
    let train = kept - part(kept, config.validation_fraction);
    Sides {
        train: items[..train].to_vec(),
        validation: items[train..kept].to_vec(),
        test: items[kept..].to_vec(),
    }
}

/// Rows of each class for a fraction of all rows: each class's part rounded down, and one row more for the classes that lost most
/// by rounding (the first of equals), until the sum is the fraction of all rows, rounded.
fn shares(classes: &[Vec<u32>], fraction: f64) -> Vec<usize> {
    let all: u64 = classes.iter().map(|rows| rows.len() as u64).sum();
    let wanted = part(all as usize, fraction) as u64;
    if wanted == 0 {
        return vec![0; classes.len()];
    }
    let product = |rows: &Vec<u32>| rows.len() as u64 * wanted;
    let mut shares: Vec<u64> = classes.iter().map(|rows| product(rows) / all).collect();
    let mut order: Vec<usize> = (0..classes.len()).collect();
    let rest = |class: usize| product(&classes[class]) % all;
    order::sort_places(&mut order, &|a, b| rest(b).cmp(&rest(a)));
    let left = wanted - shares.iter().sum::<u64>();
    for class in order.into_iter().take(left as usize) {
        shares[class] += 1;
    }
    shares.into_iter().map(|share| share as usize).collect()
}

/// A fraction of `count`, to the nearest, halves up.
fn part(count: usize, fraction: f64) -> usize {
    ((count as f64 * fraction).round() as usize).min(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(dataset: &Dataset, config: &TrainConfig) -> [usize; 3] {
        let sides = Sides::new(dataset, config).expect("splits");
        [Side::Train, Side::Validation, Side::Test].map(|side| sides.of(side).len())
    }

    #[test]
    fn the_default_demo_keeps_150_classes_for_the_end_and_50_to_steer() {
        let dataset = Dataset::sample("many-classes", 0).expect("is there");
        let config = dataset.default_config();
        assert_eq!(sizes(&dataset, &config), [4500, 500, 1500]);
        let sides = Sides::new(&dataset, &config).expect("splits");
        assert!(
            sides
                .test
                .iter()
                .all(|row| dataset.labels[*row as usize] >= 500)
        );
        assert!(
            sides
                .train
                .iter()
                .all(|row| dataset.labels[*row as usize] < 450)
        );
    }

    #[test]
    fn digits_split_as_the_baselines_of_pml_did() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let mut config = dataset.default_config();
        (config.test_fraction, config.validation_fraction) = (0.5, 0.0);
        assert_eq!(sizes(&dataset, &config), [898, 0, 899]);
        config.split = Split::ByClass;
        assert_eq!(sizes(&dataset, &config), [901, 0, 896]);
    }

    #[test]
    fn a_data_seed_holds_the_split_whatever_the_seed() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let sides = |seed, data_seed| {
            let config = TrainConfig {
                seed,
                data_seed,
                ..dataset.default_config()
            };
            Sides::new(&dataset, &config).expect("splits")
        };
        assert_eq!(sides(1, Some(0)), sides(0, None));
        assert_ne!(sides(1, None), sides(0, None));
    }

    #[test]
    fn sides_share_no_row_and_leave_none_out() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        for split in [
            Split::Random,
            Split::Stratified,
            Split::ByClass,
            Split::ByClassShuffled,
        ] {
            let config = TrainConfig {
                split,
                ..dataset.default_config()
            };
            let sides = Sides::new(&dataset, &config).expect("splits");
            let mut rows = [sides.train, sides.validation, sides.test].concat();
            rows.sort_unstable();
            assert!(rows.into_iter().eq(0..1797));
        }
    }

    /// Labels of classes of these sizes, with a row each.
    fn classes_of(sizes: &[usize]) -> Dataset {
        let of_class = |(class, size): (usize, &usize)| vec![class.to_string(); *size];
        let labels: crate::data::Texts = sizes.iter().enumerate().flat_map(of_class).collect();
        Dataset::new(crate::data::Labelled {
            values: vec![1.0; labels.len()],
            dim: 1,
            labels,
            ..crate::data::Labelled::default()
        })
        .expect("reads")
    }

    #[test]
    fn stratified_sides_hold_the_same_part_of_every_class_and_are_as_large_as_random_ones() {
        let sizes: Vec<usize> = (3..60).step_by(4).chain([200, 200, 200]).collect();
        let dataset = classes_of(&sizes);
        for (test_fraction, validation_fraction) in [
            (0.5, 0.1),
            (0.23, 0.3),
            (0.1, 0.0),
            (0.0, 0.25),
            (1.0 / 3.0, 0.5),
        ] {
            for seed in 0..10 {
                let of = |split| {
                    let config = TrainConfig {
                        split,
                        seed,
                        test_fraction,
                        validation_fraction,
                        ..TrainConfig::default()
                    };
                    Sides::new(&dataset, &config).expect("splits")
                };
                let (sides, random) = (of(Split::Stratified), of(Split::Random));
                assert_eq!(
                    sides,
                    of(Split::Stratified),
                    "the same seed, the same sides"
                );
                for side in [Side::Train, Side::Validation, Side::Test] {
                    assert_eq!(sides.of(side).len(), random.of(side).len());
                }
                let validation = (1.0 - test_fraction) * validation_fraction;
                for (side, fraction) in [
                    (Side::Test, test_fraction),
                    (Side::Validation, validation),
                    (Side::Train, 1.0 - test_fraction - validation),
                ] {
                    let mut counts = vec![0.0; sizes.len()];
                    for label in dataset.labels_of(sides.of(side)) {
                        counts[label as usize] += 1.0;
                    }
                    for (count, size) in counts.iter().zip(&sizes) {
                        // Rounded twice, and the totals once before.
                        let exact = *size as f64 * fraction;
                        assert!(
                            (count - exact).abs() < 2.0,
                            "{count} of {size}, not {exact}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn equal_classes_are_divided_equally() {
        let dataset = classes_of(&[20; 30]);
        let config = TrainConfig {
            split: Split::Stratified,
            test_fraction: 0.25,
            validation_fraction: 1.0 / 3.0,
            ..TrainConfig::default()
        };
        let sides = Sides::new(&dataset, &config).expect("splits");
        for (side, each) in [(Side::Train, 10), (Side::Validation, 5), (Side::Test, 5)] {
            let labels = dataset.labels_of(sides.of(side));
            let of_class = |class: u32| labels.iter().filter(|label| **label == class).count();
            assert!((0..30).all(|class| of_class(class) == each), "{side:?}");
        }
    }

    #[test]
    fn classes_of_one_or_two_rows_stay_in_training() {
        let dataset = classes_of(&[1, 2, 2, 3, 10]);
        let config = TrainConfig {
            split: Split::Stratified,
            test_fraction: 1.0,
            ..TrainConfig::default()
        };
        let sides = Sides::new(&dataset, &config).expect("splits");
        assert_eq!(sides.train, [0, 1, 2, 3, 4]);
        assert_eq!(sides.test.len(), 13);
        let only_small = classes_of(&[1, 2]);
        let sides = Sides::new(&only_small, &config).expect("splits");
        assert_eq!(sides.train, [0, 1, 2]);
    }

    #[test]
    fn one_class_is_too_few_to_train_on() {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        let mut config = dataset.default_config();
        config.split = Split::ByClass;
        config.test_fraction = 0.9;
        let refusal = |dataset: &Dataset, config: &TrainConfig| {
            let error = Sides::new(dataset, config).expect_err("refused");
            error.to_string()
        };
        assert_eq!(
            refusal(&dataset, &config),
            "only rows of the class \"0\" are left to train on, and nothing can be learned from one class: lower \
             test_fraction or validation_fraction, or set split to random"
        );
        config.test_fraction = 0.8;
        config.validation_fraction = 0.0;
        assert_eq!(sizes(&dataset, &config)[0], 178 + 182);
        config.test_fraction = 1.0;
        assert!(refusal(&dataset, &config).starts_with("no row is left to train on: lower"));
        let side = |label: &u32| ["train", "test"][usize::from(*label > 0)].to_owned();
        let sides = dataset.labels.iter().map(side).collect();
        dataset.columns.push(("part".to_owned(), sides));
        config.split = Split::Column("part".to_owned());
        assert!(refusal(&dataset, &config).ends_with("choose another split"));
    }

    #[test]
    fn a_second_file_is_the_test_side_and_some_of_the_first_steers() {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        let side = |row: usize| ["train", "test"][row % 2].to_owned();
        let sides = (0..1797).map(side).collect();
        dataset.columns.push((SIDE_COLUMN.to_owned(), sides));
        dataset.joined = true;
        let config = dataset.default_config();
        assert_eq!(config.split, Split::Column(SIDE_COLUMN.to_owned()));
        assert_eq!(sizes(&dataset, &config), [809, 90, 898]);
    }

    #[test]
    fn a_column_can_say_the_side_of_each_row() {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        let side = |row: usize| ["train", "validation", "test"][row % 3].to_owned();
        dataset
            .columns
            .push(("part".to_owned(), (0..1797).map(side).collect()));
        let mut config = dataset.default_config();
        config.split = Split::Column("part".to_owned());
        assert_eq!(sizes(&dataset, &config), [599, 599, 599]);
        let side = |row: usize| {
            if row == 5 {
                "later".to_owned()
            } else {
                side(row)
            }
        };
        dataset.columns[0].1 = (0..1797).map(side).collect();
        let error = Sides::new(&dataset, &config)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("holds \"later\" in row 6"), "{error}");
        config.split = Split::Column("fold".to_owned());
        let error = Sides::new(&dataset, &config)
            .expect_err("refused")
            .to_string();
        assert_eq!(
            error,
            "split: there is no text column \"fold\"; there are: \"part\""
        );
    }

    #[test]
    fn a_column_that_reads_like_a_split_is_one_whatever_its_words_and_name() {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        let column = |words: [&str; 3]| (0..1797).map(|row| words[row % 3].to_owned()).collect();
        for words in [
            ["train", "val", "test"],
            ["Training", "valid", "Test"],
            ["train", "dev", "testing"],
            ["TRAIN", "eval", "TEST"],
        ] {
            dataset.columns = vec![
                ("word".to_owned(), column(["train", "bus", "test"])),
                ("part".to_owned(), column(words)),
            ];
            let config = dataset.default_config();
            assert_eq!(config.split, Split::Column("part".to_owned()), "{words:?}");
            assert_eq!(sizes(&dataset, &config), [599, 599, 599], "{words:?}");
        }
        // Without validation rows in the column, some of the training rows validate.
        dataset.columns = vec![("part".to_owned(), column(["train", "test", "train"]))];
        let config = dataset.default_config();
        assert_eq!(sizes(&dataset, &config), [1078, 120, 599]);
        for words in [["train"; 3], ["test"; 3], ["left", "right", "left"]] {
            dataset.columns = vec![("part".to_owned(), column(words))];
            assert_ne!(
                dataset.default_config().split,
                Split::Column("part".to_owned())
            );
        }
    }
}
