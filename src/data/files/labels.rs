//! [`Labels`] of the rows of another file, in the order of those rows: as they come, or joined by a key.

use std::collections::HashMap;

use super::input::Input;
use super::join::Join;
use super::settled::check_counts;
use super::{Format, NamedFile, Table, arrays};
use crate::base::error::{Error, Result};
use crate::base::quote::quoted;
use crate::data::rows::class_names;
#[cfg(not(target_arch = "wasm32"))]
use crate::data::rows::unlabelled;
use crate::data::{Choice, Labelled, Labels, Missing, Texts};

/// The rows that labels of another file belong to.
pub(super) enum Beside<'a> {
    /// This number of rows, of a file of this name.
    Rows(&'a str, usize),
    /// Rows of arrays, each with its key.
    Keyed(&'a str, Texts),
    /// Rows of a table.
    Table(&'a mut Table),
}

impl Beside<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Rows(name, _) | Self::Keyed(name, _) => name,
            Self::Table(table) => table.name(),
        }
    }

    /// Number of rows, if there are `labels` labels: a first line of numbers may be a header or a row.
    fn rows(&mut self, labels: usize) -> usize {
        match self {
            Self::Rows(_, rows) => *rows,
            Self::Keyed(_, keys) => keys.len(),
            Self::Table(table) => {
                table.expect(labels);
                table.rows()
            }
        }
    }

    /// Keys of the rows, from the column `on` that was named to join labels by.
    fn keys(&self, on: &str) -> Result<Texts> {
        match self {
            Self::Rows(name, _) => Err(Error::Data(format!(
                "{name}: on: its rows have no columns that labels could be joined by: give them as a table or as named arrays"
            ))),
            Self::Keyed(_, keys) => Ok(keys.clone()),
            Self::Table(table) => table.named_key(on),
        }
    }

    /// Join with the labels of a table if none was chosen: by a column that both tables have and that tells the rows apart.
    fn join_by_itself(&self, labels: &Table, choice: Choice<'_>) -> Option<Join> {
        let (Self::Table(data), None) = (self, choice.on()) else {
            return None;
        };
        let own: HashMap<&str, usize> = data.header().iter().map(String::as_str).zip(0..).collect();
        labels.header().iter().enumerate().find_map(|(at, name)| {
            let own = *own.get(name.as_str())?;
            let theirs = labels.key(at)?;
            Join::by_itself(name, data.key(own)?, theirs)
        })
    }
}

impl Labels {
    /// The key column `on` of the file of labels.
    fn keys(&self, on: &str, file: &str) -> Result<Texts> {
        let column = self.columns.iter().find(|(name, _)| name == on);
        column.map(|(_, texts)| texts.clone()).ok_or_else(|| {
            let on = quoted(on);
            Error::Data(format!(
                "{file}: on: there is no column {on} beside the labels"
            ))
        })
    }
}

impl Labelled {
    /// Reads the labels of the `rows` rows of the file `of`: an NPY of integers or strings, such an array of an NPZ, or a column of
    /// a table, guessed if it is not named.
    ///
    /// # Errors
    /// [`Error::Data`] when it holds no such labels, or more or fewer.
    pub fn read_labels(
        file: &NamedFile,
        choice: Choice<'_>,
        of: &str,
        rows: usize,
    ) -> Result<Labels> {
        Self::read_labels_of(file.into(), choice, Beside::Rows(of, rows))
    }

    /// Reads labels from a file on the disk.
    ///
    /// # Errors
    /// As [`Labelled::read_labels`] and [`NamedFile::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_labels(
        path: &std::path::Path,
        chosen: Option<&str>,
        of: &str,
        rows: usize,
    ) -> Result<Labels> {
        let choice = Choice {
            labels: chosen,
            ..Choice::default()
        };
        let mut read = Self::read_labels_of(Input::open(path)?, choice, Beside::Rows(of, rows))?;
        read.notes.extend(unlabelled::note(&read.labels));
        Ok(read)
    }

    /// Reads labels for the rows `beside`; brings them into the order of the rows if keys join them.
    pub(super) fn read_labels_of(
        mut file: Input<'_>,
        choice: Choice<'_>,
        mut beside: Beside<'_>,
    ) -> Result<Labels> {
        file.check()?;
        let name = file.name().to_owned();
        let known = beside.rows(usize::MAX);
        let check = |beside: &mut Beside<'_>, labels: usize| {
            let rows = beside.rows(labels);
            match choice.on() {
                Some(_) => Ok(()),
                None => check_counts(beside.name(), rows, &name, labels),
            }
        };
        let mut by_itself = None;
        let mut read = match Format::of(&name) {
            Some(format) if format.is_matrix() => Labels {
                labels: file.labels(|labels| check(&mut beside, labels))?,
                ..Labels::default()
            },
            Some(format) if format.has_arrays() => file.arrays(|arrays| {
                arrays::read_labels(arrays, choice, known, |labels| check(&mut beside, labels))
            })?,
            _ => {
                let mut table = file.table(choice.of_labels(), |_| ())?;
                // A first line of numbers is a label or a header; the number of rows decides.
                table.expect(beside.rows(table.rows()));
                by_itself = beside.join_by_itself(&table, choice);
                if by_itself.is_none() {
                    check(&mut beside, table.rows())?;
                }
                table.into_labels(choice)?
            }
        };
        let join = match choice.on() {
            Some(on) => Some(Join::new(
                on,
                beside.keys(on)?,
                read.keys(on, &name)?,
                beside.name(),
                &name,
            )?),
            None => by_itself,
        };
        if let Some(join) = join {
            let can_drop = choice.missing == Some(Missing::DropRows);
            read.notes.push(join.said(beside.name(), &name, can_drop)?);
            read.labels = join.ordered(&read.labels);
            for (_, texts) in &mut read.columns {
                *texts = join.ordered(texts);
            }
            read.on = Some(join.on);
        }
        let notes = class_names::settle(&mut read.labels);
        read.notes.extend(notes);
        Ok(read)
    }
}
