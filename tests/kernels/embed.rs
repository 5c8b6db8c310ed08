use nearfar::Engine;
use nearfar::kernels::embed;
use nearfar::kernels::gemm::{Input, Layer, forward};
use nearfar::kernels::normalize::{self, Bank, Slots};
use nearfar::kernels::ranks::Row;
use nearfar::kernels::stored::StoredRows;
use nearfar::kernels::stride;
use nearfar::kernels::tile::Shape;
use nearfar::reference;

use super::common::{assert_close, engines, output, random_rows, read, rng, to_f64, vector};

/// Rows, inputs and outputs around the 4 rows, 64 outputs and 32 inputs of a tile; past 256 outputs an invocation of the
/// normalization has several.
const SHAPES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (3, 5, 3),
    (4, 32, 64),
    (5, 33, 65),
    (13, 256, 63),
    (64, 31, 64),
    (7, 20, 260),
    (6, 65, 600),
];

/// All buffers after a batch.
#[derive(Debug, PartialEq)]
struct Left {
    unit: Vec<f32>,
    norms: Vec<f32>,
    bank: Vec<f32>,
    tags: Vec<[u32; 2]>,
    status: Vec<u32>,
}

/// One layer on random rows, with the memory, and the buffers after `embed_and_store`.
struct Case<'a> {
    engine: &'a Engine,
    layer: Layer,
    rows: usize,
    x: Vec<f32>,
    parameters: Vec<f32>,
}

impl<'a> Case<'a> {
    fn new(engine: &'a Engine, (rows, inputs, outputs): (usize, usize, usize)) -> Self {
        let mut rng = rng(rows as u64);
        let layer = Layer {
            inputs: stride(inputs),
            outputs: stride(outputs),
            weights: 8,
            relu: false,
            of_relu: true,
            adds: false,
        };
        let mut parameters = vec![f32::NAN; 8];
        parameters.extend(random_rows(&mut rng, outputs, inputs));
        parameters.resize(layer.bias(), 0.0);
        parameters.extend(random_rows(&mut rng, 1, outputs));
        Self {
            engine,
            layer,
            rows,
            x: random_rows(&mut rng, rows, inputs),
            parameters,
        }
    }

    /// Buffers after one kernel of a shape, which takes so many rows at once, the last ones first; or after two kernels.
    fn left(&self, shape: Option<(Shape, usize)>) -> Left {
        let Self {
            engine,
            layer,
            rows,
            ..
        } = *self;
        let capacity = rows + 2;
        let slots = Slots {
            cursor: 1 + rows / 2,
            capacity,
            first_id: 1000,
        };
        let labels = (0..rows as u32 + 3).map(|i| Row {
            label: 100 + i,
            ..Row::default()
        });
        let batch = vector(engine, &labels.collect::<Vec<_>>(), 0);
        let x = vector(engine, &self.x, 0);
        let parameters = vector(engine, &self.parameters, 0);
        let mut unit = output(engine, rows * layer.outputs);
        let mut norms = output(engine, rows);
        let mut bank = Bank {
            rows: StoredRows::F32(vector(engine, &vec![7.0f32; capacity * layer.outputs], 0)),
            tags: vector(engine, &vec![[7u32; 2]; capacity], 0),
        };
        let mut status = vector(engine, &[0u32], 0);
        let at_once = shape.map_or(rows, |(_, at_once)| at_once);
        let parts: Vec<_> = (0..rows)
            .step_by(at_once)
            .map(|first| {
                let own = first..rows.min(first + at_once);
                let x = &self.x[first * layer.inputs..own.end * layer.inputs];
                (vector(engine, x, 0), own)
            })
            .collect();
        let mut commands = engine.commands();
        match shape {
            Some((shape, _)) => {
                for (x, own) in parts.iter().rev() {
                    embed::embed_and_store(
                        &mut commands,
                        &layer,
                        shape,
                        own.clone(),
                        x.into(),
                        &parameters,
                        &batch,
                        3,
                        slots,
                        &mut unit,
                        &mut norms,
                        &mut bank,
                        &mut status,
                    );
                }
            }
            None => {
                let x = Input::from(&x);
                forward(
                    &mut commands,
                    &layer,
                    Shape::Strip,
                    rows,
                    x,
                    &parameters,
                    &mut unit,
                );
                normalize::store(
                    &mut commands,
                    0..rows,
                    layer.outputs,
                    &batch,
                    3,
                    slots,
                    &mut unit,
                    &mut norms,
                    &mut bank,
                    &mut status,
                );
            }
        }
        engine.submit(commands);
        Left {
            unit: read(engine, &unit, rows * layer.outputs),
            norms: read(engine, &norms, rows),
            bank: read(engine, bank.rows.read().floats(), capacity * layer.outputs),
            tags: read(engine, &bank.tags, capacity),
            status: read(engine, &status, 1),
        }
    }
}

#[test]
fn a_batch_is_embedded_and_stored_as_the_layer_and_the_normalization_would_do_it() {
    for engine in engines() {
        for shape in SHAPES {
            let case = Case::new(&engine, shape);
            let apart = case.left(None);
            let rows = reference::mlp(&[case.layer], &to_f64(&case.parameters), &to_f64(&case.x));
            let unit = reference::normalize(&rows, case.layer.outputs);
            assert_close("unit", &apart.unit, &unit, 1e-5);
            assert_eq!(apart.status, [0]);
            for way in Shape::ALL {
                for at_once in [usize::MAX, 4, 3] {
                    let left = case.left(Some((way, at_once.min(case.rows))));
                    assert_eq!(left, apart, "{shape:?}, {way:?}, {at_once}");
                }
            }
        }
    }
}

#[test]
fn a_batch_row_without_a_finite_length_sets_the_status() {
    for engine in engines() {
        for (bad, shape) in [f32::NAN, f32::INFINITY, 3e38]
            .into_iter()
            .flat_map(|bad| Shape::ALL.map(|shape| (bad, shape)))
        {
            let mut case = Case::new(&engine, (6, 8, 12));
            case.x[41] = bad;
            let left = case.left(Some((shape, 6)));
            assert_eq!(left.status, [1], "{bad}, {shape:?}");
            assert!(!left.norms[5].is_finite() && left.norms[4].is_finite());
        }
    }
}
