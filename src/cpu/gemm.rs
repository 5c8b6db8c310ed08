//! The matrix products of a linear layer.

use pulp::{Arch, Simd, WithSimd};

use super::SEGMENT;
use super::parallel::{map, rows_of_a_part};
use super::stored;
use super::tile::{BLOCK, PANEL, STEP, add_block, lanes, similarities};

/// A gradient this large has no finite square.
const HUGE: f32 = 1e18;

/// A linear layer's place in the flat vector of parameters: `W` `[outputs, inputs]`, then `b` `[outputs]`, both sides
/// padded to 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Floats of a row of its input, padding included.
    pub inputs: usize,
    /// Floats of a row of its output, padding included.
    pub outputs: usize,
    /// Start of `W`, in floats.
    pub weights: usize,
    /// A ReLU follows.
    pub relu: bool,
    /// Its input is the output of a ReLU: the gradient is 0 where that is 0.
    pub of_relu: bool,
    /// Its outputs are added to those that are there, in place of a bias: it has no `b`.
    pub adds: bool,
}

impl Layer {
    /// Start of `b`, or of the next layer if it has none, in floats.
    pub fn bias(&self) -> usize {
        self.weights + self.outputs * self.inputs
    }

    /// Start of the next layer, in floats.
    pub fn end(&self) -> usize {
        match self.adds {
            true => self.bias(),
            false => self.bias() + self.outputs,
        }
    }
}

/// Rows of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The whole matrix.
    pub values: stored::Rows<'a>,
    /// Numbers of the chosen rows; `None`: the first ones.
    pub chosen: Option<&'a [u32]>,
}

impl<'a> From<stored::Rows<'a>> for Rows<'a> {
    fn from(values: stored::Rows<'a>) -> Self {
        Self {
            values,
            chosen: None,
        }
    }
}

impl Rows<'_> {
    /// Number of the i-th chosen row.
    fn number(&self, i: usize) -> usize {
        self.chosen.map_or(i, |chosen| chosen[i] as usize)
    }
}

/// `y = x W^T + b`, through a ReLU if the layer has one; of a layer that adds `y + x W^T`.
pub fn forward(layer: &Layer, rows: usize, x: Rows<'_>, parameters: &[f32], y: &mut [f32]) {
    let Layer {
        inputs, outputs, ..
    } = *layer;
    let weights = &parameters[layer.weights..layer.bias()];
    let bias = &parameters[layer.bias()..layer.end()];
    let panel = rows_of_a_part(rows, 2 * rows * inputs * outputs, PANEL);
    let panels = y[..rows * outputs].chunks_mut(panel * outputs).enumerate();
    map(panels.collect(), |(i, y)| {
        let (first, count) = (i * panel, y.len() / outputs);
        let mut buffer = Vec::new();
        let x = match x.chosen {
            None => x.values.some(first * inputs, count * inputs, &mut buffer),
            Some(_) => {
                buffer.resize(count * inputs, 0.0);
                for (row, to) in (first..).zip(buffer.chunks_exact_mut(inputs)) {
                    x.values.copy(x.number(row) * inputs, to);
                }
                &buffer
            }
        };
        let lanes = lanes(x, inputs);
        let mut sums = [[0.0; PANEL]; SEGMENT];
        for first in (0..outputs).step_by(SEGMENT) {
            let places: Vec<usize> = (first..outputs.min(first + SEGMENT)).collect();
            similarities(&lanes, weights, &places, &mut sums);
            for (lane, y) in y.chunks_exact_mut(outputs).enumerate() {
                let y = &mut y[first..first + places.len()];
                if !layer.adds {
                    y.copy_from_slice(&bias[first..][..places.len()]);
                }
                for (y, sums) in y.iter_mut().zip(&sums) {
                    let sum = sums[lane] + *y;
                    *y = if layer.relu { sum.max(0.0) } else { sum };
                }
            }
        }
    });
}

