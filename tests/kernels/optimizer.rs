use nearfar::Engine;
use nearfar::kernels::optimizer::{
    Moments, OptimizerStep, PARTS, SEGMENT, clip, segments, squares, update,
};
use nearfar::kernels::triplet_margin::STATUS;

use super::common::{assert_close, engines, output, random_rows, read, rng, to_f64, vector};

const COUNT: usize = 260;

/// The scalars of Adam's step `t` with a rate of a thousandth.
fn step(t: i32, weight_decay: f32) -> OptimizerStep {
    OptimizerStep {
        step_size: (1e-3 / (1.0 - 0.9f64.powi(t))) as f32,
        sqrt_correction2: (1.0 - 0.999f64.powi(t)).sqrt() as f32,
        beta1: 0.9,
        gain1: 0.1,
        beta2: 0.999,
        gain2: 0.001,
        eps: 1e-8,
        weight_decay,
        shrink: 1.0,
        nesterov: 0,
    }
}

/// So many moments of each parameter, all of this value.
fn moments(engine: &Engine, count: usize, of: &[f32]) -> Moments {
    match count {
        0 => Moments::None,
        1 => Moments::First(vector(engine, of, 0)),
        _ => Moments::Both([vector(engine, of, 0), vector(engine, of, 0)]),
    }
}

/// Parameters after five steps of `of` with these gradients, times `factor` if given.
fn five_steps(
    engine: &Engine,
    count: usize,
    factor: Option<f32>,
    of: impl Fn(i32) -> OptimizerStep,
) -> Vec<f32> {
    let mut parameters = vector(engine, &random_rows(&mut rng(3), 1, COUNT), 0);
    let mut moments = moments(engine, count, &[0.0; COUNT]);
    let status = vector(engine, &[0u32], 0);
    let mut report = vector(engine, &[9u32; 32], 0);
    let factor = factor.map(|factor| vector(engine, &[factor, 7.0], 0));
    for t in 1..=5 {
        let gradients = vector(engine, &random_rows(&mut rng(t as u64), 1, COUNT), 0);
        let mut commands = engine.commands();
        update(
            &mut commands,
            &of(t),
            COUNT,
            &gradients,
            &mut parameters,
            &mut moments,
            factor.as_ref(),
            &status,
            16,
            &mut report,
        );
        engine.submit(commands);
    }
    assert_eq!(read(engine, &report, 32)[16 + STATUS], 0);
    read(engine, &parameters, COUNT)
}

/// The same in f64: `of` gives the next parameter from the step, the parameter, the gradient and two values that stay.
fn expected(factor: f64, of: impl Fn(i32, f64, f64, &mut [f64; 2]) -> f64) -> Vec<f64> {
    let mut p = to_f64(&random_rows(&mut rng(3), 1, COUNT));
    let mut kept = vec![[0.0; 2]; COUNT];
    for t in 1..=5 {
        let gradients = to_f64(&random_rows(&mut rng(t as u64), 1, COUNT));
        for i in 0..COUNT {
            p[i] = of(t, p[i], factor * gradients[i], &mut kept[i]);
        }
    }
    p
}

#[test]
fn adam_follows_its_formula_over_several_steps() {
    for engine in engines() {
        for (decay, shrink, factor) in [
            (0.0, 1.0, None),
            (0.01, 1.0, None),
            (0.0, 0.99, None),
            (0.01, 1.0, Some(0.25)),
        ] {
            let found = five_steps(&engine, 2, factor, |t| OptimizerStep {
                shrink,
                ..step(t, decay)
            });
            let expected = expected(f64::from(factor.unwrap_or(1.0)), |t, p, g, [m, v]| {
                let g = g + f64::from(decay) * p;
                *m = 0.9 * *m + 0.1 * g;
                *v = 0.999 * *v + 0.001 * g * g;
                let (m, v) = (*m / (1.0 - 0.9f64.powi(t)), *v / (1.0 - 0.999f64.powi(t)));
                f64::from(shrink) * p - 1e-3 * m / (v.sqrt() + 1e-8)
            });
            assert_close("parameters", &found, &expected, 1e-6);
        }
    }
}

