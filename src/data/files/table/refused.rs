//! Refusals of a table: cells that are no numbers, tables without features, columns that are not read; each with what to do.

use super::cells::{is_missing_number, is_unsure};
use super::column::Kind;
use super::{Table, delimiter_argument};
use crate::base::error::Error;
use crate::base::quote::{listed, quoted};
use crate::data::Missing;
use crate::data::files::foreign::{self, saved_again};
use crate::data::files::{Format, vectors};
use crate::data::rows::notation::Notation;

impl Table {
    /// Refusal of the first cell of these columns that is no finite number; with the choices for missing values if the file allows
    /// them (`can_choose`).
    pub(super) fn odd(&self, columns: &[usize], can_choose: bool) -> Option<Error> {
        let mut first: Option<(usize, usize, &str)> = None;
        let mut count = 0;
        for (order, column) in columns.iter().enumerate() {
            let told = &self.columns[*column];
            let found = match (&told.odd, &told.texts) {
                (_, Some(texts)) if told.kind == Kind::Text => {
                    let is_odd = |cell: &str| told.notation.read::<f32>(cell).is_none();
                    texts.iter().enumerate().find(|(_, cell)| is_odd(cell))
                }
                (Some(odd), _) => {
                    count += odd.count;
                    Some((odd.row, odd.text.as_str()))
                }
                (None, _) if told.left_out => {
                    let (name, column) = (&self.name, quoted(&self.header[*column]));
                    let problem = "holds text, which is not a number";
                    return Some(Error::Data(format!("{name}: column {column} {problem}")));
                }
                (None, _) => None,
            };
            if let Some((row, cell)) = found
                && first.is_none_or(|(known, place, _)| (row, order) < (known, place))
            {
                first = Some((row, order, cell));
            }
        }
        let (row, order, cell) = first?;
        let (name, place) = (&self.name, self.place(row));
        let notation = self.columns[columns[order]].notation;
        let column = quoted(&self.header[columns[order]]);
        let problem = self.problem(cell, notation, count, can_choose);
        let message = format!("{name}, {place}: column {column} {problem}");
        Some(match message.ends_with(Missing::ADVICE) {
            true => Error::Cells(message),
            false if is_unsure(cell, notation) => Error::TwoReadings(message),
            false => Error::Data(message),
        })
    }

    /// Reason why a cell, one of `count` such cells, is no feature, and what to do.
    fn problem(&self, cell: &str, notation: Notation, count: usize, can_choose: bool) -> String {
        let with_a_point = || cell.replace(',', ".").parse::<f32>();
        let one_of = match count {
            0 | 1 => String::new(),
            _ => format!(", one of {count} such cells"),
        };
        let advice = match can_choose {
            true => Missing::ADVICE.to_owned(),
            false => self.how_to_drop(),
        };
        let shown = quoted(cell);
        match cell {
            "" => format!("has an empty cell{one_of}: {advice}"),
            _ if is_missing_number(cell) => {
                format!("holds {shown}, a missing value{one_of}: {advice}")
            }
            _ if is_unsure(cell, notation) => format!(
                "holds {shown}, which is {} where the comma stands between thousands, and {} where it is a decimal comma, and the column \
                 does not tell",
                cell.replace(',', ""),
                cell.replacen(',', ".", 1)
            ),
            _ if cell.contains(',') && with_a_point().is_ok() => {
                let how = match self.delimiter {
                    Some(delimiter) => format!(
                        "; pandas does: {}",
                        self.saved_again(delimiter, ", decimal=\",\"", "")
                    ),
                    None => String::new(),
                };
                format!("holds {shown}: write numbers with a decimal point{how}")
            }
            _ if cell.parse::<f32>().is_ok() && cell.contains(|c: char| c.is_ascii_digit()) => {
                format!(
                    "holds {shown}, too large for 32-bit floats (3.4e38 at most): scale the column"
                )
            }
            _ if cell.parse::<f32>().is_ok() => {
                format!("holds {shown}, which is not finite{one_of}: {advice}")
            }
            _ if can_choose => format!("holds {shown}, which is not a number{one_of}: {advice}"),
            _ => format!("holds {shown}, which is not a number"),
        }
    }

