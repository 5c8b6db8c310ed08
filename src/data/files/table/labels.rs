//! Labels of a table: the column that was chosen or can be told, and columns of text that split rows or join labels.

use std::collections::HashSet;

use super::Table;
use super::cells::is_fraction;
use super::column::Kind;
use super::names::{LABEL_NAMES, is_label_name};
use crate::base::error::{Error, Result};
use crate::base::quote::quoted;
use crate::data::rows::missing::{advice_on_missing, is_missing_label, no_label};
use crate::data::{Choice, Columns, Labels, Missing, Texts};

impl Table {
    /// Takes the cells of the chosen or guessed column as labels, with notes on it; a file of labels may have one column only.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, or a label is missing.
    pub(crate) fn into_labels(mut self, choice: Choice<'_>) -> Result<Labels> {
        let Choice {
            columns, missing, ..
        } = choice;
        let mut notes = Vec::new();
        let column = match (&self.chosen, &self.header[..]) {
            (None, [_]) => 0,
            _ => {
                let (column, reason) = self.find(columns)?;
                let name = quoted(&self.header[column]);
                notes.push(format!("label = {name} ({reason})"));
                column
            }
        };
        notes.extend(self.oddities());
        let labels = self.labels(column, missing)?;
        let codes: Vec<usize> = self
            .numeric()
            .into_iter()
            .filter(|other| *other != column)
            .collect();
        Ok(Labels {
            on: None,
            labels,
            column: (!self.headless).then(|| self.header[column].clone()),
            columns: self.text_columns(Some(column), &codes),
            notes,
        })
    }

    /// The label column, and why it is this one.
    pub(super) fn find(&self, columns: Option<&Columns>) -> Result<(usize, String)> {
        if let Some(name) = &self.chosen {
            if let Some(unread) = self.unread.iter().find(|(unread, _)| unread == name) {
                return Err(self.unread_label(unread));
            }
            let place = self.header.iter().position(|column| column == name);
            return place
                .map(|place| (place, "as chosen".to_owned()))
                .ok_or_else(|| {
                    Error::Data(format!(
                        "{}: there is no column {}: the columns are {}",
                        self.name,
                        quoted(name),
                        self.all_names()
                    ))
                });
        }
        let is_out =
            |column: usize| columns.is_some_and(|columns| columns.rules_out(&self.header, column));
        if let Some(column) = self.named_label().filter(|column| !is_out(*column)) {
            return Ok((column, "by its name".to_owned()));
        }
        let mut text = self.of_kind(Kind::Text);
        text.retain(|column| !self.is_id(*column) && !is_out(*column));
        // A column with another text in nearly every row names the rows.
        let names = text.extract_if(.., |column| self.names_rows(*column));
        let names: Vec<usize> = names.collect();
        if let [column] = text[..]
            && !self.columns[column].left_out
        {
            let reason = match names.is_empty() {
                true => "the only text column",
                false => "the only text column that repeats",
            };
            return Ok((column, reason.to_owned()));
        }
        if text.is_empty() {
            // Few different integers, and not row numbers.
            let is_class = |column: &usize| {
                let most = self.most_classes().min(self.rows.saturating_sub(1));
                let few = self.columns[*column].few.as_ref();
                few.is_some_and(|few| !few.mixed && (2..=most).contains(&few.texts.len()))
            };
            let mut classes = self.numeric();
            classes.retain(|column| is_class(column) && !is_out(*column));
            if let [column] = classes[..] {
                return Ok((column, "the only column of few integers".to_owned()));
            }
        }
        if let (true, Some(name)) = (text.is_empty(), names.first()) {
            return Err(Error::Data(format!(
                "{}: no column can be the label: {} holds another text in nearly every row, so that it names rows; choose the column, \
                 one of {}, or give the labels in a file of their own",
                self.name,
                quoted(&self.header[*name]),
                self.all_names()
            )));
        }
        Err(self.no_label())
    }

    fn no_label(&self) -> Error {
        if let Some(unread) = self.unread.iter().find(|(name, _)| is_label_name(name)) {
            return self.unread_label(unread);
        }
        Error::Data(format!(
            "{}: no label column can be told from the others: choose one of {}",
            self.name,
            self.all_names()
        ))
    }

    /// The first column that is named like a label and can be one.
    ///
    /// Measurements have such names too: they hold fractions, and a coordinate `y` more different numbers than classes.
    pub(super) fn named_label(&self) -> Option<usize> {
        LABEL_NAMES
            .iter()
            .find_map(|name| (0..self.header.len()).find(|column| self.is_label(*column, name)))
    }

    /// All columns that are named like a label and can be one; beside an `x`, `y` is a coordinate.
    pub(super) fn label_columns(&self) -> Vec<usize> {
        let has_x = self
            .header
            .iter()
            .any(|name| name.eq_ignore_ascii_case("x"));
        let names = LABEL_NAMES.iter().filter(|name| !has_x || **name != "y");
        let columns = names.flat_map(|name| {
            (0..self.header.len()).filter(move |column| self.is_label(*column, name))
        });
        columns.collect()
    }