#[test]
fn sgd_follows_its_formula_with_and_without_momentum() {
    for engine in engines() {
        for (momentum, nesterov, decay, factor) in [
            (0.0, 0, 0.0, None),
            (0.0, 0, 0.1, Some(0.25)),
            (0.8, 0, 0.0, None),
            (0.8, 1, 0.1, None),
            (0.8, 0, 0.1, Some(0.25)),
        ] {
            let count = usize::from(momentum > 0.0);
            let found = five_steps(&engine, count, factor, |t| OptimizerStep {
                step_size: 0.05,
                beta1: momentum,
                nesterov,
                ..step(t, decay)
            });
            let momentum = f64::from(momentum);
            let expected = expected(f64::from(factor.unwrap_or(1.0)), |_, p, g, [b, _]| {
                let g = g + f64::from(decay) * p;
                *b = momentum * *b + g;
                let ahead = if nesterov == 1 { g + momentum * *b } else { *b };
                p - f64::from(0.05f32) * ahead
            });
            assert_close("parameters", &found, &expected, 1e-6);
        }
    }
}

#[test]
fn an_optimizer_writes_nothing_once_the_status_is_set_and_reports_it() {
    for (engine, count) in engines().into_iter().flat_map(|engine| {
        let engine = std::rc::Rc::new(engine);
        (0..3).map(move |count| (engine.clone(), count))
    }) {
        let start = random_rows(&mut rng(4), 1, COUNT);
        let mut parameters = vector(&engine, &start, 0);
        let mut moments = moments(&engine, count, &start);
        let gradients = vector(&engine, &start, 0);
        let status = vector(&engine, &[1u32], 0);
        let mut report = vector(&engine, &[0u32; 16], 0);
        let mut commands = engine.commands();
        update(
            &mut commands,
            &step(1, 0.0),
            COUNT,
            &gradients,
            &mut parameters,
            &mut moments,
            None,
            &status,
            0,
            &mut report,
        );
        engine.submit(commands);
        assert_eq!(moments.vectors().len(), count);
        for vector in moments.vectors().iter().chain([&parameters]) {
            assert_eq!(read(&engine, vector, COUNT), start);
        }
        assert_eq!(read(&engine, &report, 16)[STATUS], 1);
    }
}

#[test]
fn squares_add_up_to_the_squared_length_and_what_was_there_is_forgotten() {
    for engine in engines() {
        for count in [4, 260, 8200] {
            let gradient = random_rows(&mut rng(7), 1, count);
            let mut sums = vector(&engine, &[5f32; PARTS], 0);
            let mut commands = engine.commands();
            squares(
                &mut commands,
                count,
                &vector(&engine, &gradient, 0),
                &mut sums,
            );
            engine.submit(commands);
            let found: f64 = read(&engine, &sums, PARTS).into_iter().map(f64::from).sum();
            let expected: f64 = to_f64(&gradient).iter().map(|g| g * g).sum();
            assert!(
                (found - expected).abs() < 1e-5 * expected,
                "{found} {expected}"
            );
        }
    }
}

/// Squares of eighths are exact, and so are their sums: both engines and the plain loop are equal to the bit.
#[test]
fn gradients_are_measured_by_segments_in_their_order_and_clipped_by_the_norm_of_all() {
    for engine in engines() {
        for counts in [
            vec![4usize],
            vec![256, 4],
            vec![260, 8],
            vec![40_000, 516, 4],
        ] {
            let all: Vec<Vec<f32>> = counts
                .iter()
                .map(|count| (0..*count).map(|i| (i % 7) as f32 / 8.0 - 0.25).collect())
                .collect();
            let of_each = counts.iter().map(|count| count.div_ceil(SEGMENT));
            let number: usize = of_each.clone().sum();
            let mut sums = output::<f32>(&engine, 1 + number);
            let mut first = 1;
            for (gradients, segments_of) in all.iter().zip(of_each) {
                let on = vector(&engine, gradients, 0);
                let mut commands = engine.commands();
                segments(&mut commands, gradients.len(), &on, first, &mut sums);
                engine.submit(commands);
                first += segments_of;
            }
            let expected: Vec<f32> = all
                .iter()
                .flat_map(|gradients| gradients.chunks(SEGMENT))
                .map(|part| part.iter().map(|g| g * g).sum())
                .collect();
            let norm = expected.iter().map(|sum| f64::from(*sum)).sum::<f64>();
            let norm = norm.sqrt();
            for max_norm in [norm / 3.0, norm * 2.0] {
                let mut commands = engine.commands();
                clip(&mut commands, max_norm as f32, number, &mut sums);
                engine.submit(commands);
                let found = read(&engine, &sums, 1 + number);
                assert_eq!(found[1..], expected, "{counts:?}");
                let factor = (max_norm / (norm + 1e-6)).min(1.0);
                assert!((f64::from(found[0]) - factor).abs() < 1e-6, "{counts:?}");
            }
        }
    }
}
