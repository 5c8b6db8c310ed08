//! Embeddings of a side as AnnData: the names of the cells, the label and the side of each in `obs`, and the embeddings where scanpy
//! looks for them. A browser cannot write into a person's file; these lie beside it, and Python brings them over by the cells' names.
//!
//! On-disk format: <https://anndata.readthedocs.io/en/stable/fileformat-prose.html>.

use std::borrow::Cow;
use std::collections::BTreeSet;

use hdf5_pure::{AttrValue, DatasetBuilder, FileBuilder, GroupBuilder};

use super::{Results, RowsOf, SideRows, TakenFile};
use crate::base::error::{Error, Result};

/// The column that tells the side of each row, as [`RowsOf`] names it.
const SPLIT: &str = "nearfar_split";

/// The AnnData file of these rows; their numbers are those in the file.
///
/// # Errors
/// [`Error::Io`] if it cannot be written to memory.
pub(super) fn file(results: &Results, rows: &SideRows) -> Result<TakenFile> {
    let bytes = written(results, rows).map_err(|error| Error::Io {
        what: "writing AnnData".to_owned(),
        source: std::io::Error::other(error),
    })?;
    let name = format!("{}_embeddings.h5ad", rows.of.name());
    Ok(TakenFile::new(name, bytes))
}

fn written(results: &Results, rows: &SideRows) -> Result<Vec<u8>, hdf5_pure::Error> {
    let names: Cow<[String]> = match &rows.names {
        Some((_, names)) => Cow::Borrowed(names),
        None => rows.rows.iter().map(u32::to_string).collect(),
    };
    let label = results.report.data.label_column.as_deref();
    let mut columns = vec![(column_name(label), texts(&rows.labels))];
    // In the data, not in the file: so the sides are numbered.
    let numbered = results.rows.as_ref().map_or(&[][..], |rows| &rows.rows);
    if let Some(sides) = results.sides_of(numbered) {
        columns.push((SPLIT, sides.into_iter().map(RowsOf::name).collect()));
    }
    let mut file = FileBuilder::new();
    for (name, value) in encoding("anndata", "0.1.0") {
        file.set_attr(name, value);
    }
    let mut cells = file.create_group("obs");
    frame(&mut cells, &texts(&names), &columns);
    file.add_group(cells.finish());
    let mut genes = file.create_group("var");
    frame(&mut genes, &[], &[]);
    file.add_group(genes.finish());
    let mut matrices = file.create_group("obsm");
    mark(&mut matrices, "dict", "0.1.0");
    let matrix = matrices.create_dataset("X_nearfar");
    let shape = [rows.rows.len() as u64, rows.embeddings.dim as u64];
    let matrix = matrix.with_f32_data(&rows.embeddings.values);
    mark_array(matrix.with_shape(&shape), "array");
    file.add_group(matrices.finish());
    file.finish()
}

/// A name of a column of `obs` that AnnData takes.
fn column_name(label: Option<&str>) -> &str {
    let label = label.unwrap_or_default();
    let taken = ["", ".", "_index", SPLIT].contains(&label);
    match taken || label.contains('/') {
        true => "label",
        false => label,
    }
}

fn texts(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// The attributes that tell how an element is stored.
fn encoding(kind: &str, version: &str) -> [(&'static str, AttrValue); 2] {
    let text = |text: &str| AttrValue::VarLenString(text.to_owned());
    [
        ("encoding-type", text(kind)),
        ("encoding-version", text(version)),
    ]
}

fn mark(group: &mut GroupBuilder, kind: &str, version: &str) {
    for (name, value) in encoding(kind, version) {
        group.set_attr(name, value);
    }
}

fn mark_array(array: &mut DatasetBuilder, kind: &str) {
    for (name, value) in encoding(kind, "0.2.0") {
        array.set_attr(name, value);
    }
}

/// Adds an array of texts to a group.
fn add_texts(group: &mut GroupBuilder, name: &str, texts: &[&str]) {
    let array = group.create_dataset(name).with_vlen_strings(texts);
    mark_array(array, "string-array");
}

/// Fills a group as a data frame of named rows, whose columns are categories.
fn frame(group: &mut GroupBuilder, names: &[&str], columns: &[(&str, Vec<&str>)]) {
    mark(group, "dataframe", "0.2.0");
    let order = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    group.set_attr("_index", AttrValue::VarLenString("_index".to_owned()));
    group.set_attr("column-order", AttrValue::VarLenStringArray(order));
    add_texts(group, "_index", names);
    for (name, cells) in columns {
        let categories: BTreeSet<&str> = cells.iter().copied().collect();
        let categories: Vec<&str> = categories.into_iter().collect();
        let code = |cell: &&str| categories.partition_point(|category| category < cell) as i32;
        let codes: Vec<i32> = cells.iter().map(code).collect();
        let mut column = group.create_group(name);
        mark(&mut column, "categorical", "0.2.0");
        column.set_attr("ordered", AttrValue::U8(0));
        let array = column.create_dataset("codes").with_i32_data(&codes);
        mark_array(array, "array");
        add_texts(&mut column, "categories", &categories);
        group.add_group(column.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::small;
    use super::*;
    use crate::data::{Choice, Labelled, NamedFile};
    use crate::model::embeddings::Embeddings;

    #[test]
    fn cells_are_read_back_with_their_names_labels_and_sides() {
        let name = |row: u32| format!("細胞 \"{row}\"\n-1");
        let class = |row: u32| ["a \"b\", c", "château", "'"][row as usize * 7 % 3].to_owned();
        for (count, named, label) in [(1, true, "cell type"), (5000, true, "a"), (3, false, "a/b")]
        {
            let bits = (0..count).flat_map(|row| [row, row ^ 0x3f80_0000]);
            let rows = SideRows {
                of: RowsOf::All,
                rows: (0..count).collect(),
                labels: (0..count).map(class).collect(),
                names: named.then(|| ("id".to_owned(), (0..count).map(name).collect())),
                embeddings: Embeddings {
                    values: bits.clone().map(f32::from_bits).collect(),
                    dim: 2,
                },
                neighbours: None,
            };
            let mut results = small();
            results.report.data.label_column = Some(label.to_owned());
            results.report.data.rows = count as usize;
            results.sides = Some((0..count).map(|row| (row % 3) as u8).collect());
            results.rows = Some(rows.clone());
            let TakenFile { path, bytes } = file(&results, &rows).expect("is written");
            assert_eq!(path, "all_embeddings.h5ad");
            let choice = Choice {
                features: Some("obsm/X_nearfar"),
                labels: Some(if label == "a/b" { "label" } else { label }),
                ..Choice::default()
            };
            let read = Labelled::read(&NamedFile { name: path, bytes }, None, choice);
            let read = read.expect("is read");
            assert!(read.values.iter().map(|value| value.to_bits()).eq(bits));
            assert_eq!((read.dim, &read.labels), (2, &rows.labels.iter().collect()));
            let names = read.ids.map(|(_, names)| names).expect("has names");
            let numbers = || (0..count).map(|row| row.to_string()).collect();
            let expected = rows.names.map_or_else(numbers, |(_, names)| names);
            assert!(names.iter().eq(&expected));
            let (column, sides) = &read.columns[0];
            let side = |row| ["train", "validation", "test"][row as usize % 3];
            assert!(column == SPLIT && sides.iter().eq((0..count).map(side)));
        }
    }
}
