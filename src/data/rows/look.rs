//! A cheap check of labelled rows before anything is scored: finds columns that tell the class alone, as a value does that is known
//! only together with it, and columns of groups whose rows are alike. Takes some rows, gives sentences; nothing is left out.

use super::missing::is_missing_label;
use super::{Labelled, Role, Texts};
use crate::base::quote::{LISTED, quoted};

/// Rows that are sampled at most, and rows times rows times columns at most.
const ROWS: usize = 400;
const PRODUCTS: usize = 30_000_000;
/// Rows at least: fewer tell nothing.
const FEWEST_ROWS: usize = 40;
/// Fraction of the rows whose class a column tells from which on it may be a leak: single measurements seldom tell so many.
const TELLS: f64 = 0.98;
/// Drop in the share of rows whose nearest row has the same class, without the suspect columns, from which on it matters; also the
/// excess of a group's share over chance.
const MATTERS: f64 = 0.1;
/// Number of groups from which on each side can get some; and rows of a group on average at least.
const FEWEST_GROUPS: usize = 4;

/// Adds notes on columns that may be leaks, and on a column that may be a group, unless a setting names it.
pub(crate) fn look(rows: &mut Labelled, named: &[String]) {
    let Some(sample) = Sample::of(rows) else {
        return;
    };
    let notes = sample
        .leaks(rows)
        .into_iter()
        .chain(sample.groups(rows, named));
    let notes: Vec<String> = notes.collect();
    rows.notes.extend(notes);
}

/// A sample of rows, each column standardized: mean 0, standard deviation 1.
struct Sample {
    /// Row numbers.
    rows: Vec<usize>,
    /// Class of each row.
    classes: Vec<u32>,
    /// Values of the rows, by column.
    columns: Vec<Vec<f32>>,
}

impl Sample {
    fn of(rows: &Labelled) -> Option<Self> {
        let (dim, count) = (rows.dim, rows.labels.len());
        let most = ((PRODUCTS / dim.max(1)) as f64).sqrt() as usize;
        let most = most.min(ROWS).min(count);
        if most < FEWEST_ROWS {
            return None;
        }
        let chosen: Vec<usize> = (0..most).map(|at| at * count / most).collect();
        let column = |at: usize| -> Vec<f32> {
            let values = chosen
                .iter()
                .map(|row| f64::from(rows.values[row * dim + at]));
            let values: Vec<f64> = values.collect();
            let mean = values.iter().sum::<f64>() / most as f64;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let spread = (squares / most as f64).sqrt();
            let scale = if spread > 0.0 { 1.0 / spread } else { 0.0 };
            values
                .iter()
                .map(|value| ((value - mean) * scale) as f32)
                .collect()
        };
        Some(Self {
            classes: chosen.iter().map(|row| rows.labels.codes()[*row]).collect(),
            columns: (0..dim).map(column).collect(),
            rows: chosen,
        })
    }

