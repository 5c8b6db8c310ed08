//! The rows of a second file as the test side: classes are joined by name, and columns too if both files name them.

use super::rows::class_names::look_alike;
use super::rows::columns::places;
use super::{Dataset, Labelled, split};
use crate::base::error::{Error, Result};
use crate::base::quote::quoted;

impl Dataset {
    /// Adds rows with the same columns as the test side; classes are joined by name, and columns too if both files name them.
    ///
    /// # Errors
    /// [`Error::Data`] when the columns differ in number or a name is missing.
    pub async fn append(&self, other: &Self) -> Result<Self> {
        let (dim, other_dim) = (self.features.dim(), other.features.dim());
        if dim != other_dim {
            return Err(Error::Data(format!(
                "{}: {other_dim} features, expected {dim} as in {}",
                other.name, self.name
            )));
        }
        let order = if self.feature_names.is_empty() || other.feature_names.is_empty() {
            (0..dim).collect()
        } else {
            places(&self.feature_names, &other.feature_names).map_err(|name| {
                Error::Data(format!(
                    "{}: there is no feature {}, as there is in {}",
                    other.name,
                    quoted(name),
                    self.name
                ))
            })?
        };
        let names = [self, other].into_iter();
        let names = names.flat_map(|data| data.label_names()).collect();
        let all = |data: &Self| (0..data.rows() as u32).collect::<Vec<_>>();
        let (mut values, mut others) = (Vec::new(), Vec::new());
        self.features.read(&all(self), &mut values).await?;
        other.features.read(&all(other), &mut others).await?;
        let others = others.chunks_exact(dim);
        values.extend(others.flat_map(|row| order.iter().map(|place| row[*place])));
        let mut joined = Self::new(Labelled {
            name: self.name.clone(),
            values,
            dim,
            feature_names: self.feature_names.clone(),
            labels: names,
            notes: [&self.notes[..], &other.notes].concat(),
            table: self.table.clone(),
            ..Labelled::default()
        })?;
        let sides = std::iter::repeat_n("train", self.rows());
        let sides = sides.chain(std::iter::repeat_n("test", other.rows()));
        joined
            .columns
            .push((split::SIDE_COLUMN.to_owned(), sides.collect()));
        joined.joined = true;
        let alike = look_alike(joined.class_names.iter().map(String::as_str));
        let alike = alike.filter(|note| !joined.notes.contains(note));
        joined.notes.extend(alike);
        joined.missing = self.missing;
        joined.marks = self.marks;
        joined.on.clone_from(&self.on);
        joined.unlabelled.clone_from(&self.unlabelled);
        joined.left_out = self.left_out.before(self.rows(), &other.left_out);
        joined.aside.clone_from(&self.aside);
        joined.filled.clone_from(&self.filled);
        Ok(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choice, NamedFile};
    use crate::rules::config::Split;

    fn names(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    fn table(name: &str, text: &str) -> Dataset {
        let file = NamedFile {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        Labelled::read(&file, None, Choice::default())
            .and_then(Dataset::new)
            .expect("reads")
    }

    #[test]
    fn files_are_joined_by_the_names_of_their_columns() {
        let train = table("train.csv", "a,b,label\n1,2,u\n3,4,v\n");
        let joined = |other: &str| pollster::block_on(train.append(&table("test.csv", other)));
        let swapped = joined("b,a,label\n6,5,v\n8,7,u\n").expect("joins");
        assert_eq!(
            swapped.features.in_memory(),
            Some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0][..])
        );
        assert_eq!(swapped.feature_names, names(&["a", "b"]));
        let error = joined("a,c,label\n1,2,u\n3,4,v\n").expect_err("refused");
        assert_eq!(
            error.to_string(),
            "test.csv: there is no feature \"b\", as there is in train.csv"
        );
        let error = joined("a,b,c,label\n1,2,3,u\n3,4,5,v\n").expect_err("refused");
        assert_eq!(
            error.to_string(),
            "test.csv: 3 features, expected 2 as in train.csv"
        );
    }

    #[test]
    fn only_joined_data_is_split_by_file_unasked() {
        let own = table("own.csv", "a,side,label\n1,left,u\n2,right,v\n");
        assert_eq!(own.default_config().split, Split::Random);
        let joined = pollster::block_on(own.append(&own)).expect("joins");
        let by_file = Split::Column("side".to_owned());
        assert_eq!(joined.default_config().split, by_file);
    }
}
