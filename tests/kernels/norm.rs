use nearfar::kernels::norm::{self, Norm, NormLayer};
use nearfar::kernels::stride;
use nearfar::{Activation, Engine, reference};
use rand::RngExt as _;

use super::common::{assert_close, engines, output, read, rng, to_f64, vector};

/// f32 sums of up to 600 values near 1, over roots of variances near 1.
const TOLERANCE: f64 = 2e-5;
/// Sums over up to 600 rows, whose largest is about 100.
const SUMS: f64 = 2e-4;

/// Rows and columns on both sides of a segment, of a workgroup and of whole vec4s.
const SHAPES: [(usize, usize); 7] = [
    (2, 1),
    (5, 3),
    (32, 64),
    (255, 30),
    (256, 255),
    (257, 260),
    (600, 9),
];

struct Case {
    layer: NormLayer,
    rows: usize,
    x: Vec<f32>,
    /// Gains, shifts, and running means and variances, after eight floats that are not the norm's.
    parameters: Vec<f32>,
    dy: Vec<f32>,
}

/// Rows of values within +-1 after a shift of their own column, padded by zeros.
fn rows_of(rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut rng = rng(seed);
    let mut all = vec![0.0; rows * stride(width)];
    for row in all.chunks_exact_mut(stride(width)) {
        for (column, value) in row[..width].iter_mut().enumerate() {
            *value = rng.random_range(-1.0..1.0) + column as f32 / width as f32;
        }
    }
    all
}

fn cases(of_batch: bool) -> impl Iterator<Item = Case> {
    let activations = [Activation::Relu, Activation::Gelu];
    let shapes = SHAPES.into_iter();
    let all = shapes.flat_map(move |shape| activations.map(|activation| (shape, activation)));
    all.map(move |((rows, width), activation)| {
        let stride = stride(width);
        let layer = NormLayer {
            gain: 8,
            running: 8 + 2 * stride,
            width,
            stride,
            activation,
            norm: match of_batch {
                true => Norm::BatchNorm,
                false => Norm::LayerNorm,
            },
        };
        let mut parameters = vec![f32::NAN; 8];
        parameters.extend(rows_of(2, width, 3));
        for value in &mut parameters[8..][..width] {
            *value += 1.0;
        }
        let running = [rows_of(1, width, 4), vec![0.5; stride]].concat();
        parameters.extend(running);
        Case {
            layer,
            rows,
            x: rows_of(rows, width, rows as u64),
            parameters,
            dy: rows_of(rows, width, 9),
        }
    })
}

impl Case {
    /// The values without padding, of rows of this many columns.
    fn dense(&self, padded: &[f32]) -> Vec<f64> {
        let rows = padded.chunks_exact(self.layer.stride);
        rows.flat_map(|row| to_f64(&row[..self.layer.width]))
            .collect()
    }

    /// A row of the parameters, without padding.
    fn row(&self, start: usize) -> Vec<f64> {
        self.dense(&self.parameters[start..][..self.layer.stride])
    }

    fn of_batch(&self) -> bool {
        self.layer.norm == Norm::BatchNorm
    }

    /// Outputs of linear outputs, in f64.
    fn outputs(&self, x: &[f64], gain: &[f64], shift: &[f64]) -> Vec<f64> {
        let n = match self.of_batch() {
            true => {
                let moments = reference::column_moments(x, self.layer.width);
                reference::batch_norm(x, gain, shift, &moments)
            }
            false => reference::layer_norm(x, gain, shift),
        };
        let activated = |n: f64| match self.layer.activation {
            Activation::Relu => n.max(0.0),
            Activation::Gelu => reference::gelu(n),
        };
        n.into_iter().map(activated).collect()
    }

