//! Colours of rows by a column of their file, for the map: a colour a text, or a scale of numbers.

use super::rows::texts::Gathered;
use super::{Dataset, Texts, column_spread};
use crate::base::error::Result;
use crate::base::order;

/// Most different numbers that are as good as names: of batches, plates or years.
const NAMES: usize = 12;
/// Colours of a scale of numbers.
const SHADES: usize = 64;
/// The part of the numbers beyond either end of a scale: they have the colour of the end.
const BEYOND: f64 = 0.01;
/// Colour of a row whose cell is empty; and of a text beyond all that are named.
const NONE: u16 = u16::MAX;

/// Colour of each row, names of the colours or none of a scale, and the numbers at the ends of a scale.
type Colours = (Vec<u16>, Vec<String>, [f64; 2]);

impl Dataset {
    /// The columns that rows can be coloured by, beside their label: those that are no features first.
    pub fn colour_columns(&self) -> Vec<String> {
        let others = self.naming_columns().map(|(name, _)| name.clone());
        let features = 0..self.features.dim();
        let features = features.map(|at| column_spread::name(&self.feature_names, at));
        others.chain(features).collect()
    }

    /// Colour of each of these rows by a column; the texts that the colours stand for, or none of a scale of numbers; and the numbers
    /// at the two ends of a scale of 64 colours, the lowest first. `u16::MAX` is an empty cell. `None` if there is no such column.
    ///
    /// A column is a scale if its cells are more than twelve different numbers. One number in a hundred may lie beyond either end.
    ///
    /// # Errors
    /// Errors of reading features.
    pub async fn colours(&self, column: &str, rows: &[u32]) -> Result<Option<Colours>> {
        if let Some((_, cells)) = self.naming_columns().find(|(name, _)| name == column) {
            let texts = rows.iter().map(|row| &cells[*row as usize]);
            return Ok(Some(colours(&texts.collect())));
        }
        let columns = self.colour_columns();
        let dim = self.features.dim();
        let Some(at) = columns[columns.len() - dim..]
            .iter()
            .position(|name| name == column)
        else {
            return Ok(None);
        };
        let (mut texts, mut values) = (Gathered::default(), Vec::new());
        for rows in rows.chunks(4096) {
            values.clear();
            self.features.read(rows, &mut values).await?;
            for value in values.iter().skip(at).step_by(dim) {
                texts.push(&value.to_string());
            }
        }
        Ok(Some(colours(&texts.finish())))
    }
}

/// Colours by a column.
fn colours(cells: &Texts) -> Colours {
    let texts = cells.distinct();
    let mut counts = vec![0u32; texts.len()];
    cells
        .codes()
        .iter()
        .for_each(|code| counts[*code as usize] += 1);
    let number = |text: &str| {
        text.trim()
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
    };
    let mut named: Vec<usize> = (0..texts.len()).collect();
    named.retain(|at| !texts[*at].trim().is_empty());
    let numbers: Vec<f64> = texts
        .iter()
        .map(|text| number(text).unwrap_or(f64::NAN))
        .collect();
    if named.iter().any(|at| numbers[*at].is_nan()) {
        // The largest first, as classes are.
        order::sort_by_key(&mut named, |at| std::cmp::Reverse(counts[*at]));
    } else {
        order::sort_by(&mut named, |a, b| numbers[*a].total_cmp(&numbers[*b]));
        if named.len() > NAMES {
            return scale(
                cells
                    .codes()
                    .iter()
                    .map(|code| numbers[*code as usize])
                    .collect(),
            );
        }
    }
    // The last but one stands for rows without a label.
    named.truncate(usize::from(NONE) - 1);
    let mut colours = vec![NONE; texts.len()];
    named
        .iter()
        .zip(0..)
        .for_each(|(at, colour)| colours[*at] = colour);
    let names = named.iter().map(|at| texts[*at].to_string()).collect();
    let colours = cells.codes().iter().map(|code| colours[*code as usize]);
    (colours.collect(), names, [0.0; 2])
}

/// Colours of a scale; a value that is no number has none.
fn scale(values: Vec<f64>) -> Colours {
    let mut all = values.clone();
    all.retain(|value| value.is_finite());
    all.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| all[((all.len() - 1) as f64 * part).round() as usize];
    let mut ends = [at(BEYOND), at(1.0 - BEYOND)];
    if ends[0] == ends[1] {
        // Nearly all are one number.
        ends = [at(0.0), at(1.0)];
    }
    let step = |value: f64| (value - ends[0]) / (ends[1] - ends[0]) * SHADES as f64;
    let colour = |value: f64| match value.is_finite() {
        true => step(value).clamp(0.0, (SHADES - 1) as f64) as u16,
        false => NONE,
    };
    (values.into_iter().map(colour).collect(), Vec::new(), ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choice, Labelled, NamedFile};

    #[test]
    fn texts_and_few_numbers_have_a_colour_each_many_numbers_a_scale_and_empty_cells_none() {
        let line = |i: usize| {
            let donor = ["d1", "d2", "d2", ""][i % 4];
            let depth = (i * 37) % 200 * 10;
            format!("{donor},{},{},{depth}.5\n", ["u", "v"][i % 2], i % 3)
        };
        let lines: String = (0..200).map(line).collect();
        let file = NamedFile {
            name: "t.csv".to_owned(),
            bytes: format!("donor,label,plate,depth\n{lines}").into_bytes(),
        };
        let dataset = Labelled::read(&file, None, Choice::default()).and_then(Dataset::new);
        let dataset = dataset.expect("reads");
        assert_eq!(dataset.colour_columns(), ["donor", "plate", "depth"]);
        let rows: Vec<u32> = (0..200).collect();
        let of = |column| pollster::block_on(dataset.colours(column, &rows)).expect("reads");
        let (colours, names, _) = of("donor").expect("is there");
        assert_eq!(names, ["d2", "d1"]);
        assert_eq!(colours[..4], [1, 0, 0, NONE]);
        let (colours, names, _) = of("plate").expect("is there");
        assert_eq!(names, ["0", "1", "2"]);
        assert_eq!(colours[..4], [0, 1, 2, 0]);
        let (colours, names, ends) = of("depth").expect("is there");
        // 2 of 200 lie beyond either end.
        assert_eq!((names.len(), ends), (0, [20.5, 1970.5]));
        assert_eq!((colours[0], colours[1], colours[27]), (0, 11, 63));
        assert_eq!(of("other"), None);
    }
}
