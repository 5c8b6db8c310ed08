//! Embeddings of a side with row numbers and classes: NPY, CSV, and the files of the Embedding Projector.

use serde_json::json;

use super::{SideRows, TakenFile, pretty, text};
use crate::data::{Dataset, write_matrix};
use crate::search::rows_to_check::{RowsToCheck, Suspect};

/// The matrix alone, as NPY.
pub(super) fn npy(rows: &SideRows) -> TakenFile {
    let matrix = write_matrix(&rows.embeddings.values, rows.embeddings.dim);
    TakenFile::new(format!("{}_embeddings.npy", rows.of.name()), matrix)
}

/// The class of each row, and its name if it has one, one a line below a header.
pub(super) fn labels(rows: &SideRows) -> TakenFile {
    let mut file = csv::Writer::from_writer(Vec::new());
    let mut put = |label: String, name: Option<String>| {
        let cells = std::iter::once(label).chain(name);
        file.write_record(cells).expect("memory takes it");
    };
    put("label".to_owned(), rows.name_column());
    for (place, label) in rows.labels.iter().enumerate() {
        put(text::cell(label), rows.name_at(place));
    }
    let bytes = file.into_inner().expect("memory takes it");
    TakenFile::new(format!("{}_labels.csv", rows.of.name()), bytes)
}

/// A list of rows as a file of this name: their numbers in the data, counted from 0, their names, their classes, and these columns. Written
/// by hand: the page makes this file without the code that makes the others, which it fetches when they are asked for.
pub(super) fn listed(
    dataset: &Dataset,
    rows: &[u32],
    file: &str,
    columns: &[(&str, Vec<String>)],
) -> TakenFile {
    let has_names = dataset.names().is_some();
    let quoted = |cell: &str| [",\"", &text::cell(cell).replace('"', "\"\""), "\""].concat();
    let mut text = if has_names {
        "row,name,label"
    } else {
        "row,label"
    }
    .to_owned();
    for (name, _) in columns {
        text = text + "," + name;
    }
    text.push('\n');
    for (at, (row, label)) in rows.iter().zip(dataset.labels_of(rows)).enumerate() {
        text += &dataset.left_out.in_file(*row).to_string();
        if has_names {
            text += &quoted(dataset.name_of(*row).unwrap_or_default());
        }
        text += &quoted(&dataset.class_names[label as usize]);
        for (_, cells) in columns {
            text += &quoted(&cells[at]);
        }
        text.push('\n');
    }
    TakenFile::new(file, text.into_bytes())
}

/// Rows to check of all rows of the data, as such a list.
pub(super) fn suspects(dataset: &Dataset, check: &RowsToCheck) -> TakenFile {
    let rows: Vec<u32> = check.suspects.iter().map(|of| of.row).collect();
    let column =
        |name, cell: fn(&Suspect) -> String| (name, check.suspects.iter().map(cell).collect());
    let columns = [
        column("likely_label", |of| of.likely.clone()),
        column("neighbours_of_likely", |of| of.votes.to_string()),
        column("neighbours_of_label", |of| of.own.to_string()),
        column("neighbours", |of| of.neighbours.to_string()),
        column("similarity", |of| format!("{:.4}", of.similarity)),
        column("margin", |of| {
            of.margin
                .map_or_else(String::new, |margin| format!("{margin:.4}"))
        }),
        column("by_head", |of| of.by_head.to_string()),
        column("neighbours_of_likely_by_features", |of| {
            of.by_features
                .map_or_else(String::new, |votes| votes.to_string())
        }),
    ];
    listed(dataset, &rows, "rows_to_check.csv", &columns)
}

/// Labels of a file that [`labels`] wrote.
///
/// # Errors
/// The problem, in words.
pub(super) fn read_labels(bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut file = csv::Reader::from_reader(bytes);
    let labels = file.records().map(|record| {
        let record = record.map_err(|error| error.to_string())?;
        Ok(text::cell_text(record.get(0).unwrap_or_default()).to_owned())
    });
    labels.collect()
}