    /// Outputs and moments on an engine.
    fn forward(&self, engine: &Engine) -> (Vec<f32>, Vec<f32>) {
        let count = self.x.len();
        let (x, parameters) = (
            vector(engine, &self.x, 4),
            vector(engine, &self.parameters, 0),
        );
        let floats = self.layer.moments(self.rows as u64) as usize;
        let (mut y, mut moments) = (output(engine, count), output(engine, floats));
        let mut commands = engine.commands();
        norm::forward(
            &mut commands,
            &self.layer,
            self.rows,
            (&x).into(),
            &parameters,
            Some(&mut moments),
            &mut y,
        );
        engine.submit(commands);
        (read(engine, &y, count), read(engine, &moments, floats))
    }

    /// The gradient of the inputs, and those of gains and shifts, on an engine, in chunks of `chunk` rows.
    fn backward(&self, engine: &Engine, dy: &[f32], chunk: usize) -> [Vec<f32>; 2] {
        let (stride, (_, moments)) = (self.layer.stride, self.forward(engine));
        let parameters = vector(engine, &self.parameters, 0);
        let end = 8 + 2 * stride;
        let (mut gradients, mut status) = (output(engine, end), vector(engine, &[0u32], 0));
        let mut inputs = Vec::new();
        for first in (0..self.rows).step_by(chunk) {
            let rows = chunk.min(self.rows - first);
            let of = |all: &[f32]| all[first * stride..][..rows * stride].to_vec();
            let own = match self.of_batch() {
                true => moments.clone(),
                false => moments[2 * first..][..2 * rows].to_vec(),
            };
            let (x, moments) = (vector(engine, &of(&self.x), 0), vector(engine, &own, 0));
            let mut gradient = vector(engine, &of(dy), 0);
            let mut commands = engine.commands();
            norm::backward(
                &mut commands,
                &self.layer,
                rows,
                first > 0,
                (&x).into(),
                &parameters,
                &moments,
                &mut gradient,
                &mut gradients,
                &mut status,
            );
            engine.submit(commands);
            inputs.extend(read(engine, &gradient, rows * stride));
        }
        assert_eq!(read(engine, &status, 1), [0]);
        [inputs, read(engine, &gradients, end)[8..].to_vec()]
    }
}

#[test]
fn outputs_are_normalized_scaled_and_activated() {
    for engine in engines() {
        for case in cases(false).chain(cases(true)) {
            let [gain, shift] = [8, 8 + case.layer.stride].map(|start| case.row(start));
            let expected = case.outputs(&case.dense(&case.x), &gain, &shift);
            let (y, _) = case.forward(&engine);
            assert_close("y", &to_f32(&case.dense(&y)), &expected, TOLERANCE);
            let padding = y.chunks_exact(case.layer.stride);
            assert!({ padding }.all(|row| row[case.layer.width..].iter().all(|v| *v == 0.0)));
        }
    }
}

fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

#[test]
fn gradients_are_the_slopes_of_the_outputs() {
    for engine in engines() {
        for case in cases(false).chain(cases(true)) {
            let (width, stride) = (case.layer.width, case.layer.stride);
            let [gain, shift] = [8, 8 + stride].map(|start| case.row(start));
            let (x, (y, _)) = (case.dense(&case.x), case.forward(&engine));
            // A product before ReLU leaves no gradient where an output is 0.
            let relu = case.layer.activation == Activation::Relu;
            let dy = case.dy.iter().zip(&y);
            let dy: Vec<f32> = dy
                .map(|(dy, y)| if relu && *y <= 0.0 { 0.0 } else { *dy })
                .collect();
            let whole = case.dense(&case.dy);
            let loss = |x: &[f64], gain: &[f64], shift: &[f64]| -> f64 {
                let y = case.outputs(x, gain, shift);
                y.iter().zip(&whole).map(|(y, dy)| y * dy).sum()
            };
            let [dx, affine] = case.backward(&engine, &dy, case.rows);
            let dx = case.dense(&dx);
            let slope = |which: usize, at: usize| {
                let moved = |by: f64| {
                    let mut all = [x.clone(), gain.clone(), shift.clone()];
                    all[which][at] += by;
                    loss(&all[0], &all[1], &all[2])
                };
                (moved(1e-5) - moved(-1e-5)) / 2e-5
            };
            let some = |count: usize| (0..count).step_by(count.div_ceil(6));
            for at in some(x.len()) {
                let (found, expected) = (dx[at], slope(0, at));
                assert!(
                    (found - expected).abs() < TOLERANCE * expected.abs().max(1.0),
                    "{:?}, {} rows: dx {at}: {found}, expected {expected}",
                    case.layer,
                    case.rows
                );
            }
            for (which, start) in [(1, 0), (2, stride)] {
                for at in some(width) {
                    let (found, expected) = (f64::from(affine[start + at]), slope(which, at));
                    assert!(
                        (found - expected).abs() < SUMS,
                        "{:?}, {} rows: {which} {at}: {found}, expected {expected}",
                        case.layer,
                        case.rows
                    );
                }
            }
        }
    }
}

