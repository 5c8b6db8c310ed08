//! Content of the columns of a Parquet file, by its schema, and by the notes of pandas about its index and categories.

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::file::metadata::FileMetaData;
use parquet::schema::types::ColumnDescriptor;
use serde::Deserialize;

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Truth,
    Integer,
    Unsigned,
    Float,
    /// Floats of 16 bits.
    Half,
    Text,
}

/// A column of numbers or text, or of lists of numbers.
#[derive(Debug)]
pub(super) struct Column {
    /// Index among the columns of a row group.
    pub(super) leaf: usize,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The definition level of a value that is not missing.
    pub(super) defined: i16,
    /// The definition level from which on a list has an element; none if the column holds no lists.
    pub(super) element: Option<i16>,
    /// Set if the table takes it for text: text, truth values, and pandas' categories.
    pub(super) is_text: bool,
}

/// The columns of a file that are read, and the names of the others.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) read: Vec<Column>,
    /// Columns that hold neither numbers nor text, with their content in words.
    pub(super) others: Vec<(String, &'static str)>,
    /// Columns that are the index of pandas.
    pub(super) index: Vec<String>,
}

impl Columns {
    pub(super) fn of(about: &FileMetaData) -> Self {
        let (schema, pandas) = (about.schema_descr(), Pandas::of(about));
        let mut columns = Self::default();
        let roots = schema.root_schema().get_fields();
        let mut leaves = vec![0; roots.len()];
        for leaf in 0..schema.num_columns() {
            leaves[schema.get_column_root_idx(leaf)] += 1;
        }
        let mut leaf = 0;
        for (root, leaves) in roots.iter().zip(leaves) {
            let (at, name) = (leaf, root.name().to_owned());
            leaf += leaves;
            if pandas.is_index(&name) {
                columns.index.push(name);
                continue;
            }
            let single = (leaves == 1).then(|| schema.column(at));
            let kind = single.as_ref().and_then(|about| {
                let of_lists = about.max_rep_level() == 1;
                let is_flat = about.max_rep_level() == 0 && root.is_primitive();
                let kind = kind(about)?;
                let is_number = !matches!(kind, Kind::Truth | Kind::Text);
                (is_flat || (of_lists && is_number)).then_some((kind, of_lists))
            });
            let (Some(about), Some((kind, of_lists))) = (single.as_ref(), kind) else {
                columns.others.push((name, what(single.as_deref())));
                continue;
            };
            columns.read.push(Column {
                leaf: at,
                defined: about.max_def_level(),
                element: of_lists.then(|| about.repeated_ancestor_def_level()),
                is_text: matches!(kind, Kind::Truth | Kind::Text) || pandas.is_category(&name),
                kind,
                name,
            });
        }
        columns
    }
}

/// Words for decimal numbers.
pub(super) const DECIMALS: &str = "decimal numbers";

/// Content of a column that is not read, in words; `single` is the column if it is one and not a group of several.
fn what(single: Option<&ColumnDescriptor>) -> &'static str {
    use ConvertedType as Converted;
    let Some(about) = single else {
        return "several parts in each row";
    };
    let is_list = about.max_rep_level() > 0;
    match (about.logical_type_ref(), about.converted_type()) {
        (Some(LogicalType::String), _) | (_, Converted::UTF8) if is_list => "a list of text",
        _ if is_list => "lists of other things than numbers",
        (Some(LogicalType::Decimal { .. }), _) | (_, Converted::DECIMAL) => DECIMALS,
        (Some(LogicalType::Date | LogicalType::Time { .. } | LogicalType::Timestamp { .. }), _)
        | (
            _,
            Converted::DATE
            | Converted::TIME_MILLIS
            | Converted::TIME_MICROS
            | Converted::TIMESTAMP_MILLIS
            | Converted::TIMESTAMP_MICROS,
        ) => "dates or times",
        _ if about.physical_type() == Type::INT96 => "dates or times",
        _ if about.max_def_level() > 1 => "several parts in each row",
        _ => "bytes",
    }
}

/// Type of the values of a column; none if they are neither numbers nor text.
fn kind(about: &ColumnDescriptor) -> Option<Kind> {
    let (logical, converted) = (about.logical_type_ref(), about.converted_type());
    match about.physical_type() {
        Type::BOOLEAN => Some(Kind::Truth),
        Type::INT32 | Type::INT64 => match (logical, converted) {
            (Some(LogicalType::Integer(about)), _) if !about.is_signed => Some(Kind::Unsigned),
            (Some(LogicalType::Integer(_) | LogicalType::Unknown), _) => Some(Kind::Integer),
            (Some(_), _) => None,
            (
                None,
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64,
            ) => Some(Kind::Unsigned),
            (
                None,
                ConvertedType::NONE
                | ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::INT_64,
            ) => Some(Kind::Integer),
            (None, _) => None,
        },
        Type::FLOAT | Type::DOUBLE => logical.is_none().then_some(Kind::Float),
        Type::FIXED_LEN_BYTE_ARRAY => {
            let is_half = logical == Some(&LogicalType::Float16) && about.type_length() == 2;
            is_half.then_some(Kind::Half)
        }
        Type::BYTE_ARRAY => {
            let is_text = match logical {
                Some(LogicalType::String | LogicalType::Enum | LogicalType::Json) => true,
                Some(_) => false,
                None => matches!(
                    converted,
                    ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
                ),
            };
            is_text.then_some(Kind::Text)
        }
        Type::INT96 => None,
    }
}

/// Notes of pandas about the table that it wrote.
#[derive(Debug, Default, Deserialize)]
struct Pandas {
    /// Names of columns; for an index without a column, the range that it counts.
    #[serde(default)]
    index_columns: Vec<serde_json::Value>,
    #[serde(default)]
    columns: Vec<PandasColumn>,
}

#[derive(Debug, Deserialize)]
struct PandasColumn {
    field_name: Option<String>,
    pandas_type: Option<String>,
}

impl Pandas {
    /// Reads the notes beside the schema; empty if another program wrote the file.
    fn of(about: &FileMetaData) -> Self {
        let mut notes = about.key_value_metadata().into_iter().flatten();
        let own = notes.find(|note| note.key == "pandas");
        let text = own.and_then(|note| note.value.as_deref());
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    fn is_index(&self, name: &str) -> bool {
        let names = self.index_columns.iter();
        let mut names = names.filter_map(serde_json::Value::as_str);
        names.any(|own| own == name)
    }

    fn is_category(&self, name: &str) -> bool {
        self.columns.iter().any(|column| {
            column.field_name.as_deref() == Some(name)
                && column.pandas_type.as_deref() == Some("categorical")
        })
    }
}
