//! Names of rows: the column that tells them apart, which is guessed unless a person chooses another, and the cells of a row.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::{Dataset, Texts};

/// No column was chosen.
pub(super) const UNCHOSEN: usize = usize::MAX;

/// Of ten rows, those that a column has to tell apart to name them unasked.
const TELLS: usize = 9;

impl Dataset {
    /// The columns that can name the rows: one that says nothing else first, then the text columns.
    pub fn naming_columns(&self) -> impl Iterator<Item = &(String, Texts)> {
        self.ids.iter().chain(&self.columns)
    }

    /// Chooses the column that names the rows; the one that tells them apart if there is none of this name.
    pub fn name_by(&self, column: &str) {
        let at = self.naming_columns().position(|(name, _)| name == column);
        self.named_by
            .store(at.unwrap_or(UNCHOSEN), Ordering::Relaxed);
    }

    /// The column that names the rows: the chosen one, or else the first that has another text in nine of ten rows.
    pub fn names(&self) -> Option<&(String, Texts)> {
        let tells =
            |(_, cells): &&(String, Texts)| 10 * cells.distinct().len() >= TELLS * self.rows();
        let chosen = self
            .naming_columns()
            .nth(self.named_by.load(Ordering::Relaxed));
        chosen.or_else(|| self.naming_columns().find(tells))
    }

    /// The name of a row; none if there is no such column, or its cell is empty.
    pub fn name_of(&self, row: u32) -> Option<&str> {
        let (_, cells) = self.names()?;
        Some(&cells[row as usize]).filter(|name| !name.is_empty())
    }

    /// The column that names these rows, and the name of each, empty where its cell is.
    pub fn names_of(&self, rows: &[u32]) -> Option<(String, Vec<String>)> {
        Some(named(self.names()?, rows))
    }

    /// The file's own names of these rows, whichever column a person chose to name them by.
    pub(crate) fn ids_of(&self, rows: &[u32]) -> Option<(String, Vec<String>)> {
        Some(named(self.ids.as_ref()?, rows))
    }

    /// The cells of a row by column, without its label and its features.
    pub fn cells_of(&self, row: u32) -> Vec<(String, String)> {
        let cells = self.naming_columns();
        let cells = cells.map(|(name, cells)| (name.clone(), cells[row as usize].to_owned()));
        cells.collect()
    }

    /// The row of this name; else the one whose name begins with it, or else holds it, in any case: of `first`, or else of all.
    pub fn row_named(&self, name: &str, first: &[u32]) -> Option<u32> {
        let (_, cells) = self.names()?;
        let all = 0..self.rows() as u32;
        if let Some(row) = all.clone().find(|row| &cells[*row as usize] == name) {
            return Some(row);
        }
        let sought = name.to_ascii_lowercase();
        let place = |row: u32| cells[row as usize].to_ascii_lowercase().find(&sought);
        let among = |rows: &mut dyn Iterator<Item = u32>| {
            rows.filter_map(|row| Some((place(row)?, row))).min()
        };
        let found = among(&mut first.iter().copied()).or_else(|| among(&mut all.clone()));
        found.map(|(_, row)| row)
    }

    /// The row of each of these files: the only one whose cell in some column is the file's name, without the folders before it. The
    /// column is the one that names the most of them.
    pub fn rows_of_files(&self, files: &[String]) -> Vec<Option<u32>> {
        let named = |(_, cells): &(String, Texts)| -> Vec<Option<u32>> {
            // Of a name that two rows have, neither is it.
            let mut rows: HashMap<&str, Option<u32>> = HashMap::new();
            for row in 0..self.rows() as u32 {
                let name = cells[row as usize].rsplit(['/', '\\']).next();
                let known = rows.entry(name.unwrap_or_default());
                known.and_modify(|row| *row = None).or_insert(Some(row));
            }
            let row = |file: &String| rows.get(file.as_str()).copied().flatten();
            files.iter().map(row).collect()
        };
        let found = self.naming_columns().map(named);
        let count = |rows: &Vec<Option<u32>>| rows.iter().flatten().count();
        let none = || vec![None; files.len()];
        found.max_by_key(count).unwrap_or_else(none)
    }

    /// Bytes of all texts of the rows: names and other columns.
    pub fn text_bytes(&self) -> u64 {
        self.naming_columns().map(|(_, cells)| cells.bytes()).sum()
    }
}

fn named((column, cells): &(String, Texts), rows: &[u32]) -> (String, Vec<String>) {
    let names = rows.iter().map(|row| cells[*row as usize].to_owned());
    (column.clone(), names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choice, Labelled, NamedFile};

    fn table(text: &str) -> Dataset {
        let file = NamedFile {
            name: "t.csv".to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        Labelled::read(&file, None, Choice::default())
            .and_then(Dataset::new)
            .expect("reads")
    }

    #[test]
    fn a_file_is_the_one_row_that_names_it_in_whichever_column() {
        let text = "site,picture,species,x\nA,ash/1.png,ash,1\nA,elm/2.png,elm,2\nB,elm/1.png,elm,3\nB,3.png,ash,4\n";
        let files = ["2.png", "1.png", "3.png", "4.png", "ash"].map(str::to_owned);
        let rows = table(text).rows_of_files(&files);
        // Two rows name a 1.png: which is meant, nobody knows.
        assert_eq!(rows, [Some(1), None, Some(3), None, None]);
    }

    #[test]
    fn rows_are_named_by_the_column_that_tells_them_apart_or_the_chosen_one() {
        let text = "site,leaf,species,x\nA,l-1,ash,1\nA,l-2,elm,2\nB,l-3,ash,3\nB,,elm,4\n";
        let dataset = table(text);
        assert_eq!(dataset.names().expect("has names").0, "leaf");
        assert_eq!(dataset.name_of(2), Some("l-3"));
        assert_eq!(dataset.name_of(3), None, "an empty cell");
        assert_eq!(dataset.row_named("l-2", &[]), Some(1));
        assert_eq!(dataset.row_named("L-", &[2, 3]), Some(2));
        assert_eq!(dataset.row_named("L-", &[3]), Some(0), "of all others");
        assert_eq!(dataset.row_named("q", &[0, 1, 2, 3]), None);
        let cells = [("site", "B"), ("leaf", "l-3")];
        let cells = cells.map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(dataset.cells_of(2), cells);
        assert!(dataset.text_bytes() > 32);
        dataset.name_by("site");
        assert_eq!(dataset.name_of(2), Some("B"));
        dataset.name_by("none");
        assert_eq!(dataset.name_of(2), Some("l-3"));
    }

    #[test]
    fn whole_numbers_that_tell_rows_apart_name_them_and_row_numbers_do_not() {
        let rows = |id: fn(usize) -> usize| {
            let rows = (0..20).map(|i| format!("{},{},{}.5", id(i), ["u", "v"][i % 2], i * i % 7));
            let rows: Vec<String> = rows.collect();
            table(&format!("plant_id,label,x\n{}\n", rows.join("\n")))
        };
        let far = rows(|i| 1000 + i * i);
        assert_eq!(far.name_of(3), Some("1009"));
        assert!(far.columns.is_empty(), "they are no group and no split");
        assert_eq!(rows(|i| i).names(), None);
    }
}
