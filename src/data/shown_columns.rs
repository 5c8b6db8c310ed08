//! The columns of a dataset as they are shown before any score: role, reason and first cells of each.

use super::Dataset;
use super::rows::roles::{ColumnRole, FIRST_ROWS, Role, TableColumn, shorten, shown};
use crate::base::error::Result;
use crate::rules::config::TrainConfig;

impl Dataset {
    /// Role of each column with these settings.
    pub fn column_roles(&self, config: &TrainConfig) -> Vec<ColumnRole> {
        self.table.iter().map(|line| line.with(config)).collect()
    }

    /// The table of columns with the first rows; for data that is no table it is made up: the label, features, and text columns.
    ///
    /// # Errors
    /// An error if the rows cannot be read.
    pub async fn columns_with_rows(&self) -> Result<Vec<TableColumn>> {
        match self.table.is_empty() {
            true => self.made_up().await,
            false => Ok(self.table.clone()),
        }
    }

    async fn made_up(&self) -> Result<Vec<TableColumn>> {
        let dim = self.features.dim();
        let rows: Vec<u32> = (0..self.rows().min(FIRST_ROWS) as u32).collect();
        let mut values = Vec::new();
        self.features.read(&rows, &mut values).await?;
        let line = |name: String, role: Role, first: Vec<String>| TableColumn {
            column: ColumnRole {
                name,
                role,
                reason: String::new(),
            },
            numbers: role == Role::Feature,
            named: false,
            many: false,
            first: first.iter().map(|cell| shown(cell)).collect(),
        };
        let of_rows = |cell: &dyn Fn(usize) -> String| -> Vec<String> {
            rows.iter().map(|row| cell(*row as usize)).collect()
        };
        let label = of_rows(&|row| self.class_names[self.labels[row] as usize].clone());
        let name = self.labelled_by().cloned();
        let mut lines = vec![line(
            name.unwrap_or_else(|| "label".to_owned()),
            Role::Label,
            label,
        )];
        let features = (0..dim).map(|at| {
            let name = super::column_spread::name(&self.feature_names, at);
            let cells = of_rows(&|row| values[row * dim + at].to_string());
            line(name, Role::Feature, cells)
        });
        lines.extend(features);
        let others = self.columns.iter().map(|(name, cells)| {
            let cells = of_rows(&|row| cells[row].to_owned());
            line(name.clone(), Role::Ignored, cells)
        });
        lines.extend(others);
        Ok(shorten(lines))
    }
}