/// A table: the row's number in the data, counted from 0, its name if it has one, its class, and its coordinates.
pub(super) fn csv(rows: &SideRows) -> TakenFile {
    let mut file = csv::Writer::from_writer(Vec::new());
    let mut put = |cells: Vec<String>| file.write_record(cells).expect("memory takes it");
    let names = (0..rows.embeddings.dim).map(|i| format!("embedding_{i}"));
    let fixed = |row: String, name: Option<String>, label: String| {
        std::iter::once(row).chain(name).chain([label])
    };
    let head = fixed("row".to_owned(), rows.name_column(), "label".to_owned());
    put(head.chain(names).collect());
    let labelled = rows.rows.iter().zip(&rows.labels).enumerate();
    for ((place, (number, label)), values) in labelled.zip(rows.embeddings.rows()) {
        let cells = fixed(number.to_string(), rows.name_at(place), text::cell(label));
        put(cells.chain(values.iter().map(f32::to_string)).collect());
    }
    let bytes = file.into_inner().expect("memory takes it");
    TakenFile::new(format!("{}_embeddings.csv", rows.of.name()), bytes)
}

/// Rows to check, the surest first: the row's number in the data, counted from 0, its name if it has one, and the votes of its
/// neighbours.
pub(super) fn to_check(rows: &SideRows, check: &RowsToCheck) -> TakenFile {
    let mut file = csv::Writer::from_writer(Vec::new());
    let mut put = |row: String, name: Option<String>, cells: [String; 6]| {
        let cells = std::iter::once(row).chain(name).chain(cells);
        file.write_record(cells).expect("memory takes it");
    };
    let names = [
        "label",
        "likely_label",
        "neighbours_of_likely",
        "neighbours_of_label",
        "neighbours",
        "similarity",
    ];
    put(
        "row".to_owned(),
        rows.name_column(),
        names.map(str::to_owned),
    );
    for suspect in &check.suspects {
        let place = rows.rows.binary_search(&suspect.row);
        let name = place.map_or_else(
            |_| rows.names.as_ref().map(|_| String::new()),
            |at| rows.name_at(at),
        );
        let cells = [
            text::cell(&suspect.class),
            text::cell(&suspect.likely),
            suspect.votes.to_string(),
            suspect.own.to_string(),
            suspect.neighbours.to_string(),
            format!("{:.4}", suspect.similarity),
        ];
        put(suspect.row.to_string(), name, cells);
    }
    let bytes = file.into_inner().expect("memory takes it");
    TakenFile::new(format!("{}_rows_to_check.csv", rows.of.name()), bytes)
}