#[test]
fn layer_norm_of_whole_segments_of_rows_gives_the_same_bits() {
    for engine in engines() {
        for case in cases(false).filter(|case| case.rows > 256) {
            let whole = case.backward(&engine, &case.dy, case.rows);
            assert_eq!(case.backward(&engine, &case.dy, 256), whole);
        }
    }
}

#[test]
fn batch_norm_goes_by_running_moments_that_follow_those_of_batches() {
    for engine in engines() {
        for case in cases(true) {
            let (width, stride, rows) = (case.layer.width, case.layer.stride, case.rows);
            let x = case.dense(&case.x);
            let [gain, shift] = [8, 8 + stride].map(|start| case.row(start));
            let running = [2, 3].map(|part| case.row(8 + part * stride));
            let n = reference::batch_norm(&x, &gain, &shift, &running);
            let (on, mut parameters) = (
                vector(&engine, &case.x, 0),
                vector(&engine, &case.parameters, 0),
            );
            let mut y = output(&engine, case.x.len());
            let mut commands = engine.commands();
            norm::forward(
                &mut commands,
                &case.layer,
                rows,
                (&on).into(),
                &parameters,
                None,
                &mut y,
            );
            engine.submit(commands);
            let y = case.dense(&read(&engine, &y, case.x.len()));
            let activated = |n: f64| match case.layer.activation {
                Activation::Relu => n.max(0.0),
                Activation::Gelu => reference::gelu(n),
            };
            let expected: Vec<f64> = n.into_iter().map(activated).collect();
            assert_close("y", &to_f32(&y), &expected, TOLERANCE);
            // torch: 0.9 of the running ones and 0.1 of the batch's, whose variance is that of rows - 1.
            let (_, moments) = case.forward(&engine);
            let moments = vector(&engine, &moments, 0);
            let [means, variances] = reference::column_moments(&x, width);
            let unbiased = rows as f64 / (rows as f64 - 1.0);
            for failed in [1u32, 0] {
                let status = vector(&engine, &[failed], 0);
                let mut commands = engine.commands();
                norm::follow(
                    &mut commands,
                    &case.layer,
                    rows,
                    &moments,
                    &status,
                    &mut parameters,
                );
                engine.submit(commands);
                let after = read(&engine, &parameters, case.parameters.len());
                for column in 0..width {
                    let expected = match failed {
                        0 => [
                            0.9 * running[0][column] + 0.1 * means[column],
                            0.9 * running[1][column] + 0.1 * unbiased * variances[column],
                        ],
                        _ => [running[0][column], running[1][column]],
                    };
                    let at = case.layer.running + column;
                    let found = [after[at], after[at + stride]].map(f64::from);
                    let near = |(found, expected): (f64, f64)| (found - expected).abs() < 1e-6;
                    assert!(
                        found.into_iter().zip(expected).all(near),
                        "{found:?}, {expected:?}"
                    );
                }
            }
        }
    }
}
