use half::f16;
use nearfar::kernels::cast::cast;
use nearfar::kernels::embed::embed_and_store;
use nearfar::kernels::gemm::{self, Input, Layer};
use nearfar::kernels::norm::{self, Norm, NormLayer};
use nearfar::kernels::normalize::{Bank, Slots};
use nearfar::kernels::ranks::Row;
use nearfar::kernels::stored::{Stored, StoredRows, unpack};
use nearfar::kernels::tile::Shape;
use nearfar::kernels::{gelu, stride};
use nearfar::{Activation, Engine, TileShape, reference};

use super::common::{engines, gpu_in, output, random_rows, read, rng, to_f64, vector};
use super::stored::{compare, halves, rounded_rows, sweep};

/// The words of these values, and the status.
fn cast_by(engine: &Engine, values: &[f32]) -> (Vec<u32>, u32) {
    let count = values.len();
    let on = vector(engine, values, 0);
    let (mut words, mut status) = (output(engine, count / 2), vector(engine, &[0u32], 0));
    let mut commands = engine.commands();
    cast(&mut commands, count, &on, &mut words, &mut status);
    engine.submit(commands);
    let status = read(engine, &status, 1)[0];
    (read(engine, &words, count / 2), status)
}

#[test]
fn activations_become_the_nearest_halves_and_of_two_the_even_ones() {
    let scales = [1.0, -1.0, 40_000.0];
    let values = sweep().into_iter();
    let values = values.flat_map(|value| scales.map(|scale| value * scale));
    let mut values: Vec<f32> = values.collect();
    values.extend([
        65504.0, -65504.0, 65519.9, -65519.9, -0.0, 1e-40, 3e-8, -6e-8,
    ]);
    values.truncate(values.len() / 4 * 4);
    for engine in engines() {
        // On both sides of a workgroup, and of a part of a core.
        for count in [4, 252, 256, 260, values.len(), 300_000] {
            let some: Vec<f32> = values.iter().copied().cycle().take(count).collect();
            let (words, status) = cast_by(&engine, &some);
            let on = &engine.info().engine;
            assert!(words == halves(&some), "{count} on {on}");
            assert_eq!(status, 0, "{count} on {on}");
        }
    }
}

#[test]
fn an_activation_that_half_precision_does_not_hold_sets_the_status() {
    for engine in engines() {
        for bad in [65520.0, -65520.0, 1e30, f32::INFINITY, f32::NAN, -f32::NAN] {
            for at in [0, 3, 1023, 299_999] {
                let mut values = vec![0.5; 300_000];
                values[at] = bad;
                let (_, status) = cast_by(&engine, &values);
                assert_eq!(status, 1, "{bad} at {at} on {}", engine.info().engine);
            }
        }
    }
}

/// A layer of these sizes, and its parameters.
fn layer(inputs: usize, outputs: usize) -> (Layer, Vec<f32>) {
    let layer = Layer {
        inputs: stride(inputs),
        outputs: stride(outputs),
        weights: 0,
        relu: false,
        of_relu: true,
        adds: false,
    };
    let mut parameters = random_rows(&mut rng(1), outputs, inputs);
    parameters.resize(layer.bias(), 0.0);
    parameters.extend(random_rows(&mut rng(2), 1, outputs));
    (layer, parameters)
}

#[test]
fn the_error_of_stored_activations_is_that_of_rounding() {
    let [gpu, cpu] = engines();
    for engine in [gpu, gpu_in(TileShape::Tile, 256 << 20), cpu] {
        for (rows, inputs, outputs) in [(40, 7, 33), (129, 64, 64), (20, 300, 12)] {
            let (layer, parameters) = layer(inputs, outputs);
            let x = random_rows(&mut rng(3), rows, inputs);
            let (on_x, on) = (vector(&engine, &x, 0), vector(&engine, &parameters, 0));
            let count = rows * layer.outputs;
            for shape in Shape::ALL {
                let (mut y, mut words) = (output(&engine, count), output(&engine, count / 2));
                let mut status = vector(&engine, &[0u32], 0);
                let mut commands = engine.commands();
                let input = Input::from(&on_x);
                gemm::forward(&mut commands, &layer, shape, rows, input, &on, &mut y);
                cast(&mut commands, count, &y, &mut words, &mut status);
                engine.submit(commands);
                let mut found = vec![0.0; count];
                unpack(&read(&engine, &words, count / 2), &mut found);
                let exact = reference::mlp(&[layer], &to_f64(&parameters), &to_f64(&x));
                let off = |values: &[f64]| -> f64 {
                    let off = values.iter().zip(&exact);
                    off.map(|(value, exact)| (value - exact).powi(2)).sum()
                };
                let rounded: Vec<f64> = exact.iter().map(|v| f16::from_f64(*v).to_f64()).collect();
                let (found, expected) = (off(&to_f64(&found)).sqrt(), off(&rounded).sqrt());
                assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
            }
        }
    }
}

/// Sizes of the products: rows, inputs and outputs.
const SHAPES: [(usize, usize, usize); 5] = [
    (1, 2, 3),
    (5, 33, 17),
    (40, 68, 65),
    (257, 30, 12),
    (9, 260, 300),
];

