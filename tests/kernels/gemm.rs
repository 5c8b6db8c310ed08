use nearfar::kernels::gemm::{Input, Layer, OutputGradient, backward, forward, weight_gradient};
use nearfar::kernels::stride;
use nearfar::kernels::tile::Shape;
use nearfar::reference;

use super::common::{assert_close, engines, output, random_rows, read, rng, to_f64, vector};

/// Sizes around the 4 x 4 block, the tiles of 16 and 32, the 32 terms that a tile adds at once, and the 256-row segment.
const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1, 2),
    (3, 4, 4),
    (4, 5, 3),
    (5, 64, 256),
    (32, 17, 9),
    (255, 8, 12),
    (257, 12, 8),
    (600, 3, 5),
    (15, 31, 17),
    (17, 33, 16),
    (33, 68, 35),
    (288, 130, 29),
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
                of_relu: !relu,
                adds: false,
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

/// Rows of `case.x` in another order, in twice as many rows, and the places of the case's rows from the third number on.
fn scattered(case: &Case) -> (Vec<f32>, Vec<u32>) {
    let rows = case.rows;
    let mut values = vec![f32::NAN; 2 * case.x.len()];
    let mut numbers = vec![u32::MAX; 3];
    for (i, row) in case.x.chunks_exact(case.layer.inputs).enumerate() {
        let place = 2 * ((i + rows / 2) % rows) + 1;
        values[place * case.layer.inputs..][..case.layer.inputs].copy_from_slice(row);
        numbers.push(place as u32);
    }
    (values, numbers)
}

#[test]
fn forward_multiplies_adds_the_bias_and_clips() {
    for engine in engines() {
        for case in cases() {
            let x = vector(&engine, &case.x, 0);
            let (values, numbers) = scattered(&case);
            let (values, numbers) = (vector(&engine, &values, 0), vector(&engine, &numbers, 0));
            let parameters = vector(&engine, &case.parameters, 0);
            let expected =
                reference::mlp(&[case.layer], &to_f64(&case.parameters), &to_f64(&case.x));
            let chosen = Input {
                values: (&values).into(),
                chosen: Some((&numbers, 3)),
            };
            let mut first: Option<Vec<f32>> = None;
            for (shape, x) in Shape::ALL
                .into_iter()
                .flat_map(|shape| [(shape, Input::from(&x)), (shape, chosen)])
            {
                let mut y = output(&engine, case.rows * case.layer.outputs);
                let mut commands = engine.commands();
                forward(
                    &mut commands,
                    &case.layer,
                    shape,
                    case.rows,
                    x,
                    &parameters,
                    &mut y,
                );
                engine.submit(commands);
                let y = read(&engine, &y, expected.len());
                assert_close("y", &y, &expected, TOLERANCE);
                // Every shape, and rows at other places: the same bits.
                assert_eq!(*first.get_or_insert_with(|| y.clone()), y, "{shape:?}");
            }
        }
    }
}

/// Adds to what is there in place of a bias, and has no gradient of one: what follows its weights stays as it is.
#[test]
fn a_layer_that_adds_goes_on_from_what_is_there_and_has_no_bias() {
    for engine in engines() {
        for case in cases() {
            let layer = Layer {
                relu: false,
                of_relu: false,
                adds: true,
                ..case.layer
            };
            let (rows, end) = (case.rows, layer.end());
            assert_eq!(end + layer.outputs, case.layer.end());
            let before = random_rows(&mut rng(77), rows, layer.outputs);
            let mut unbiased = case.parameters.clone();
            unbiased[end..].fill(0.0);
            let plain = Layer {
                relu: false,
                ..case.layer
            };
            let mut expected = reference::mlp(&[plain], &to_f64(&unbiased), &to_f64(&case.x));
            for (y, before) in expected.iter_mut().zip(&before) {
                *y += f64::from(*before);
            }
            let [dw, _] = gradients(&case);
            let (x, dy) = (vector(&engine, &case.x, 0), vector(&engine, &case.dy, 0));
            // A bias that were read would be no number.
            unbiased[end..].fill(f32::NAN);
            let parameters = vector(&engine, &unbiased, 0);
            let mut first: Option<Vec<f32>> = None;
            for shape in Shape::ALL {
                let mut y = vector(&engine, &before, 0);
                let mut slopes = vector(&engine, &vec![9.0; case.layer.end()], 0);
                let mut status = vector(&engine, &[0u32], 0);
                let mut commands = engine.commands();
                let input = Input::from(&x);
                forward(
                    &mut commands,
                    &layer,
                    shape,
                    rows,
                    input,
                    &parameters,
                    &mut y,
                );
                let (dy, status_of) = (OutputGradient::from(&dy), &mut status);
                weight_gradient(
                    &mut commands,
                    &layer,
                    shape,
                    rows,
                    input,
                    dy,
                    false,
                    &mut slopes,
                    status_of,
                );
                engine.submit(commands);
                let y = read(&engine, &y, expected.len());
                assert_close("y", &y, &expected, TOLERANCE);
                assert_eq!(*first.get_or_insert_with(|| y.clone()), y, "{shape:?}");
                let slopes = read(&engine, &slopes, case.layer.end());
                let own = &slopes[layer.weights..end];
                assert_close("dW", own, &dw[..own.len()], TOLERANCE * 4.0);
                assert!(slopes[end..].iter().all(|value| *value == 9.0), "{shape:?}");
                assert_eq!(read(&engine, &status, 1), [0]);
            }
        }
    }
}

