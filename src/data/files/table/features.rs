//! Features of a table: the numeric columns, apart from the label and from columns that repeat it.

use std::collections::BTreeSet;

use super::cells::is_missing_number;
use super::column::Kind;
use super::names::is_label_name;
use super::{FEWEST_TOLD, Table};
use crate::base::error::{Error, Result};
use crate::base::quote::quoted;
use crate::data::rows::columns::places;
use crate::data::rows::mended::fill_in;
use crate::data::rows::values::check_values;
use crate::data::{Choice, Columns, Labelled, Missing, Texts};

impl Table {
    /// Splits the table into features and labels; the label column is guessed if none was chosen.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, no numeric column is left, a label is missing,
    /// or a cell of a feature is no finite number.
    pub(crate) fn into_labelled(mut self, choice: Choice<'_>) -> Result<Labelled> {
        let (label, reason) = self.find(choice.columns)?;
        let labels = self.labels(label, choice.missing)?;
        let name = quoted(&self.header[label]);
        let column = self.header[label].clone();
        let wanted = format!("beside the label {name}");
        let rows = self.features(Some((label, &reason)), &labels, &wanted, choice)?;
        let mut notes = vec![format!("label = {name} ({reason})")];
        notes.extend(rows.notes);
        Ok(Labelled {
            labels,
            label_column: Some(column),
            notes,
            ..rows
        })
    }

    /// Takes all numeric columns as features of labels from elsewhere, except columns that repeat the labels.
    ///
    /// # Errors
    /// [`Error::Data`] when there is none, or a cell of a feature is no finite number.
    pub(crate) fn beside_labels(
        mut self,
        labels: Texts,
        choice: Choice<'_>,
        on: Option<&str>,
    ) -> Result<Labelled> {
        self.key = on.and_then(|on| self.header.iter().position(|name| name == on));
        let rows = self.features(None, &labels, "that can be a feature", choice)?;
        Ok(Labelled { labels, ..rows })
    }

    /// Takes the numeric columns as features, except the label and columns that repeat the label.
    fn features(
        &mut self,
        label: Option<(usize, &str)>,
        labels: &Texts,
        wanted: &str,
        choice: Choice<'_>,
    ) -> Result<Labelled> {
        let missing = choice.missing;
        let table_label = label;
        let label = label.map(|(column, _)| column);
        let mut columns = self.numeric();
        columns.retain(|column| Some(*column) != label);
        let again = match missing {
            // Rows that will be left out do not count when columns are compared with the labels.
            Some(Missing::DropRows) => {
                let chosen = choice
                    .columns
                    .map(|chosen| self.chosen(chosen, columns.clone()));
                let read = chosen.transpose()?.unwrap_or_else(|| columns.clone());
                let stays = |row: usize| {
                    read.iter()
                        .all(|column| self.value(row, *column).is_finite())
                };
                self.labels_again(labels, &columns, stays)
            }
            _ => self.labels_again(labels, &columns, |_| true),
        };
        columns.retain(|column| !again.contains(column) && Some(*column) != self.key);
        if let Some(chosen) = choice.columns {
            columns = self.chosen(chosen, columns)?;
            columns.retain(|column| Some(*column) != label);
        }
        let is_apart = |column: &usize| {
            let named = choice.columns.map_or(&[][..], |columns| &columns.apart);
            named.contains(&self.header[*column])
        };
        if columns.is_empty() {
            return Err(self.no_features(wanted, &again));
        }
        let mut apart = self.numeric();
        apart.retain(|column| !columns.contains(column) && is_apart(column));
        if missing.unwrap_or_default() == Missing::Refuse
            && let Some(error) = self.odd(&columns, missing.is_some())
        {
            return Err(error);
        }
        Ok(Labelled {
            name: self.name.clone(),
            feature_names: self.names(&columns),
            notes: self.notes(&columns, label, &again),
            table: self.table(&columns, table_label, &again, choice.columns),
            ids: self.ids(&columns, label),
            columns: self.text_columns(label, &apart),
            dim: columns.len(),
            values: self.take_values(&columns),
            marks: self.marks,
            ..Labelled::default()
        })
    }