fn compare_products(engine: &Engine, (rows, inputs, outputs): (usize, usize, usize), way: Shape) {
    let (layer, parameters) = layer(inputs, outputs);
    let x = rounded_rows(4, rows, inputs);
    let dy = vector(engine, &random_rows(&mut rng(5), rows, outputs), 0);
    let on = vector(engine, &parameters, 0);
    let count = rows * layer.outputs;
    compare("outputs", engine, &x, |x| {
        let mut y = output::<f32>(engine, count);
        let mut commands = engine.commands();
        gemm::forward(&mut commands, &layer, way, rows, x.into(), &on, &mut y);
        engine.submit(commands);
        read(engine, &y, count)
    });
    compare("gradients", engine, &x, |x| {
        let mut gradients = output::<f32>(engine, layer.end());
        let mut dx = output::<f32>(engine, rows * layer.inputs);
        let (mut status, mut commands) = (vector(engine, &[0u32], 0), engine.commands());
        let (g, s, dx_of) = (&mut gradients, &mut status, &mut dx);
        let dy = (&dy).into();
        gemm::backward(
            &mut commands,
            &layer,
            way,
            rows,
            x,
            dy,
            &on,
            false,
            g,
            s,
            dx_of,
        );
        engine.submit(commands);
        let mut found = read(engine, &gradients, layer.end());
        found.extend(read(engine, &dx, rows * layer.inputs));
        found
    });
    let labels = vector(engine, &vec![Row::default(); rows], 0);
    compare("embeddings", engine, &x, |x| {
        let slots = Slots {
            cursor: 0,
            capacity: rows,
            first_id: 0,
        };
        let mut bank = Bank {
            rows: StoredRows::F32(output(engine, count)),
            tags: output(engine, rows),
        };
        let (mut unit, mut norms) = (output::<f32>(engine, count), output(engine, rows));
        let (mut status, mut commands) = (vector(engine, &[0u32], 0), engine.commands());
        embed_and_store(
            &mut commands,
            &layer,
            way,
            0..rows,
            x,
            &on,
            &labels,
            0,
            slots,
            &mut unit,
            &mut norms,
            &mut bank,
            &mut status,
        );
        engine.submit(commands);
        let mut found = read(engine, &unit, count);
        found.extend(read(engine, &norms, rows));
        found.extend(read(engine, bank.rows.read().floats(), count));
        found
    });
}

#[test]
fn layers_give_the_bits_that_they_give_of_the_same_activations_as_floats() {
    let [gpu, cpu] = engines();
    for engine in [gpu, gpu_in(TileShape::Tile, 256 << 20), cpu] {
        for shape in SHAPES {
            for way in Shape::ALL {
                compare_products(&engine, shape, way);
            }
        }
    }
}

/// Outputs of a hidden layer and all its gradients, from its linear outputs.
fn bent(engine: &Engine, norm: Option<&NormLayer>, rows: usize, x: Stored<'_>) -> Vec<f32> {
    let stride = norm.map_or(12, |norm| norm.stride);
    let count = rows * stride;
    let mut y = output(engine, count);
    let dy = random_rows(&mut rng(6), rows, stride);
    let (mut dx, mut found) = (vector(engine, &dy, 0), Vec::new());
    let mut commands = engine.commands();
    let Some(norm) = norm else {
        gelu::forward(&mut commands, count, x, &mut y);
        gelu::backward(&mut commands, count, x, &mut dx);
        engine.submit(commands);
        found.extend(read(engine, &y, count));
        found.extend(read(engine, &dx, count));
        return found;
    };
    let affine = vector(engine, &random_rows(&mut rng(7), 2, stride), 0);
    let floats = norm.moments(rows as u64) as usize;
    let (mut moments, mut gradients) = (output(engine, floats), output(engine, 2 * stride));
    let mut status = vector(engine, &[0u32], 0);
    let of = Some(&mut moments);
    norm::forward(&mut commands, norm, rows, x, &affine, of, &mut y);
    let (g, s) = (&mut gradients, &mut status);
    norm::backward(
        &mut commands,
        norm,
        rows,
        false,
        x,
        &affine,
        &moments,
        &mut dx,
        g,
        s,
    );
    engine.submit(commands);
    for (values, count) in [
        (&y, count),
        (&dx, count),
        (&moments, floats),
        (&gradients, 2 * stride),
    ] {
        found.extend(read(engine, values, count));
    }
    found
}

#[test]
fn norms_and_gelu_give_the_bits_that_they_give_of_the_same_linear_outputs_as_floats() {
    for engine in engines() {
        for rows in [1, 100, 300, 3000] {
            let x = rounded_rows(8, rows, 12);
            compare("GELU", &engine, &x, |x| bent(&engine, None, rows, x));
        }
        for (rows, width) in [(2, 3), (33, 64), (257, 30), (600, 260)] {
            let x = rounded_rows(9, rows, width);
            for of in [Norm::LayerNorm, Norm::BatchNorm] {
                let norm = NormLayer {
                    norm: of,
                    width,
                    stride: stride(width),
                    gain: 0,
                    running: 0,
                    activation: Activation::Gelu,
                };
                compare("norm", &engine, &x, |x| bent(&engine, Some(&norm), rows, x));
            }
        }
    }
}
