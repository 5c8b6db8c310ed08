use nearfar::kernels::peaks::{copy, fill, multiply_add};

use super::common::{assert_close, engines, output, random_rows, read, rng, vector};

#[test]
fn fill_and_copy_write_every_float_and_no_more() {
    for engine in engines() {
        let values = random_rows(&mut rng(2), 1, 1028);
        let source = vector(&engine, &values, 0);
        let mut copied = vector(&engine, &vec![7.0f32; 1032], 0);
        let mut filled = vector(&engine, &vec![7.0f32; 1032], 0);
        let mut commands = engine.commands();
        copy(&mut commands, 1028, &source, &mut copied);
        fill(&mut commands, 1028, 3.0, &mut filled);
        engine.submit(commands);
        let expected: Vec<f32> = values.iter().copied().chain([7.0; 4]).collect();
        assert_eq!(read(&engine, &copied, 1032), expected);
        let expected: Vec<f32> = [3.0; 1028].into_iter().chain([7.0; 4]).collect();
        assert_eq!(read(&engine, &filled, 1032), expected);
    }
}

#[test]
fn multiply_add_does_all_its_steps() {
    for engine in engines() {
        let mut out = output(&engine, 1024);
        let mut commands = engine.commands();
        multiply_add(&mut commands, 1024, 0.999, &mut out);
        engine.submit(commands);
        let expected: Vec<f64> = (0..1024)
            .map(|i| {
                let b = (i / 4) as f64 * 1e-9;
                let mut chains = [0, 1, 2, 3, 4, 5, 6, 7].map(|c| b + f64::from(c));
                for _ in 0..256 {
                    chains = chains.map(|x| x * f64::from(0.999f32) + b);
                }
                chains.iter().sum()
            })
            .collect();
        assert_close("chains", &read(&engine, &out, 1024), &expected, 1e-4);
    }
}