    /// The columns that were chosen as features, or `guessed` if none were; an error for a column without numbers.
    fn chosen(&self, chosen: &Columns, guessed: Vec<usize>) -> Result<Vec<usize>> {
        let columns = chosen.of(&self.name, &self.header, guessed)?;
        let is_number = |column: &&usize| self.columns[**column].kind == Kind::Numbers;
        match columns.iter().find(|column| !is_number(column)) {
            Some(text) => Err(Error::Data(format!(
                "{}: column {} holds no numbers, and features are numbers",
                self.name,
                quoted(&self.header[*text])
            ))),
            None => Ok(columns),
        }
    }

    /// Takes the values of these columns, numeric or empty, in their order out of the table, which then has none.
    fn take_values(&mut self, columns: &[usize]) -> Vec<f32> {
        let places = columns.iter().filter_map(|at| self.columns[*at].place);
        let places: Vec<usize> = places.collect();
        let (width, dim) = (self.width, places.len());
        let mut values = std::mem::take(&mut self.values);
        if places.iter().copied().eq(0..width) {
            return values;
        }
        let mut row = vec![0.0; dim];
        for at in 0..self.rows {
            for (value, place) in row.iter_mut().zip(&places) {
                *value = values[at * width + place];
            }
            // Never beyond what was read: a row has no more features than cells.
            values[at * dim..][..dim].copy_from_slice(&row);
        }
        values.truncate(self.rows * dim);
        values
    }

    /// Columns that repeat the labels in the rows that stay: equal to the label in every row; or one value for each label,
    /// different from label to label; or, together, one-hot columns, each of which marks the rows of one label.
    fn labels_again(
        &self,
        labels: &Texts,
        columns: &[usize],
        stays: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        if labels.len() != self.rows || self.has_vector {
            return Vec::new();
        }
        let numbers = labels.distinct().iter().map(|label| label.parse::<f32>());
        let numbers: Vec<Option<f32>> = numbers.map(|number| number.ok()).collect();
        let rows: Vec<usize> = (0..self.rows)
            .filter(|row| !is_missing_number(&labels[*row]) && stays(*row))
            .collect();
        let mut again = Vec::new();
        let mut marks: Vec<(usize, usize)> = Vec::new();
        for column in columns {
            let Some(values) = self.by_label(labels, *column, &rows) else {
                continue;
            };
            let equals = || {
                values
                    .iter()
                    .all(|(label, value)| numbers[*label] == Some(*value))
            };
            let mut distinct: Vec<u32> = values.iter().map(|(_, value)| value.to_bits()).collect();
            distinct.sort_unstable();
            distinct.dedup();
            let name = &self.header[*column];
            let is_named = is_label_name(name) && !name.eq_ignore_ascii_case("y");
            // In few rows a measurement can be alike by chance.
            let tells = 2 * values.len() <= rows.len() && (is_named || rows.len() >= FEWEST_TOLD);
            if equals() || (tells && distinct.len() == values.len() && values.len() > 1) {
                again.push(*column);
            } else if tells && distinct.len() == 2 {
                let of = |bits: u32| {
                    values
                        .iter()
                        .filter(move |(_, value)| value.to_bits() == bits)
                };
                let alone = distinct.iter().find(|bits| of(**bits).count() == 1);
                let label = alone.and_then(|bits| of(*bits).next());
                marks.extend(label.map(|(label, _)| (*label, *column)));
            }
        }
        // Most sets have a column for each label, some leave the first out.
        let classes = rows.iter().map(|row| labels.codes()[*row]);
        let classes = classes.collect::<BTreeSet<_>>().len();
        let marked: BTreeSet<usize> = marks.iter().map(|(label, _)| *label).collect();
        if classes > 2 && marked.len() + 1 >= classes {
            again.extend(marks.iter().map(|(_, column)| *column));
        }
        again
    }