/// dL/dW and db, laid out as the parameters from `layer.weights` on, and dL/dx.
fn gradients(case: &Case) -> [Vec<f64>; 2] {
    let Case { layer, rows, .. } = case;
    let mut dw = vec![0.0; layer.end() - layer.weights];
    let mut dx = vec![0.0; rows * layer.inputs];
    for row in 0..*rows {
        for o in 0..layer.outputs {
            let dy = f64::from(case.dy[row * layer.outputs + o]);
            for i in 0..layer.inputs {
                let x = f64::from(case.x[row * layer.inputs + i]);
                dw[o * layer.inputs + i] += dy * x;
                if x > 0.0 || !layer.of_relu {
                    let w = f64::from(case.parameters[layer.weights + o * layer.inputs + i]);
                    dx[row * layer.inputs + i] += dy * w;
                }
            }
            dw[layer.outputs * layer.inputs + o] += dy;
        }
    }
    [dw, dx]
}

#[test]
fn weight_gradient_sums_over_rows_and_the_input_gradient_passes_where_a_relu_was_positive() {
    for engine in engines() {
        for case in cases() {
            let Case { layer, rows, .. } = case;
            let [dw, expected_dx] = gradients(&case);
            let (x, dy) = (vector(&engine, &case.x, 0), vector(&engine, &case.dy, 0));
            let (values, numbers) = scattered(&case);
            let (values, numbers) = (vector(&engine, &values, 0), vector(&engine, &numbers, 0));
            let chosen = Input {
                values: (&values).into(),
                chosen: Some((&numbers, 3)),
            };
            let parameters = vector(&engine, &case.parameters, 0);
            let mut first: Option<[Vec<f32>; 2]> = None;
            for shape in Shape::ALL {
                // The same bits by each path to the weights, and in every shape.
                for x in [Input::from(&x), chosen] {
                    let mut on = output(&engine, layer.end());
                    let mut status = vector(&engine, &[0u32], 0);
                    let mut commands = engine.commands();
                    weight_gradient(
                        &mut commands,
                        &layer,
                        shape,
                        rows,
                        x,
                        (&dy).into(),
                        false,
                        &mut on,
                        &mut status,
                    );
                    engine.submit(commands);
                    let actual = read(&engine, &on, layer.end())[layer.weights..].to_vec();
                    assert_close("dW, db", &actual, &dw, TOLERANCE);
                    assert_eq!(read(&engine, &status, 1), [0]);
                    let [first, _] = first.get_or_insert_with(|| [actual.clone(), Vec::new()]);
                    assert_eq!(*first, actual, "{shape:?}");
                }
                let (mut on, mut dx) = (
                    output(&engine, layer.end()),
                    output(&engine, rows * layer.inputs),
                );
                let mut status = vector(&engine, &[0u32], 0);
                let mut commands = engine.commands();
                backward(
                    &mut commands,
                    &layer,
                    shape,
                    rows,
                    (&x).into(),
                    (&dy).into(),
                    &parameters,
                    false,
                    &mut on,
                    &mut status,
                    &mut dx,
                );
                engine.submit(commands);
                let [first_dw, first_dx] = first.as_mut().expect("was noted");
                let actual = read(&engine, &on, layer.end());
                assert_eq!(*first_dw, actual[layer.weights..], "{shape:?}");
                let actual = read(&engine, &dx, expected_dx.len());
                assert_close("dx", &actual, &expected_dx, TOLERANCE);
                if first_dx.is_empty() {
                    first_dx.clone_from(&actual);
                }
                assert_eq!(*first_dx, actual, "{shape:?}");
                assert_eq!(read(&engine, &status, 1), [0]);
            }
        }
    }
}

