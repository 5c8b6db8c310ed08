//! [`Scatters`]: covariance of rows within and between classes, and the shrinkage of Ledoit and Wolf that follows from it.

use nalgebra::DMatrix;

use crate::data::column_spread;

/// Rows that one pass over the scatter adds.
const PASS_ROWS: usize = 8;

/// Mean and scatters of the rows of some classes. The diagonal and the upper triangle of a scatter are filled.
#[derive(Clone, Debug)]
pub(super) struct Scatters {
    pub(super) rows: f64,
    pub(super) mean: Vec<f64>,
    /// Sum over rows of the products of residuals from the mean of the row's class, `[dim, dim]`.
    pub(super) within: Vec<f64>,
    pub(super) between: Between,
}

/// The scatter of the means of classes about the mean of all rows.
#[derive(Clone, Debug)]
pub(super) enum Between {
    /// Sum over rows of the products of the steps from the mean of all rows to the mean of the row's class, `[dim, dim]`.
    Products(Vec<f64>),
    /// Steps from the mean of all rows to the mean of each class, times the root of the class's rows, `[dim, classes]`; used if
    /// classes are fewer than features.
    Steps(DMatrix<f64>, Vec<f64>),
}

impl Scatters {
    pub(super) fn new(dim: usize, classes: usize) -> Self {
        Self {
            rows: 0.0,
            mean: vec![0.0; dim],
            within: vec![0.0; dim * dim],
            between: match classes < dim {
                true => Between::Steps(DMatrix::zeros(dim, classes), Vec::new()),
                false => Between::Products(vec![0.0; dim * dim]),
            },
        }
    }

    /// Adds a class of this mean to the mean and to the scatter between classes (Chan, Golub and `LeVeque` 1979).
    pub(super) fn join(&mut self, mean: &[f64], of_class: f64) {
        let rows = self.rows + of_class;
        let weight = self.rows * of_class / rows;
        let steps: Vec<f64> = mean.iter().zip(&self.mean).map(|(a, b)| a - b).collect();
        let dim = steps.len();
        match &mut self.between {
            Between::Products(products) => {
                for i in 0..dim {
                    let step = weight * steps[i];
                    let sums = products[i * dim + i..].iter_mut();
                    for (sum, along) in sums.zip(&steps[i..]) {
                        *sum += step * along;
                    }
                }
            }
            // The mean of all is not known yet.
            Between::Steps(means, sizes) => {
                means.column_mut(sizes.len()).copy_from_slice(mean);
                sizes.push(of_class);
            }
        }
        for (sum, step) in self.mean.iter_mut().zip(&steps) {
            *sum += step * of_class / rows;
        }
        self.rows = rows;
    }

    /// Ends the joining of classes.
    pub(super) fn finish(&mut self) {
        if let Between::Steps(means, sizes) = &mut self.between {
            for (mut column, size) in means.column_iter_mut().zip(sizes.iter()) {
                let steps = column.iter_mut().zip(&self.mean);
                steps.for_each(|(value, mean)| *value = (*value - mean) * size.sqrt());
            }
        }
    }

    /// Removes constant features from both scatters: their weights become 0.
    pub(super) fn leave_out_constant(&mut self) {
        let dim = self.mean.len();
        let between = |i: usize| match &self.between {
            Between::Products(products) => products[i * dim + i],
            Between::Steps(steps, _) => steps.row(i).norm_squared(),
        };
        let sizes = (0..dim).map(|i| {
            let variance = (self.within[i * dim + i] + between(i)) / self.rows;
            (variance.sqrt(), self.mean[i].abs())
        });
        let constant = column_spread::constant(sizes);
        for i in (0..dim).filter(|i| constant[*i]) {
            let places = (0..i)
                .map(|j| j * dim + i)
                .chain((i..dim).map(|j| i * dim + j));
            for place in places {
                self.within[place] = 0.0;
                if let Between::Products(products) = &mut self.between {
                    products[place] = 0.0;
                }
            }
            if let Between::Steps(steps, _) = &mut self.between {
                steps.row_mut(i).fill(0.0);
            }
        }
    }

    /// Standard deviation of each feature within classes, 1 for one that does not vary there. Means of equal f32 values are exact,
    /// so that their residuals are zeros.
    pub(super) fn scales(&self) -> Vec<f64> {
        let diagonal = self.within.iter().step_by(self.mean.len() + 1);
        let scale = |scatter: &f64| match scatter / self.rows {
            0.0 => 1.0,
            variance => variance.sqrt(),
        };
        diagonal.map(scale).collect()
    }

    /// The shrinkage of Ledoit and Wolf for residuals over their scales, with this many `features`.
    ///
    /// `fourth` is the mean of the fourth power of their length.
    pub(super) fn ledoit_wolf(&self, scales: &[f64], fourth: f64, features: usize) -> f64 {
        let dim = scales.len();
        if features == 1 {
            return 0.0;
        }
        let (mut trace, mut squares) = (0.0, 0.0);
        for i in 0..dim {
            let at = |j: usize| self.within[i * dim + j] / (self.rows * scales[i] * scales[j]);
            trace += at(i);
            squares += at(i).powi(2);
            squares += 2.0 * (i + 1..dim).map(|j| at(j).powi(2)).sum::<f64>();
        }
        // Scatter of the products about their mean, and distance of the covariance from its target.
        let features = features as f64;
        let noise = (fourth - squares) / (features * self.rows);
        let distance = (squares - trace * trace / features) / features;
        if noise > 0.0 && distance > 0.0 {
            (noise / distance).min(1.0)
        } else {
            0.0
        }
    }

    /// Covariance within classes, shrunk over the scales towards independent features of their mean variance.
    pub(super) fn shrunk(&self, scales: &[f64], shrinkage: f64, features: usize) -> Vec<f64> {
        let dim = scales.len();
        let kept = (1.0 - shrinkage) / self.rows;
        let mut shrunk: Vec<f64> = self.within.iter().map(|scatter| kept * scatter).collect();
        let diagonal = self.within.iter().step_by(dim + 1);
        let variances = diagonal
            .zip(scales)
            .map(|(scatter, scale)| scatter / (self.rows * scale * scale));
        let target = shrinkage * variances.sum::<f64>() / features as f64;
        shrunk
            .iter_mut()
            .step_by(dim + 1)
            .zip(scales)
            .for_each(|(value, scale)| *value += target * scale * scale);
        shrunk
    }
}

/// Adds the products of each two columns of centred rows to `scatter`; pads the rows to whole passes.
pub(super) fn add_products(centred: &mut Vec<f64>, dim: usize, scatter: &mut [f64]) {
    // Rows of zeros add nothing, and make every pass whole.
    centred.resize(centred.len().next_multiple_of(PASS_ROWS * dim), 0.0);
    for rows in centred.chunks_exact(PASS_ROWS * dim) {
        for i in 0..dim {
            let sums = &mut scatter[i * dim + i..(i + 1) * dim];
            let right: [&[f64]; PASS_ROWS] =
                std::array::from_fn(|row| &rows[row * dim + i..][..sums.len()]);
            let left: [f64; PASS_ROWS] = std::array::from_fn(|row| right[row][0]);
            for (j, sum) in sums.iter_mut().enumerate() {
                let mut add = 0.0;
                for row in 0..PASS_ROWS {
                    add += left[row] * right[row][j];
                }
                *sum += add;
            }
        }
    }
}