    /// Note on columns that tell the class alone, have one value for each class, or rise through a file that is sorted by class, if
    /// the other columns tell less.
    fn leaks(&self, rows: &Labelled) -> Option<String> {
        let tells: Vec<f64> = self
            .columns
            .iter()
            .map(|column| self.alone(column))
            .collect();
        let is_suspect =
            |at: &usize| tells[*at] >= TELLS || self.follows(*at) || is_code(rows, *at);
        let suspects: Vec<usize> = (0..rows.dim).filter(is_suspect).collect();
        let others: Vec<usize> = (0..rows.dim).filter(|at| !suspects.contains(at)).collect();
        if suspects.is_empty() || others.is_empty() {
            return None;
        }
        let all: Vec<usize> = (0..rows.dim).collect();
        let [with, without] = [all, others].map(|columns| {
            let nearest = self.nearest(&columns);
            self.share(&nearest, &self.classes)
        });
        if with - without < MATTERS {
            return None;
        }
        // Columns of a table can be left out by name; those of an array or of lists only by making it anew.
        let is_list = rows.table.iter();
        let mut is_list = is_list.filter(|line| line.column.role == Role::Feature);
        let are_named = rows.feature_names.len() == rows.dim && is_list.all(|line| line.named);
        let name = |at: &usize| match rows.feature_names.get(*at) {
            Some(name) => name.clone(),
            None => format!("feature {}", at + 1),
        };
        let names: Vec<String> = suspects.iter().map(name).collect();
        let shown: Vec<String> = names.iter().take(LISTED).map(|name| quoted(name)).collect();
        let more = match names.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let [them, it, are] = match names.len() {
            1 => ["it", "it", "is"],
            _ => ["them", "they", "are"],
        };
        let how = match are_named {
            true => format!("on the command line --ignore \"{}\"", names.join(",")),
            false => {
                let places: Vec<String> =
                    suspects.iter().take(LISTED).map(usize::to_string).collect();
                format!(
                    "in NumPy `np.delete(rows, [{}], axis=1)`",
                    places.join(", ")
                )
            }
        };
        Some(format!(
            "likely leak: {}{more}. With {them} the nearest other row has the same class for {with:.2} of {} rows, without for {without:.2}. \
             Where {it} {are} known only once the class is, leave {them} out ({how})",
            shown.join(", "),
            self.rows.len()
        ))
    }

    /// Tells if a file is sorted by class and a column rises or falls from row to row, as times do.
    fn follows(&self, at: usize) -> bool {
        let mut classes: Vec<u32> = self.classes.clone();
        classes.dedup();
        let runs = classes.len();
        classes.sort_unstable();
        classes.dedup();
        let column = &self.columns[at];
        let falls = || column.iter().rev().is_sorted_by(|a, b| a < b);
        runs == classes.len() && (column.is_sorted_by(|a, b| a < b) || falls())
    }

    /// Note on the column of groups that cross the classes whose rows are most alike beside chance, the first of such.
    fn groups(&self, rows: &Labelled, named: &[String]) -> Option<String> {
        let could_be = rows
            .columns
            .iter()
            .filter(|(name, cells)| !named.contains(name) && crosses(cells, &rows.labels));
        let could_be: Vec<&(String, Texts)> = could_be.collect();
        if could_be.is_empty() {
            return None;
        }
        let all: Vec<usize> = (0..rows.dim).collect();
        let nearest = self.nearest(&all);
        let alike = could_be.into_iter().filter_map(|(name, cells)| {
            let codes: Vec<u32> = self.rows.iter().map(|row| cells.codes()[*row]).collect();
            let share = self.share(&nearest, &codes);
            let chance = chance(&codes);
            (share >= 2.0 * chance && share >= chance + MATTERS)
                .then_some((name, cells, share, chance))
        });
        let more = |a: &(_, _, f64, f64), b: &(_, _, f64, f64)| (b.2 - b.3).total_cmp(&(a.2 - a.3));
        let (name, cells, share, chance) = alike.min_by(more)?;
        Some(format!(
            "{} may say which rows belong together: it has {} values, each in several classes, and {:.0} % of the rows have the same value as \
             their nearest row ({:.0} % by chance). A random split puts rows of one value on both sides, which flatters the score: \
             group={name} keeps them together",
            quoted(name),
            used(cells),
            100.0 * share,
            100.0 * chance
        ))
    }

    /// Fraction of the rows that have the class of the row with the nearest value in this column; equally near rows share.
    fn alone(&self, column: &[f32]) -> f64 {
        let mut order: Vec<usize> = (0..column.len()).collect();
        order.sort_unstable_by(|a, b| column[*a].total_cmp(&column[*b]));
        let runs: Vec<&[usize]> = order.chunk_by(|a, b| column[*a] == column[*b]).collect();
        let same = |run: &[usize], class: u32| {
            run.iter().filter(|at| self.classes[**at] == class).count() as f64
        };
        let mut told = 0.0;
        for (place, run) in runs.iter().enumerate() {
            for at in *run {
                let class = self.classes[*at];
                told += match run.len() {
                    1 => {
                        let sides = [place.checked_sub(1), Some(place + 1)];
                        let sides = sides.map(|side| side.and_then(|side| runs.get(side)));
                        let far = |run: &&[usize]| (column[run[0]] - column[*at]).abs();
                        let least = sides
                            .iter()
                            .flatten()
                            .map(|run| far(run))
                            .fold(f32::MAX, f32::min);
                        let near = sides.iter().flatten().filter(|run| far(run) == least);
                        let (mut count, mut of_class) = (0.0, 0.0);
                        for run in near {
                            count += run.len() as f64;
                            of_class += same(run, class);
                        }
                        of_class / count.max(1.0)
                    }
                    rows => (same(run, class) - 1.0) / (rows - 1) as f64,
                };
            }
        }
        told / column.len() as f64
    }

