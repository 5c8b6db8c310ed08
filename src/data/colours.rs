//! Colours of rows by a column of their file, for the map: a colour a text, or a scale of numbers.

use std::collections::HashMap;

use super::{Dataset, column_spread};
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
    pub async fn colours(
        &self,
        column: &str,
        rows: &[u32],
    ) -> Result<Option<(Vec<u16>, Vec<String>, [f64; 2])>> {
        if let Some((_, cells)) = self.naming_columns().find(|(name, _)| name == column) {
            let codes: Vec<u32> = rows
                .iter()
                .map(|row| cells.codes()[*row as usize])
                .collect();
            return Ok(Some(of_texts(&codes, cells.distinct())));
        }
        let mut features = 0..self.features.dim();
        let found = features.find(|at| column_spread::name(&self.feature_names, *at) == column);
        let Some(at) = found else { return Ok(None) };
        let (mut values, mut some) = (Vec::with_capacity(rows.len()), Vec::new());
        for rows in rows.chunks(4096) {
            some.clear();
            self.features.read(rows, &mut some).await?;
            values.extend(
                some.iter()
                    .skip(at)
                    .step_by(self.features.dim())
                    .map(|value| f64::from(*value)),
            );
        }
        Ok(Some(of_features(&values)))
    }
}

/// Colours by a column of text, of which some rows have these codes.
fn of_texts(codes: &[u32], texts: &[Box<str>]) -> (Vec<u16>, Vec<String>, [f64; 2]) {
    let mut counts = vec![0u32; texts.len()];
    codes.iter().for_each(|code| counts[*code as usize] += 1);
    let is_there = |at: &usize| counts[*at] > 0 && !texts[*at].trim().is_empty();
    let mut named: Vec<usize> = (0..texts.len()).filter(is_there).collect();
    let number = |at: &usize| {
        texts[*at]
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
    };
    let numbers: Vec<f64> = named.iter().filter_map(number).collect();
    let are_numbers = numbers.len() == named.len();
    if are_numbers && named.len() > NAMES {
        let mut of_text = vec![f64::NAN; texts.len()];
        named
            .iter()
            .zip(numbers)
            .for_each(|(at, number)| of_text[*at] = number);
        let values: Vec<f64> = codes.iter().map(|code| of_text[*code as usize]).collect();
        return of_numbers(&values);
    }
    match are_numbers {
        true => order::sort_by(&mut named, |a, b| {
            number(a)
                .partial_cmp(&number(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        }),
        // The largest first, as classes are.
        false => order::sort_by_key(&mut named, |at| std::cmp::Reverse(counts[*at])),
    }
    named.truncate(NONE as usize);
    let mut colours = vec![NONE; texts.len()];
    named
        .iter()
        .zip(0..)
        .for_each(|(at, colour)| colours[*at] = colour);
    let names = named.iter().map(|at| texts[*at].to_string()).collect();
    let colours = codes.iter().map(|code| colours[*code as usize]).collect();
    (colours, names, [0.0; 2])
}

/// Colours by a feature.
fn of_features(values: &[f64]) -> (Vec<u16>, Vec<String>, [f64; 2]) {
    let mut places: HashMap<u64, u32> = HashMap::new();
    let mut texts: Vec<Box<str>> = Vec::new();
    let mut codes = Vec::with_capacity(values.len());
    for value in values {
        let next = places.len() as u32;
        let code = *places.entry(value.to_bits()).or_insert(next);
        if code == next {
            texts.push(value.to_string().into());
        }
        if texts.len() > NAMES {
            return of_numbers(values);
        }
        codes.push(code);
    }
    of_texts(&codes, &texts)
}

/// Colours of a scale; a value that is no number has none.
fn of_numbers(values: &[f64]) -> (Vec<u16>, Vec<String>, [f64; 2]) {
    let mut all: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    all.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| all.get(((all.len().max(1) - 1) as f64 * part).round() as usize);
    let [low, high] = [BEYOND, 1.0 - BEYOND].map(|part| at(part).copied().unwrap_or(0.0));
    // Nearly all may be one number.
    let ends = match low < high {
        true => [low, high],
        false => [0.0, 1.0].map(|part| at(part).copied().unwrap_or(0.0)),
    };
    let width = if ends[1] > ends[0] {
        ends[1] - ends[0]
    } else {
        1.0
    };
    let colour = |value: &f64| match value.is_finite() {
        true => ((value - ends[0]) / width * SHADES as f64).clamp(0.0, (SHADES - 1) as f64) as u16,
        false => NONE,
    };
    (values.iter().map(colour).collect(), Vec::new(), ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choice, Labelled, NamedFile};

    fn colours(column: &str) -> Option<(Vec<u16>, Vec<String>, [f64; 2])> {
        let line = |i: usize| {
            let donor = ["d1", "d2", "d2", ""][i % 4];
            format!(
                "{donor},cell-{},{},{},{}.5\n",
                1000 + i,
                ["u", "v"][i % 2],
                i % 3,
                i * 10
            )
        };
        let lines: String = (0..200).map(line).collect();
        let file = NamedFile {
            name: "t.csv".to_owned(),
            bytes: format!("donor,name,label,plate,depth\n{lines}").into_bytes(),
        };
        let dataset = Labelled::read(&file, None, Choice::default()).and_then(Dataset::new);
        let dataset = dataset.expect("reads");
        assert_eq!(
            dataset.colour_columns(),
            ["donor", "name", "plate", "depth"]
        );
        let rows: Vec<u32> = (0..100).collect();
        pollster::block_on(dataset.colours(column, &rows)).expect("reads")
    }

    #[test]
    fn texts_and_few_numbers_have_a_colour_each_and_empty_cells_none() {
        let (colours, names, _) = self::colours("donor").expect("is there");
        assert_eq!(names, ["d2", "d1"]);
        assert_eq!(colours[..4], [1, 0, 0, NONE]);
        let (colours, names, _) = self::colours("plate").expect("is there");
        assert_eq!(names, ["0", "1", "2"]);
        assert_eq!(colours[..4], [0, 1, 2, 0]);
        assert_eq!(self::colours("other"), None);
    }

    #[test]
    fn many_numbers_are_a_scale_without_its_outliers() {
        let (colours, names, ends) = self::colours("depth").expect("is there");
        assert!(names.is_empty());
        assert_eq!(ends, [10.5, 980.5]);
        assert!(colours.is_sorted());
        assert_eq!((colours[0], colours[1], colours[99]), (0, 0, 63));
        let (colours, ..) = of_numbers(&[1.0, f64::NAN, 1.0]);
        assert_eq!(colours, [0, NONE, 0]);
    }
}