#[test]
fn gradients_of_whole_segments_of_rows_add_up_to_the_same_bits() {
    let rows = 3 * 256 + 37;
    for engine in engines() {
        for (inputs, outputs) in [(7, 5), (36, 20)] {
            let mut rng = rng(inputs as u64);
            let layer = Layer {
                inputs: stride(inputs),
                outputs: stride(outputs),
                weights: 4,
                relu: false,
                of_relu: true,
                adds: false,
            };
            let x = random_rows(&mut rng, rows, inputs);
            let all_x = vector(&engine, &x, 0);
            let dy = vector(&engine, &random_rows(&mut rng, rows, outputs), 0);
            let parameters = vector(&engine, &vec![0.5f32; layer.end()], 0);
            let numbers: Vec<u32> = (0..rows as u32).collect();
            let numbers = vector(&engine, &numbers, 0);
            let of = |shape: Shape, chunk: usize, with_inputs: bool| {
                let mut gradients = output(&engine, layer.end());
                let mut status = vector(&engine, &[0u32], 0);
                // Rows of each chunk, their number, and their dx.
                let mut chunks: Vec<_> = x
                    .chunks(chunk * layer.inputs)
                    .map(|x| {
                        let (dx, count) = (output(&engine, x.len()), x.len() / layer.inputs);
                        (vector(&engine, x, 0), count, dx)
                    })
                    .collect();
                let mut commands = engine.commands();
                for (i, (x, count, dx)) in chunks.iter_mut().enumerate() {
                    let first = i * chunk;
                    let (dy, onto) = (OutputGradient { values: &dy, first }, first > 0);
                    if with_inputs {
                        backward(
                            &mut commands,
                            &layer,
                            shape,
                            *count,
                            (&*x).into(),
                            dy,
                            &parameters,
                            onto,
                            &mut gradients,
                            &mut status,
                            dx,
                        );
                    } else {
                        let x = Input {
                            values: (&all_x).into(),
                            chosen: Some((&numbers, first)),
                        };
                        weight_gradient(
                            &mut commands,
                            &layer,
                            shape,
                            *count,
                            x,
                            dy,
                            onto,
                            &mut gradients,
                            &mut status,
                        );
                    }
                }
                engine.submit(commands);
                let gradients = read(&engine, &gradients, layer.end())[4..].to_vec();
                let dx: Vec<f32> = match with_inputs {
                    true => chunks
                        .iter()
                        .flat_map(|(_, count, dx)| read(&engine, dx, count * layer.inputs))
                        .collect(),
                    false => Vec::new(),
                };
                (gradients, dx)
            };
            for shape in Shape::ALL {
                for with_inputs in [false, true] {
                    let whole = of(shape, rows, with_inputs);
                    for chunk in [256, 512, 768] {
                        assert_eq!(of(shape, chunk, with_inputs), whole, "{shape:?}, {chunk}");
                    }
                }
            }
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
        of_relu: true,
        adds: false,
    };
    let kinds = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -2e18];
    for engine in engines() {
        let shapes = |bad| Shape::ALL.map(|shape| (bad, shape));
        for (bad, shape) in kinds.into_iter().flat_map(shapes) {
            let mut dy = vec![1.0; 4];
            dy[3] = bad;
            let mut gradients = output(&engine, layer.end());
            let mut status = vector(&engine, &[0u32], 0);
            let (x, dy) = (vector(&engine, &[1.0; 8], 0), vector(&engine, &dy, 0));
            let mut commands = engine.commands();
            weight_gradient(
                &mut commands,
                &layer,
                shape,
                1,
                Input::from(&x),
                (&dy).into(),
                false,
                &mut gradients,
                &mut status,
            );
            engine.submit(commands);
            assert_eq!(
                read(&engine, &status, 1),
                [1],
                "{bad} on {}, {shape:?}",
                engine.info().engine
            );
        }
    }
}
