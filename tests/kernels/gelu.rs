use nearfar::kernels::gelu;
use nearfar::reference;

use super::common::{assert_close, engines, output, read, to_f64, vector};

/// Off by the polynomial's 2e-7 and some units in the last place of values up to 9.
const TOLERANCE: f64 = 1e-6;

/// Values within +-9, where the tail ends, close enough to each other to meet every wiggle of the polynomial; of `count`, which
/// straddles a workgroup, and far out.
fn values(count: usize) -> Vec<f32> {
    let grid = (0..count).map(|i| 18.0 * (i as f32 / count as f32) - 9.0);
    let far = [0.0, -0.0, 1e-30, -1e-30, 40.0, -40.0, 1e30, -1e30];
    grid.chain(far).collect()
}

#[test]
fn gelu_and_its_slope_are_those_of_the_error_function() {
    for engine in engines() {
        for count in [4, 252, 256, 260, 200_000] {
            let x = values(count);
            let (near, count) = (to_f64(&x), x.len());
            let on = vector(&engine, &x, 0);
            let (mut y, mut dx) = (
                output(&engine, count),
                vector(&engine, &vec![0.5f32; count], 4),
            );
            let mut commands = engine.commands();
            gelu::forward(&mut commands, count, (&on).into(), &mut y);
            gelu::backward(&mut commands, count, (&on).into(), &mut dx);
            engine.submit(commands);
            let expected: Vec<f64> = near.iter().map(|x| reference::gelu(*x)).collect();
            let slopes: Vec<f64> = near
                .iter()
                .map(|x| 0.5 * reference::gelu_slope(*x))
                .collect();
            let found = read(&engine, &y, count);
            // Far out the value is the input itself, or 0.
            assert_eq!(found[count - 4..], [40.0, 0.0, 1e30, 0.0].map(|v: f32| v));
            assert_close("y", &found[..count - 4], &expected[..count - 4], TOLERANCE);
            let found = read(&engine, &dx, count);
            assert_close("dx", &found, &slopes, TOLERANCE);
        }
    }
}

#[test]
fn the_reference_has_torchs_values() {
    // torch.nn.functional.gelu and its gradient in float64.
    for (x, y, slope) in [
        (-3.0, -0.004_049_694_094_890_31, -0.011_945_647_204_183_92),
        (-0.5, -0.154_268_769_362_993_44, 0.132_504_875_343_837_12),
        (0.7, 0.530_625_443_443_848_9, 0.976_614_101_133_659_9),
        (2.0, 1.954_499_736_103_641_6, 1.085_231_801_078_197),
    ] {
        assert!((reference::gelu(x) - y).abs() < 1e-12);
        assert!((reference::gelu_slope(x) - slope).abs() < 1e-12);
    }
}