    /// Value of a column for each label in these rows, by the label's code; none if a label has two values, or if more than half of
    /// the rows have no number. A few cells without a number contradict nothing.
    fn by_label(&self, labels: &Texts, column: usize, rows: &[usize]) -> Option<Vec<(usize, f32)>> {
        let mut values = vec![None; labels.distinct().len()];
        let mut filled = 0;
        for row in rows {
            let value = self.value(*row, column);
            if value.is_nan() {
                continue;
            }
            filled += 1;
            let code = labels.codes()[*row];
            if *values[code as usize].get_or_insert(value) != value {
                return None;
            }
        }
        if 2 * filled < rows.len() {
            return None;
        }
        let values = values.into_iter().enumerate();
        let values = values.filter_map(|(label, value)| Some((label, value?)));
        Some(values.collect())
    }

    /// Takes columns as features, without labels: those called `names`, in that order, if a head has names; else the numeric ones,
    /// or those that were `chosen`. Columns named like a label are left out; for a head of `dim` inputs only the first, and only if
    /// there are `dim + 1` numeric columns.
    ///
    /// # Errors
    /// [`Error::Data`] when a column is missing, by its name, or a cell is no finite number.
    pub fn into_features(
        mut self,
        names: &[String],
        dim: Option<usize>,
        filled: &[(usize, f32)],
        chosen: &Columns,
    ) -> Result<Labelled> {
        let (columns, again) = match names {
            [] => self.guessed(dim, chosen)?,
            names => (self.named(names)?, Vec::new()),
        };
        let is_filled = |place: usize| filled.iter().any(|(column, _)| *column == place);
        let is_read = |(place, column): &(usize, &usize)| {
            !is_filled(*place) || self.columns[**column].place.is_none()
        };
        let read = columns.iter().enumerate().filter(is_read);
        let read: Vec<usize> = read.map(|(_, column)| *column).collect();
        if let Some(error) = self.odd(&read, false) {
            return Err(error);
        }
        let notes = self.notes(&columns, None, &again);
        let table = self.table(&columns, None, &again, Some(chosen));
        let is_apart = |at: &usize| chosen.apart.contains(&self.header[*at]);
        let apart: Vec<usize> = self.numeric().into_iter().filter(is_apart).collect();
        let beside = match chosen.apart.is_empty() {
            true => Vec::new(),
            false => self.text_columns(None, &apart),
        };
        let feature_names = self.names(&columns);
        let (mut values, dim) = (self.take_values(&columns), columns.len());
        fill_in(&mut values, dim, filled);
        check_values(&self.name, &values, dim, 0)?;
        Ok(Labelled {
            name: self.name,
            values,
            dim,
            feature_names,
            notes,
            table,
            columns: beside,
            marks: self.marks,
            ..Labelled::default()
        })
    }

    /// The numeric columns or those that were `chosen`, apart from labels and columns that repeat a label, which come second.
    fn guessed(&self, dim: Option<usize>, chosen: &Columns) -> Result<(Vec<usize>, Vec<usize>)> {
        let mut columns = self.numeric();
        let labels: Vec<usize> = match dim {
            None => self.label_columns(),
            Some(dim) if columns.len() == dim + 1 => self.named_label().into_iter().collect(),
            Some(_) => Vec::new(),
        };
        columns.retain(|column| !labels.contains(column));
        // Columns that repeat a label column give the class away; they are left out if no head asks for `dim` inputs.
        let again = match (dim, self.named_label()) {
            (None, Some(label)) => {
                let labels = self.columns[label].texts.as_ref();
                labels.map_or_else(Vec::new, |labels| {
                    self.labels_again(labels, &columns, |_| true)
                })
            }
            _ => Vec::new(),
        };
        columns.retain(|column| !again.contains(column));
        let columns = self.chosen(chosen, columns)?;
        match columns.is_empty() {
            true => Err(self.no_features("that can be a feature", &again)),
            false => Ok((columns, again)),
        }
    }

    /// The columns of these names, in their order.
    fn named(&mut self, names: &[String]) -> Result<Vec<usize>> {
        if self.headless && places(names, &self.first).is_ok() {
            self.has_header();
        }
        places(names, &self.header).map_err(|name| {
            let (name, file) = (quoted(name), &self.name);
            let header = match self.headless {
                true => "the file has no header".to_owned(),
                false => format!("the columns are {}", self.all_names()),
            };
            Error::Data(format!(
                "{file}: there is no column {name}, which the head was trained on: {header}"
            ))
        })
    }
}
