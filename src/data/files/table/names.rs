//! Names of columns that say what the columns hold: labels, row numbers.

/// Column names that mean a label, whatever their case, the surest first: a `y` may be a coordinate.
pub(crate) const LABEL_NAMES: [&str; 17] = [
    "label",
    "labels",
    "target",
    "class",
    "class_id",
    "category",
    "cell_type",
    "celltype",
    "leiden",
    "louvain",
    "cluster",
    "species",
    "identity",
    "pid",
    "variety",
    "digit",
    "y",
];

/// Column names that mean a row number, and never a feature, whatever they hold.
pub(super) const ID_NAMES: [&str; 9] = [
    "",
    "id",
    "index",
    "unnamed: 0",
    "__index_level_0__",
    "barcode",
    "row",
    "row.names",
    "rownames",
];

/// Names of columns of whole numbers, each once, that tell rows apart and measure nothing.
pub(super) const COUNTER_NAMES: [&str; 16] = [
    "#", "case", "counter", "key", "no", "no.", "nr", "num", "number", "obs", "record", "sample",
    "seq", "track", "uid", "uuid",
];

/// Tells if a column's name ends as those of row numbers do: `customer_id`, `sample id`, `userId`, `case_number`.
pub(super) fn counts_by_name(name: &str) -> bool {
    let spaced = [
        "_id", "-id", " id", ".id", "_number", " number", "_no", " no", "_nr", " nr", "_key",
    ];
    let name_ends = |end: &str| name.to_ascii_lowercase().ends_with(end);
    let capital = ["Id", "ID"].iter().find_map(|end| name.strip_suffix(end));
    spaced.into_iter().any(name_ends)
        || capital.is_some_and(|before| before.ends_with(char::is_lowercase))
}

/// Tells if a column or an array of this name holds labels.
pub(crate) fn is_label_name(name: &str) -> bool {
    let mut names = LABEL_NAMES.iter();
    names.any(|label| name.eq_ignore_ascii_case(label))
}