    /// Tells if a column has this name and can hold labels.
    fn is_label(&self, column: usize, name: &str) -> bool {
        let told = &self.columns[column];
        let most = match name {
            "y" => self.most_classes(),
            _ => usize::MAX,
        };
        let can_be = |texts: &Texts| {
            let distinct = texts.distinct();
            distinct.len() <= most && !distinct.iter().any(|cell| is_fraction(cell))
        };
        self.header[column].eq_ignore_ascii_case(name)
            && (told.kind == Kind::Text || told.texts.as_ref().is_some_and(can_be))
    }

    /// Distinct numbers at most that can be classes.
    fn most_classes(&self) -> usize {
        (self.rows / 4).max(50)
    }

    /// Takes the cells of a column as labels. A missing label is an error, unless rows without one are left out later.
    pub(super) fn labels(&mut self, column: usize, missing: Option<Missing>) -> Result<Texts> {
        let told = &self.columns[column];
        let labels = match (&told.texts, &told.few) {
            (Some(_), _) => self.columns[column].texts.take().unwrap_or_default(),
            (None, Some(few)) => {
                let values = (0..self.rows).map(|row| self.value(row, column));
                values.map(|value| &*few.texts[&value.to_bits()]).collect()
            }
            // A column that may be the label is held as text or was counted.
            (None, None) => return Err(self.no_label()),
        };
        if missing == Some(Missing::DropRows) {
            return Ok(labels);
        }
        let Some(row) = labels.iter().position(is_missing_label) else {
            return Ok(labels);
        };
        let (file, place) = (&self.name, self.place(row));
        let (name, cell) = (quoted(&self.header[column]), &labels[row]);
        let problem = match cell.trim() {
            "" => "has an empty cell".to_owned(),
            _ => format!("holds {}, a missing value", quoted(cell)),
        };
        let advice = advice_on_missing(cell, missing.is_some());
        let message = format!("{file}, {place}: column {name} {problem}: {advice}");
        Err(no_label(message, missing.is_some()))
    }

    /// The text columns except the label, by name, and the columns of `codes` that can be classes; cells of text may be empty.
    pub(super) fn text_columns(
        &mut self,
        label: Option<usize>,
        codes: &[usize],
    ) -> Vec<(String, Texts)> {
        let columns = 0..self.header.len();
        let columns = columns.filter(|column| Some(*column) != label && !self.headless);
        let mut named = Vec::new();
        for column in columns {
            let texts = match self.columns[column].kind {
                Kind::Text => self.columns[column].texts.take(),
                _ if codes.contains(&column) => self.codes(column),
                _ => None,
            };
            named.extend(texts.map(|texts| (self.header[column].clone(), texts)));
        }
        named
    }

    /// The first column of whole numbers, other than the row numbers themselves, that tells rows apart and is no feature.
    pub(super) fn ids(&self, features: &[usize], label: Option<usize>) -> Option<(String, Texts)> {
        let mut columns = self.of_kind(Kind::Numbers).into_iter();
        columns.find_map(|at| {
            let is_free = Some(at) != label && !features.contains(&at) && self.is_id(at);
            let differs = || {
                let first = self.value(0, at);
                (0..self.rows).any(|row| self.value(row, at) != first + row as f32)
            };
            let is_id = is_free && (differs() || self.value(0, at) > 1.0);
            let cells = is_id.then(|| self.key(at)).flatten();
            cells.map(|cells| (self.header[at].clone(), cells))
        })
    }

    /// The numbers of a column as text if they are whole and each occurs in two rows on average; else none.
    fn codes(&self, column: usize) -> Option<Texts> {
        let values = || (0..self.rows).map(|row| self.value(row, column));
        if !values().all(|value| value.is_finite() && value.fract() == 0.0) {
            return None;
        }
        let texts: Texts = values().map(|value| value.to_string()).collect();
        (2 * texts.distinct().len() <= self.rows).then_some(texts)
    }

    /// The cells of a column as text if no two rows share one, so that they can tell rows apart; else none.
    pub(crate) fn key(&self, at: usize) -> Option<Texts> {
        let column = &self.columns[at];
        match column.kind {
            _ if self.headless => None,
            Kind::Text => {
                let is_key = |texts: &&Texts| texts.distinct().len() == self.rows;
                column.texts.as_ref().filter(is_key).cloned()
            }
            Kind::Numbers => {
                let values = || (0..self.rows).map(|row| self.value(row, at));
                let mut seen = HashSet::new();
                // Larger ones may have been rounded.
                let most = (1 << f32::MANTISSA_DIGITS) as f32;
                let is_new = |value: f32| {
                    value.fract() == 0.0 && value.abs() < most && seen.insert(value.to_bits())
                };
                values()
                    .all(is_new)
                    .then(|| values().map(|value| value.to_string()).collect())
            }
            Kind::Empty => None,
        }
    }

    /// The cells of the column that was named to join labels by.
    ///
    /// # Errors
    /// [`Error::Data`] if there is none of this name.
    pub(crate) fn named_key(&self, name: &str) -> Result<Texts> {
        let at = self.header.iter().position(|other| other == name);
        let texts = at.and_then(|at| self.columns[at].texts.clone());
        texts.ok_or_else(|| {
            Error::Data(format!(
                "{}: there is no column {} to join labels by: the columns are {}",
                self.name,
                quoted(name),
                self.all_names()
            ))
        })
    }
}