/// `dx = dy W`; of a ReLU's outputs `x` zero for every one that is not positive.
pub fn input_gradient(
    layer: &Layer,
    rows: usize,
    dy: &[f32],
    parameters: &[f32],
    x: stored::Rows<'_>,
    dx: &mut [f32],
) {
    let weights = &parameters[layer.weights..layer.bias()];
    let dx = &mut dx[..rows * layer.inputs];
    product(
        layer.outputs,
        |row, o| dy[row * layer.outputs + o],
        stored::Rows::F32(weights).into(),
        layer.inputs,
        false,
        dx,
    );
    if !layer.of_relu {
        return;
    }
    let mut buffer = Vec::new();
    for (row, dx) in dx.chunks_exact_mut(layer.inputs).enumerate() {
        let x = x.some(row * layer.inputs, layer.inputs, &mut buffer);
        for (dx, x) in dx.iter_mut().zip(x) {
            if *x <= 0.0 {
                *dx = 0.0;
            }
        }
    }
}

/// `dW = dy^T x` and `db = sum of dy`; with `onto` added to those that are there.
pub fn weight_gradient(
    layer: &Layer,
    rows: usize,
    x: Rows<'_>,
    dy: &[f32],
    onto: bool,
    gradients: &mut [f32],
    status: &mut [u32],
) {
    let (dw, db) = gradients[layer.weights..layer.end()].split_at_mut(layer.bias() - layer.weights);
    product(
        rows,
        |o, row| dy[row * layer.outputs + o],
        x,
        layer.inputs,
        onto,
        dw,
    );
    for (o, db) in db.iter_mut().enumerate() {
        let column = dy[..rows * layer.outputs].chunks_exact(layer.outputs);
        let before = if onto { *db } else { -0.0 };
        *db = column.fold(before, |sum, dy| sum + dy[o]);
    }
    // Written so that NaN counts as huge too.
    if !gradients[layer.weights..layer.end()]
        .iter()
        .all(|gradient| gradient.abs() < HUGE)
    {
        status[0] = 1;
    }
}

/// `out[r][c] = sum over k of left(r, k) * right[k][c]` for `terms` of k and `columns` of c: a partial sum for every
/// [`BLOCK`] terms, both ascending. With `onto` the sums go on from those that are there.
fn product(
    terms: usize,
    left: impl Fn(usize, usize) -> f32 + Copy + Send + Sync,
    right: Rows<'_>,
    columns: usize,
    onto: bool,
    out: &mut [f32],
) {
    let most = rows_of_a_part(out.len() / columns, 2 * terms * out.len(), SEGMENT);
    let parts = out.chunks_mut(most * columns).enumerate().collect();
    map(parts, |(part, out)| {
        let first = part * most;
        Arch::new().dispatch(Product {
            terms,
            left: |r, k| left(first + r, k),
            right,
            columns,
            onto,
            out,
        });
    });
}

struct Product<'a, L> {
    terms: usize,
    left: L,
    right: Rows<'a>,
    columns: usize,
    onto: bool,
    out: &'a mut [f32],
}

impl<L: Fn(usize, usize) -> f32> WithSimd for Product<'_, L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.columns;
        let rows = self.out.len() / columns;
        let mut sums = [[0.0; PANEL]; SEGMENT];
        let mut lanes = [[0.0; PANEL]; BLOCK];
        for c in (0..columns).step_by(PANEL) {
            let width = PANEL.min(columns - c);
            if self.onto {
                for (out, sums) in self.out.chunks_exact(columns).zip(&mut sums) {
                    sums[..width].copy_from_slice(&out[c..c + width]);
                }
            }
            for first in (0..self.terms).step_by(BLOCK) {
                let terms = BLOCK.min(self.terms - first);
                let begins = first == 0 && !self.onto;
                for (k, lanes) in lanes[..terms].iter_mut().enumerate() {
                    let at = self.right.number(first + k) * columns + c;
                    self.right.values.copy(at, &mut lanes[..width]);
                }
                for (step, sums) in sums[..rows].chunks_mut(STEP).enumerate() {
                    let last = sums.len() - 1;
                    let value =
                        |i: usize, k: usize| (self.left)(step * STEP + i.min(last), first + k);
                    add_block(simd, &lanes[..terms], value, sums, begins);
                }
            }
            for (out, sums) in self.out.chunks_exact_mut(columns).zip(&sums) {
                out[c..c + width].copy_from_slice(&sums[..width]);
            }
        }
    }
}