    /// Advice on rows with a missing value if no treatment can be chosen for them.
    fn how_to_drop(&self) -> String {
        let Some(delimiter) = self.delimiter else {
            return "fill or drop such rows first".to_owned();
        };
        let drop_columns = match self.of_kind(Kind::Empty).is_empty() {
            true => "",
            false => ".dropna(axis=1, how=\"all\")",
        };
        let how = self.saved_again(delimiter, "", &format!("{drop_columns}.dropna()"));
        format!("fill or drop such rows; pandas drops them: {how}")
    }

    /// Pandas code that reads this CSV with `arguments`, applies `change` and saves it again.
    fn saved_again(&self, delimiter: u8, arguments: &str, change: &str) -> String {
        let header = match self.headless {
            true => ", header=None",
            false => "",
        };
        let delimiter = delimiter_argument(delimiter);
        saved_again(
            &self.name,
            &format!("{delimiter}{header}{arguments}"),
            change,
        )
    }

    pub(super) fn no_features(&self, wanted: &str, again: &[usize]) -> Error {
        let is_text = !Format::of(&self.name).is_some_and(Format::is_typed);
        let names = |columns: &[usize]| listed(columns.iter().map(|at| self.header[*at].as_str()));
        let numbers: Vec<usize> = (0..self.header.len())
            .filter(|column| self.numbers_rows(*column))
            .collect();
        let is_cut = |at: &usize| {
            let is_list = |cell: &str| {
                cell.contains("...") && cell.trim_start().starts_with(['[', '(', 'a', 't'])
            };
            self.holds(*at, is_list)
        };
        let cut = (0..self.header.len()).find(is_cut);
        let what_to_do = match (&self.header[..], self.what_is_unread()) {
            _ if let Some(cut) = cut => {
                format!(
                    "column {} {}",
                    quoted(&self.header[cut]),
                    vectors::CUT_SHORT
                )
            }
            (_, Some(unread)) => format!(
                "{unread}; numbers are read, and a list of as many numbers in each row, such as [0.5, 1]"
            ),
            ([_], None) if is_text => {
                "where it should have more, separate the cells by commas, semicolons or tabs"
                    .to_owned()
            }
            _ if !again.is_empty() => format!(
                "left out because it says what the labels say: {}; on the command line --features takes it all the same",
                names(again)
            ),
            _ if !numbers.is_empty() => format!(
                "left out because it numbers the rows: {}; on the command line --features takes it all the same",
                names(&numbers)
            ),
            _ => "where they are in another file, give both at once".to_owned(),
        };
        Error::Data(format!(
            "{}: no numeric column {wanted}: there are no features; {what_to_do}",
            self.name
        ))
    }

    /// Sentence about the columns that are not read, such as "\"tags\" holds a list of text"; none if all are read.
    fn what_is_unread(&self) -> Option<String> {
        let (name, what) = self.unread.first()?;
        let more = match self.unread.len() {
            1 => String::new(),
            more => format!(" (and {} more are not read)", more - 1),
        };
        Some(format!("{} holds {what}{more}", quoted(name)))
    }

    /// Refusal of a column that is not read, chosen or named as the label.
    pub(super) fn unread_label(&self, (name, what): &(String, &'static str)) -> Error {
        let how = match what.contains("list") {
            true => format!(
                ": write its one name, in pandas `df[\"{0}\"] = df[\"{0}\"].str[0]`",
                foreign::in_python(name)
            ),
            false => String::new(),
        };
        Error::Data(format!(
            "{}: {} holds {what}, and a label is one text or one whole number a row{how}",
            self.name,
            quoted(name)
        ))
    }
}
