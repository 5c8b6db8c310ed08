//! [`Format`] of a file, told by the ending of its name, beneath `.gz` if it is packed.

/// File format of features or labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines of cells: CSV or TSV.
    Table,
    /// A JSON object a line.
    JsonLines,
    /// One array of `NumPy`.
    Npy,
    /// Named arrays of `NumPy`.
    Npz,
    /// Named tensors.
    Safetensors,
    /// Named datasets of HDF5: AnnData among others.
    Hdf5,
    /// Columns of typed values.
    Parquet,
}

/// Content of a file, which decides who opens it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Lines of a table, which come part by part: `TableReader::new`.
    Text,
    /// Columns of a table, read in place: `Input::parquet`.
    Columns,
    /// Named arrays: `Arrays::open`.
    Arrays,
    /// One array: `Input::matrix` and `Input::labels`.
    Matrix,
}

/// File name endings, each with its format.
const ENDINGS: [(&str, Format); 13] = [
    ("csv", Format::Table),
    ("tsv", Format::Table),
    ("txt", Format::Table),
    ("jsonl", Format::JsonLines),
    ("ndjson", Format::JsonLines),
    ("npy", Format::Npy),
    ("npz", Format::Npz),
    ("safetensors", Format::Safetensors),
    ("h5ad", Format::Hdf5),
    ("h5", Format::Hdf5),
    ("hdf5", Format::Hdf5),
    ("parquet", Format::Parquet),
    ("pq", Format::Parquet),
];

impl Format {
    /// The format of a file of this name; `None` if it is not read.
    pub fn of(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let ending = name.strip_suffix(GZ).unwrap_or(&name).rsplit_once('.')?.1;
        let found = ENDINGS.iter().find(|(known, _)| *known == ending);
        found.map(|(_, format)| *format)
    }

    fn content(self) -> Content {
        match self {
            Self::Table | Self::JsonLines => Content::Text,
            Self::Parquet => Content::Columns,
            Self::Npz | Self::Safetensors | Self::Hdf5 => Content::Arrays,
            Self::Npy => Content::Matrix,
        }
    }

    /// Tells if a file of it is a table, with columns to choose the label from, some of which may hold lists.
    pub fn is_table(self) -> bool {
        matches!(self.content(), Content::Text | Content::Columns)
    }

    /// Tells if a file of it has several arrays, to choose from by name.
    pub fn has_arrays(self) -> bool {
        self.content() == Content::Arrays
    }

    /// Tells if a file of it is one array: features or labels, not both.
    pub(crate) fn is_matrix(self) -> bool {
        self.content() == Content::Matrix
    }

    /// Tells if a file of it is text that is read part by part.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn is_text(self) -> bool {
        self.content() == Content::Text
    }

    /// Tells if a file of it says which cells are numbers.
    pub(crate) fn is_typed(self) -> bool {
        matches!(self, Self::JsonLines | Self::Parquet)
    }

    /// The endings of files that are read, unpacked.
    pub fn endings() -> impl Iterator<Item = &'static str> {
        ENDINGS.iter().map(|(ending, _)| *ending)
    }
}

/// Ending of a file that is packed.
pub(super) const GZ: &str = ".gz";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_beneath_gz_tells_the_format() {
        for (name, format) in [
            ("a.b/X.NPY", Some(Format::Npy)),
            ("x.csv.gz", Some(Format::Table)),
            ("x.safetensors", Some(Format::Safetensors)),
            ("x.parquet", Some(Format::Parquet)),
            ("x.gz", None),
            ("x.feather", None),
            ("npy", None),
        ] {
            assert_eq!(Format::of(name), format, "{name}");
        }
    }
}