/// Files for <https://projector.tensorflow.org>: vectors, labels with names, and a configuration that names both. Metadata of one
/// column has no header there.
pub(super) fn projector(rows: &SideRows) -> Vec<TakenFile> {
    let (mut vectors, mut metadata) = (String::new(), String::new());
    for values in rows.embeddings.rows() {
        let cells: Vec<String> = values.iter().map(f32::to_string).collect();
        vectors.push_str(&cells.join("\t"));
        vectors.push('\n');
    }
    if let Some(column) = rows.name_column() {
        metadata = format!("label\t{}\n", text::tsv(&column));
    }
    for (place, label) in rows.labels.iter().enumerate() {
        metadata.push_str(&text::tsv(label));
        if let Some((_, names)) = &rows.names {
            metadata.push('\t');
            metadata.push_str(&text::tsv(&names[place]));
        }
        metadata.push('\n');
    }
    let name = format!("Nearfar, {} rows", rows.of.words());
    let config = json!({ "embeddings": [{
        "tensorName": name,
        "tensorShape": [rows.rows.len(), rows.embeddings.dim],
        "tensorPath": "vectors.tsv",
        "metadataPath": "metadata.tsv",
    }] });
    vec![
        TakenFile::new("projector/vectors.tsv", vectors.into_bytes()),
        TakenFile::new("projector/metadata.tsv", metadata.into_bytes()),
        TakenFile::new("projector/projector_config.json", pretty(&config)),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::RowsOf;
    use super::*;
    use crate::model::embeddings::Embeddings;

    /// Two rows whose labels are a formula and markup over two lines.
    pub(crate) fn small() -> SideRows {
        SideRows {
            of: RowsOf::Test,
            rows: vec![3, 7],
            labels: ["=HYPERLINK(\"x\")", "<b>\t\n."].map(str::to_owned).into(),
            names: None,
            embeddings: Embeddings {
                values: vec![0.6, 0.8, -1.0, 1e-7],
                dim: 2,
            },
            neighbours: None,
        }
    }

    fn words(file: &TakenFile) -> &str {
        std::str::from_utf8(&file.bytes).expect("text")
    }

    #[test]
    fn a_table_says_row_and_class_and_opens_in_a_spreadsheet_without_running() {
        let file = csv(&small());
        assert_eq!(file.path, "test_embeddings.csv");
        assert_eq!(
            words(&file),
            "row,label,embedding_0,embedding_1\n3,\"'=HYPERLINK(\"\"x\"\")\",0.6,0.8\n7,\"<b>\t\n.\",-1,0.0000001\n"
        );
    }

    #[test]
    fn every_table_names_its_rows() {
        let names = ["=a", "b\tc"].map(str::to_owned).into();
        let rows = SideRows {
            names: Some(("label".to_owned(), names)),
            ..small()
        };
        assert!(
            words(&csv(&rows)).starts_with("row,name,label,embedding_0,embedding_1\n3,'=a,\"'=HYP")
        );
        assert!(words(&labels(&rows)).starts_with("label,name\n"));
        assert_eq!(read_labels(&labels(&rows).bytes).as_ref(), Ok(&rows.labels));
        let metadata = words(&projector(&rows)[1]).to_owned();
        assert_eq!(
            metadata,
            "label\tname\n=HYPERLINK(\"x\")\t=a\n<b>  .\tb c\n"
        );
        let suspect = Suspect {
            row: 7,
            class: "u".to_owned(),
            likely: "v".to_owned(),
            votes: 9,
            own: 1,
            neighbours: 10,
            similarity: 0.5,
            by_head: true,
            margin: Some(0.25),
            by_features: Some(8),
        };
        let check = RowsToCheck {
            rows: 2,
            suspects: vec![suspect],
            confused: Vec::new(),
        };
        let file = to_check(&rows, &check);
        assert!(
            words(&file).ends_with("\n7,b\tc,u,v,9,1,10,0.5000\n"),
            "{}",
            words(&file)
        );
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        dataset.ids = Some((
            "file".to_owned(),
            (0..1797).map(|i| format!("{i}.png")).collect(),
        ));
        assert_eq!(
            words(&suspects(&dataset, &check)),
            "row,name,label,likely_label,neighbours_of_likely,neighbours_of_label,neighbours,similarity,margin,by_head,neighbours_of_likely_by_features\n\
             7,\"7.png\",\"7\",\"v\",\"9\",\"1\",\"10\",\"0.5000\",\"0.2500\",\"true\",\"8\"\n"
        );
        let changed = TakenFile::of_changes(&dataset, &[(7, "=\"1\"".to_owned())]);
        assert_eq!(
            words(&changed),
            "row,name,label,new_label\n7,\"7.png\",\"7\",\"'=\"\"1\"\"\"\n"
        );
        assert_eq!(
            words(&listed(&dataset, &[7], "rows.csv", &[])),
            "row,name,label\n7,\"7.png\",\"7\"\n"
        );
    }

    #[test]
    fn labels_come_back_as_they_were() {
        let rows = small();
        let file = labels(&rows);
        assert_eq!(file.path, "test_labels.csv");
        assert_eq!(read_labels(&file.bytes).as_ref(), Ok(&rows.labels));
    }

    #[test]
    fn rows_that_were_picked_come_back_with_their_classes() {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        let class = dataset.labels[7] as usize;
        dataset.class_names[class] = "a \"b\", c\n".to_owned();
        let file = TakenFile::of_rows(&dataset, &[3, 7]);
        let mut reader = csv::Reader::from_reader(&file.bytes[..]);
        assert_eq!(reader.headers().expect("a head"), vec!["row", "label"]);
        let rows: Vec<_> = reader.records().map(|row| row.expect("a row")).collect();
        assert_eq!(rows[0], vec!["3", "3"]);
        assert_eq!(rows[1], vec!["7", "a \"b\", c\n"]);
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn without_names_the_projector_gets_no_headers_and_a_line_a_row() {
        let files = projector(&small());
        assert_eq!(words(&files[0]), "0.6\t0.8\n-1\t0.0000001\n");
        assert_eq!(words(&files[1]), "=HYPERLINK(\"x\")\n<b>  .\n");
        let config: serde_json::Value = serde_json::from_str(words(&files[2])).expect("JSON");
        assert_eq!(config["embeddings"][0]["tensorShape"], json!([2, 2]));
    }
}
