//! [`Texts`]: one text a row; a text that many rows have is held once. Readers gather them; labels and columns to split by are made
//! of them.

use std::collections::HashMap;
use std::ops::Index;

use serde::{Deserialize, Serialize};

/// A text for each row, each different one held once.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Texts {
    /// Index into `distinct`, by row.
    codes: Vec<u32>,
    /// The different texts, in the order in which they came.
    distinct: Vec<Box<str>>,
}

impl Texts {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Tells if there is no row.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        let texts = self.distinct.iter();
        let texts: usize = texts.map(|text| size_of::<Box<str>>() + text.len()).sum();
        (size_of_val(&self.codes[..]) + texts) as u64
    }

    /// The text of every row in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.codes
            .iter()
            .map(|code| &*self.distinct[*code as usize])
    }

    /// The different texts in the order in which they came; some may have no row any more.
    pub(crate) fn distinct(&self) -> &[Box<str>] {
        &self.distinct
    }

    /// Index into [`Texts::distinct`], by row.
    pub(crate) fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Keeps only the rows for which `keep`, by row, is true.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        let mut keep = keep.iter();
        self.codes.retain(|_| keep.next().is_none_or(|keep| *keep));
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut gathered = Gathered::default();
        for text in texts {
            gathered.push(text.as_ref());
        }
        gathered.finish()
    }
}

impl Index<usize> for Texts {
    type Output = str;

    /// The text of a row.
    fn index(&self, row: usize) -> &str {
        &self.distinct[self.codes[row] as usize]
    }
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: AsRef<str>> PartialEq<[T]> for Texts {
    fn eq(&self, other: &[T]) -> bool {
        self.iter().eq(other.iter().map(AsRef::as_ref))
    }
}

/// Texts while rows come.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    codes: Vec<u32>,
    index: HashMap<Box<str>, u32>,
}

impl Gathered {
    /// `rows` rows of one text.
    pub(crate) fn of(text: &str, rows: usize) -> Self {
        Self {
            codes: vec![0; rows],
            index: HashMap::from([(text.into(), 0)]),
        }
    }

    /// Appends a row; returns the approximate number of bytes that it takes.
    pub(crate) fn push(&mut self, text: &str) -> usize {
        const CODE: usize = size_of::<u32>();
        if let Some(code) = self.index.get(text) {
            self.codes.push(*code);
            return CODE;
        }
        let code = self.index.len() as u32;
        self.index.insert(text.into(), code);
        self.codes.push(code);
        CODE + size_of::<(Box<str>, u32)>() + text.len()
    }

    /// Moves the last row before the others.
    pub(crate) fn last_to_front(&mut self) {
        self.codes.rotate_right(1);
    }

    pub(crate) fn finish(self) -> Texts {
        let mut distinct = vec![Box::<str>::default(); self.index.len()];
        for (text, code) in self.index {
            distinct[code as usize] = text;
        }
        Texts {
            codes: self.codes,
            distinct,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_held_once_and_rows_keep_their_order() {
        let mut gathered = Gathered::of("", 2);
        gathered.push("b");
        gathered.push("a");
        gathered.push("b");
        gathered.push("c");
        gathered.last_to_front();
        let mut texts = gathered.finish();
        assert_eq!(
            texts.iter().collect::<Vec<_>>(),
            ["c", "", "", "b", "a", "b"]
        );
        assert_eq!(texts.distinct().len(), 4);
        texts.retain(&[true, false, true, true, false, true]);
        assert_eq!(texts, ["c", "", "b", "b"][..]);
        assert_eq!((&texts[3], texts.len(), texts.is_empty()), ("b", 4, false));
    }
}
