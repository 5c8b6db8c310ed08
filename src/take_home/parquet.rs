//! Embeddings of a side as Parquet: one row for each, with its number in the data, its name if it has one, its class, and its
//! embedding as a list.

use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::parser::parse_message_type;

use super::{SideRows, TakenFile};
use crate::base::error::{Error, Result};

const SCHEMA: &str = "message rows {
    required int64 row;
    required binary name (UTF8);
    required binary label (UTF8);
    required group embedding (LIST) { repeated group list { required float element; } }
}";
/// Rows of a row group, which are held in memory beside the written bytes.
const GROUP_ROWS: usize = 100_000;

/// The Parquet file.
///
/// # Errors
/// [`Error::Io`] if it cannot be written to memory.
pub(super) fn file(rows: &SideRows) -> Result<TakenFile> {
    let bytes = written(rows).map_err(|error| Error::Io {
        what: "writing Parquet".to_owned(),
        source: std::io::Error::other(error),
    })?;
    let name = format!("{}_embeddings.parquet", rows.of.name());
    Ok(TakenFile::new(name, bytes))
}

fn written(rows: &SideRows) -> Result<Vec<u8>, ParquetError> {
    let schema = match rows.names {
        Some(_) => SCHEMA.to_owned(),
        None => SCHEMA.replace("    required binary name (UTF8);\n", ""),
    };
    let schema = Arc::new(parse_message_type(&schema)?);
    // Embeddings hardly repeat: a dictionary of them would be as long as they are.
    let properties = WriterProperties::builder()
        .set_column_dictionary_enabled("embedding.list.element".into(), false)
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let dim = rows.embeddings.dim.max(1);
    let labelled = rows.rows.chunks(GROUP_ROWS);
    let labelled = labelled.zip(rows.labels.chunks(GROUP_ROWS));
    let names = rows
        .names
        .iter()
        .flat_map(|(_, names)| names.chunks(GROUP_ROWS));
    let mut names = names.map(texts);
    for ((numbers, labels), values) in labelled.zip(rows.embeddings.values.chunks(GROUP_ROWS * dim))
    {
        let numbers: Vec<i64> = numbers.iter().map(|number| i64::from(*number)).collect();
        // A list begins with its first element, and no element is missing.
        let places = (0..values.len()).map(|at| i16::from(at % dim != 0));
        let (begins, are_there) = (places.collect::<Vec<_>>(), vec![1; values.len()]);
        let mut group = file.next_row_group()?;
        let mut column = next(&mut group)?;
        column
            .typed::<Int64Type>()
            .write_batch(&numbers, None, None)?;
        column.close()?;
        for texts in names.next().into_iter().chain([texts(labels)]) {
            let mut column = next(&mut group)?;
            column
                .typed::<ByteArrayType>()
                .write_batch(&texts, None, None)?;
            column.close()?;
        }
        let mut column = next(&mut group)?;
        let elements = column.typed::<FloatType>();
        elements.write_batch(values, Some(&are_there), Some(&begins))?;
        column.close()?;
        group.close()?;
    }
    file.into_inner()
}

fn texts(texts: &[String]) -> Vec<ByteArray> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

/// The next column of the schema.
fn next<'a, W: std::io::Write + Send>(
    group: &'a mut SerializedRowGroupWriter<'_, W>,
) -> Result<SerializedColumnWriter<'a>, ParquetError> {
    let column = group.next_column()?;
    column.ok_or_else(|| ParquetError::General("the schema has no more columns".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::embeddings;
    use super::super::results::tests::small;
    use super::*;
    use crate::data::{Choice, Labelled, NamedFile, Texts};

    #[test]
    fn embeddings_are_read_back_as_they_were() {
        let rows = small().rows.expect("has some");
        let file = file(&rows).expect("is written");
        assert_eq!(
            file.path,
            embeddings::csv(&rows).path.replace("csv", "parquet")
        );
        let file = NamedFile {
            name: file.path,
            bytes: file.bytes,
        };
        let read = Labelled::read(&file, None, Choice::default()).expect("is read");
        assert_eq!(
            (read.dim, read.values),
            (rows.embeddings.dim, rows.embeddings.values)
        );
        assert_eq!(read.labels, rows.labels[..]);
        assert_eq!(read.feature_names[0], "embedding[0]");
    }

    #[test]
    fn rows_are_read_back_with_their_names() {
        let mut rows = small().rows.expect("has some");
        let names: Vec<String> = (0..rows.rows.len()).map(|i| format!("cell {i}")).collect();
        rows.names = Some(("obs_names".to_owned(), names.clone()));
        let file = file(&rows).expect("is written");
        let file = NamedFile {
            name: file.path,
            bytes: file.bytes,
        };
        let read = Labelled::read(&file, None, Choice::default()).expect("is read");
        let mut columns = read.columns.iter();
        let (_, read_names) = columns
            .find(|(column, _)| column == "name")
            .expect("is there");
        assert_eq!(read_names, &names.iter().collect::<Texts>());
        assert_eq!(read.labels, rows.labels[..]);
    }
}
