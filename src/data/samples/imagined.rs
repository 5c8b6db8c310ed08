//! Imagined data: only the numbers of rows, features and classes. Memory and time can be planned by them before there is any data;
//! nothing can be trained on them.

use crate::base::error::{Error, Result};
use crate::data::{Dataset, RowSource};

/// Rows, features and classes at most.
const MOST: [usize; 3] = [10_000_000, 65_536, 1_000_000];

/// Imagined data of a name like `600000x128x1000`: rows, features, classes; the classes take turns, so that their sizes differ by
/// one row at most. None for another name.
///
/// # Errors
/// [`Error::Config`] for numbers out of their range.
pub(super) fn named(name: &str) -> Option<Result<Dataset>> {
    let numbers: Option<Vec<usize>> = name.split('x').map(|part| part.parse().ok()).collect();
    match numbers?[..] {
        [rows, dim, classes] => Some(of([rows, dim, classes])),
        _ => None,
    }
}

fn of(sizes: [usize; 3]) -> Result<Dataset> {
    let names = ["rows", "features", "classes"];
    for ((name, size), most) in names.iter().zip(sizes).zip(MOST) {
        if size == 0 || size > most {
            return Err(Error::Config(format!(
                "{name} is {size}: it must be between 1 and {most} in data that is imagined"
            )));
        }
    }
    let [rows, dim, classes] = sizes;
    if classes > rows {
        return Err(Error::Config(format!(
            "classes is {classes}: {rows} rows have at most as many classes"
        )));
    }
    Ok(Dataset {
        name: format!("sample:{rows}x{dim}x{classes}"),
        features: RowSource::Imagined { rows, dim },
        labels: (0..classes as u32).cycle().take(rows).collect(),
        class_names: (0..classes).map(|class| class.to_string()).collect(),
        notes: vec!["imagined, to plan memory and time with".to_owned()],
        ..Dataset::empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_rows_features_and_classes() {
        let dataset = Dataset::sample("600x8x30", 0).expect("is imagined");
        assert_eq!(
            (
                dataset.rows(),
                dataset.features.dim(),
                dataset.class_names.len()
            ),
            (600, 8, 30)
        );
        assert_eq!(dataset.class_sizes(), vec![20; 30]);
        let refused = |name: &str| Dataset::sample(name, 0).expect_err("refused").to_string();
        assert!(refused("0x8x30").starts_with("rows is 0: it must be between 1 and 10000000"));
        assert!(refused("600x8x601").starts_with("classes is 601: 600 rows"));
        assert!(refused("600x8").starts_with("there is no sample"));
        let read = pollster::block_on(dataset.features.read(&[0], &mut Vec::new()));
        assert!(
            read.expect_err("there are none")
                .to_string()
                .contains("only imagined")
        );
    }
}