    /// Nearest other row of each row by these columns; the row itself if there is no other.
    fn nearest(&self, columns: &[usize]) -> Vec<usize> {
        let count = self.rows.len();
        let mut distances = vec![0f32; count * count];
        for column in columns {
            let column = &self.columns[*column];
            for (row, line) in distances.chunks_exact_mut(count).enumerate() {
                for (sum, value) in line.iter_mut().zip(column) {
                    *sum += (value - column[row]).powi(2);
                }
            }
        }
        let lines = distances.chunks_exact(count).enumerate();
        let nearest = lines.map(|(row, line)| {
            let others = (0..count).filter(|other| *other != row);
            others
                .min_by(|a, b| line[*a].total_cmp(&line[*b]))
                .unwrap_or(row)
        });
        nearest.collect()
    }

    /// Fraction of the rows whose nearest row has the same code.
    fn share(&self, nearest: &[usize], codes: &[u32]) -> f64 {
        let pairs = codes.iter().zip(nearest);
        let same = pairs
            .filter(|(code, nearest)| **code == codes[**nearest])
            .count();
        same as f64 / nearest.len() as f64
    }
}

/// Tells if a column of whole numbers has one value in all rows of a class, and more than one in all: a code of a coarser class.
fn is_code(rows: &Labelled, at: usize) -> bool {
    let mut of_class = vec![None; rows.labels.distinct().len()];
    let values = rows.values.chunks_exact(rows.dim).map(|row| row[at]);
    for (value, class) in values.zip(rows.labels.codes()) {
        let known = of_class[*class as usize].get_or_insert(value);
        if *known != value || value.fract() != 0.0 {
            return false;
        }
    }
    let mut values = of_class.into_iter().flatten();
    let first = values.next();
    values.any(|value| Some(value) != first)
}

/// Number of distinct texts among the rows.
fn used(cells: &Texts) -> usize {
    let mut codes = cells.codes().to_vec();
    codes.sort_unstable();
    codes.dedup();
    codes.len()
}

/// Probability that two random rows have the same code.
fn chance(codes: &[u32]) -> f64 {
    let mut codes = codes.to_vec();
    codes.sort_unstable();
    let rows = codes.len() as f64;
    let part = |run: &[u32]| (run.len() as f64 / rows).powi(2);
    codes.chunk_by(|a, b| a == b).map(part).sum()
}

/// Tells if texts are few, each in several rows on average, at least half of them occur with several classes, and half of the
/// classes with several texts.
fn crosses(cells: &Texts, labels: &Texts) -> bool {
    let count = used(cells);
    if count < FEWEST_GROUPS
        || FEWEST_GROUPS * count > labels.len()
        || cells.iter().any(is_missing_label)
    {
        return false;
    }
    let mut both: Vec<(u32, u32)> = cells
        .codes()
        .iter()
        .copied()
        .zip(labels.codes().iter().copied())
        .collect();
    both.sort_unstable();
    both.dedup();
    let most_have_several = |mut of: Vec<u32>| {
        of.sort_unstable();
        let runs: Vec<usize> = of.chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
        2 * runs.iter().filter(|run| **run > 1).count() >= runs.len()
    };
    most_have_several(both.iter().map(|(group, _)| *group).collect())
        && most_have_several(both.iter().map(|(_, class)| *class).collect())
}
