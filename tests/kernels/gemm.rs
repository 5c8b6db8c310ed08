use nearfar::kernels::gemm::{Layer, forward, input_gradient, weight_gradient};
use nearfar::kernels::stride;
use nearfar::reference;

use super::common::{assert_close, engines, output, random_rows, read, rng, to_f64, vector};

/// Sizes around the 4 x 4 block and the 256-row segment.
const SHAPES: [(usize, usize, usize); 8] = [
    (1, 1, 2),
    (3, 4, 4),
    (4, 5, 3),
    (5, 64, 256),
    (32, 17, 9),
    (255, 8, 12),
    (257, 12, 8),
    (600, 3, 5),
];

/// f32 sums of up to 600 products of numbers below 1: the bound of their error is 3.6e-5, and the worst case is never met.
const TOLERANCE: f64 = 2e-5;

struct Case {
    layer: Layer,
    rows: usize,
    x: Vec<f32>,
    dy: Vec<f32>,
    parameters: Vec<f32>,
}

fn cases() -> impl Iterator<Item = Case> {
    SHAPES
        .into_iter()
        .zip([false, true].into_iter().cycle())
        .map(|((rows, inputs, outputs), relu)| {
            let mut rng = rng(rows as u64);
            let layer = Layer {
                inputs: stride(inputs),
                outputs: stride(outputs),
                weights: 8,
                relu,
            };
            let mut parameters = vec![f32::NAN; 8];
            parameters.extend(random_rows(&mut rng, outputs, inputs));
            parameters.resize(layer.bias(), 0.0);
            parameters.extend(random_rows(&mut rng, 1, outputs));
            Case {
                layer,
                rows,
                x: random_rows(&mut rng, rows, inputs),
                dy: random_rows(&mut rng, rows, outputs),
                parameters,
            }
        })
}

#[test]
fn forward_multiplies_adds_the_bias_and_clips() {
    for engine in engines() {
        for case in cases() {
            let mut y = output(&engine, case.rows * case.layer.outputs);
            let (x, parameters) = (
                vector(&engine, &case.x, 0),
                vector(&engine, &case.parameters, 0),
            );
            let mut commands = engine.commands();
            forward(
                &mut commands,
                &case.layer,
                case.rows,
                &x,
                &parameters,
                &mut y,
            );
            engine.submit(commands);
            let expected =
                reference::mlp(&[case.layer], &to_f64(&case.parameters), &to_f64(&case.x));
            assert_close(
                "y",
                &read(&engine, &y, expected.len()),
                &expected,
                TOLERANCE,
            );
        }
    }
}

#[test]
fn input_gradient_passes_where_the_input_was_positive() {
    for engine in engines() {
        for case in cases() {
            let Case { layer, rows, .. } = case;
            let mut dx = output(&engine, rows * layer.inputs);
            let (x, dy) = (vector(&engine, &case.x, 0), vector(&engine, &case.dy, 0));
            let parameters = vector(&engine, &case.parameters, 0);
            let mut commands = engine.commands();
            input_gradient(&mut commands, &layer, rows, &dy, &parameters, &x, &mut dx);
            engine.submit(commands);
            let mut expected = vec![0.0; rows * layer.inputs];
            for row in 0..rows {
                for i in 0..layer.inputs {
                    for o in 0..layer.outputs {
                        if case.x[row * layer.inputs + i] > 0.0 {
                            expected[row * layer.inputs + i] +=
                                f64::from(case.dy[row * layer.outputs + o])
                                    * f64::from(
                                        case.parameters[layer.weights + o * layer.inputs + i],
                                    );
                        }
                    }
                }
            }
            assert_close(
                "dx",
                &read(&engine, &dx, expected.len()),
                &expected,
                TOLERANCE,
            );
        }
    }
}

#[test]
fn weight_gradient_sums_over_rows() {
    for engine in engines() {
        for case in cases() {
            let Case { layer, rows, .. } = case;
            let mut gradients = output(&engine, layer.end());
            let mut status = vector(&engine, &[0u32], 0);
            let (x, dy) = (vector(&engine, &case.x, 0), vector(&engine, &case.dy, 0));
            let mut commands = engine.commands();
            weight_gradient(
                &mut commands,
                &layer,
                rows,
                &x,
                &dy,
                &mut gradients,
                &mut status,
            );
            engine.submit(commands);
            let mut expected = vec![0.0; layer.end() - layer.weights];
            for row in 0..rows {
                for o in 0..layer.outputs {
                    let dy = f64::from(case.dy[row * layer.outputs + o]);
                    for i in 0..layer.inputs {
                        expected[o * layer.inputs + i] +=
                            dy * f64::from(case.x[row * layer.inputs + i]);
                    }
                    expected[layer.outputs * layer.inputs + o] += dy;
                }
            }
            let actual = read(&engine, &gradients, layer.end());
            assert_close("dW, db", &actual[layer.weights..], &expected, TOLERANCE);
            assert_eq!(read(&engine, &status, 1), [0]);
        }
    }
}

#[test]
fn a_gradient_that_is_huge_infinite_or_no_number_sets_the_status() {
    let layer = Layer {
        inputs: 8,
        outputs: 4,
        weights: 0,
        relu: false,
    };
    for engine in engines() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -2e18] {
            let mut dy = vec![1.0; 4];
            dy[3] = bad;
            let mut gradients = output(&engine, layer.end());
            let mut status = vector(&engine, &[0u32], 0);
            let (x, dy) = (vector(&engine, &[1.0; 8], 0), vector(&engine, &dy, 0));
            let mut commands = engine.commands();
            weight_gradient(
                &mut commands,
                &layer,
                1,
                &x,
                &dy,
                &mut gradients,
                &mut status,
            );
            engine.submit(commands);
            assert_eq!(
                read(&engine, &status, 1),
                [1],
                "{bad} on {}",
                engine.info().engine
            );
        }
    }
}
