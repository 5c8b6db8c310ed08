use nearfar::kernels::optimizer::{AdamStep, Moments, PARTS, adam, squares};
use nearfar::kernels::triplet_margin::STATUS;

use super::common::{assert_close, engines, random_rows, read, rng, to_f64, vector};

const COUNT: usize = 260;

fn step(t: i32, weight_decay: f32) -> AdamStep {
    AdamStep {
        step_size: (1e-3 / (1.0 - 0.9f64.powi(t))) as f32,
        sqrt_correction2: (1.0 - 0.999f64.powi(t)).sqrt() as f32,
        beta1: 0.9,
        gain1: 0.1,
        beta2: 0.999,
        gain2: 0.001,
        eps: 1e-8,
        weight_decay,
    }
}

#[test]
fn adam_follows_its_formula_over_several_steps() {
    for engine in engines() {
        for weight_decay in [0.0, 0.01] {
            let start = random_rows(&mut rng(3), 1, COUNT);
            let mut parameters = vector(&engine, &start, 0);
            let mut moments = Moments {
                first: vector(&engine, &[0.0f32; COUNT], 0),
                second: vector(&engine, &[0.0f32; COUNT], 0),
            };
            let status = vector(&engine, &[0u32], 0);
            let mut report = vector(&engine, &[9u32; 32], 0);
            let (mut p, mut m, mut v) = (to_f64(&start), vec![0.0; COUNT], vec![0.0; COUNT]);
            for t in 1..=5 {
                let g = random_rows(&mut rng(t as u64), 1, COUNT);
                let gradients = vector(&engine, &g, 0);
                let mut commands = engine.commands();
                adam(
                    &mut commands,
                    &step(t, weight_decay),
                    COUNT,
                    &gradients,
                    &mut parameters,
                    &mut moments,
                    &status,
                    16,
                    &mut report,
                );
                engine.submit(commands);
                for i in 0..COUNT {
                    let g = f64::from(g[i]) + f64::from(weight_decay) * p[i];
                    m[i] = 0.9 * m[i] + 0.1 * g;
                    v[i] = 0.999 * v[i] + 0.001 * g * g;
                    let (m, v) = (
                        m[i] / (1.0 - 0.9f64.powi(t)),
                        v[i] / (1.0 - 0.999f64.powi(t)),
                    );
                    p[i] -= 1e-3 * m / (v.sqrt() + 1e-8);
                }
            }
            assert_close("parameters", &read(&engine, &parameters, COUNT), &p, 1e-6);
            assert_eq!(read(&engine, &report, 32)[16 + STATUS], 0);
        }
    }
}

#[test]
fn adam_writes_nothing_once_the_status_is_set_and_reports_it() {
    for engine in engines() {
        let start = random_rows(&mut rng(4), 1, COUNT);
        let mut parameters = vector(&engine, &start, 0);
        let mut moments = Moments {
            first: vector(&engine, &start, 0),
            second: vector(&engine, &start, 0),
        };
        let gradients = vector(&engine, &start, 0);
        let status = vector(&engine, &[1u32], 0);
        let mut report = vector(&engine, &[0u32; 16], 0);
        let mut commands = engine.commands();
        adam(
            &mut commands,
            &step(1, 0.0),
            COUNT,
            &gradients,
            &mut parameters,
            &mut moments,
            &status,
            0,
            &mut report,
        );
        engine.submit(commands);
        for vector in [&parameters, &moments.first, &moments.second] {
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
