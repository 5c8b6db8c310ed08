use nearfar::kernels::drift::{Drift, measure};
use nearfar::reference;

use super::common::{assert_close, engines, random_rows, read, rng, to_f64, vector};

#[test]
fn the_mean_gradient_is_averaged_over_steps_and_compared_with_what_was_before() {
    for engine in engines() {
        for (rows, columns) in [(1, 4), (5, 30), (70, 1200), (300, 30), (5000, 70)] {
            let stride = random_rows(&mut rng(1), 1, columns).len();
            let mut drift = Drift {
                state: vector(&engine, &vec![0f32; 2 * stride], 0),
                sums: vector(&engine, &[0f32; 2], 0),
            };
            let mut average = vec![0.0; stride];
            let mut pushes = 0.0;
            for step in 0..3 {
                let gradient = random_rows(&mut rng(10 + step), rows, columns);
                let on = vector(&engine, &gradient, 0);
                let mut commands = engine.commands();
                measure(&mut commands, rows, stride, &on, &mut drift);
                engine.submit(commands);
                let mut mean = vec![0.0; stride];
                for row in to_f64(&gradient).chunks_exact(stride) {
                    mean.iter_mut()
                        .zip(row)
                        .for_each(|(mean, g)| *mean += g / rows as f64);
                }
                let length = |v: &[f64]| reference::dot(v, v).sqrt();
                if step > 0 {
                    pushes += reference::dot(&mean, &average) / length(&mean) / length(&average);
                }
                for (average, mean) in average.iter_mut().zip(&mean) {
                    *average = 0.9 * *average + 0.1 * mean;
                }
                let state = read(&engine, &drift.state, 2 * stride);
                assert_close("mean", &state[..stride], &mean, 1e-5);
                assert_close("average", &state[stride..], &average, 1e-5);
            }
            let sums = read(&engine, &drift.sums, 2);
            // The first step has nothing before it.
            assert_close("sums", &sums, &[pushes, 2.0], 1e-5);
        }
    }
}
