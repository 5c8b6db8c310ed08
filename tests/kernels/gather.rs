use nearfar::kernels::gather::{gather, scatter};
use nearfar::kernels::stored::Precision;

use super::common::{engines, output, random_rows, read, rng, stored, vector};

#[test]
fn rows_arrive_in_the_order_asked_for() {
    for engine in engines() {
        for (count, columns) in [(1, 1), (3, 4), (63, 5), (64, 64), (65, 30), (300, 7)] {
            // Multiples of 1/1024 below 1, which half precision holds.
            let features = random_rows(&mut rng(1), 200, columns);
            let features: Vec<f32> = features
                .iter()
                .map(|v| (v * 1024.0).round() / 1024.0)
                .collect();
            let stride = features.len() / 200;
            let rows: Vec<u32> = (0..count as u32 + 5).map(|i| i * 77 % 200).collect();
            let device_rows = vector(&engine, &rows, 0);
            let expected: Vec<f32> = rows[5..]
                .iter()
                .flat_map(|row| &features[*row as usize * stride..][..stride])
                .copied()
                .collect();
            for precision in [Precision::F32, Precision::F16] {
                let device_features = stored(&engine, &features, precision);
                let mut batch = output(&engine, count * stride);
                let mut commands = engine.commands();
                gather(
                    &mut commands,
                    device_features.read(),
                    &device_rows,
                    5,
                    count,
                    stride,
                    &mut batch,
                );
                engine.submit(commands);
                assert_eq!(read(&engine, &batch, count * stride), expected);
            }
        }
    }
}

#[test]
fn scattered_rows_stand_where_they_are_sent_and_nowhere_else() {
    for engine in engines() {
        for (count, columns) in [(1, 1), (63, 5), (65, 30), (300, 7)] {
            let rows = random_rows(&mut rng(1), count, columns);
            let stride = rows.len() / count;
            // No two alike, and every other place left as it was.
            let places: Vec<u32> = (0..count as u32).map(|i| i * 7 % 307 * 2).collect();
            let before = random_rows(&mut rng(2), 614, columns);
            let device_rows = vector(&engine, &rows, 0);
            let device_places = vector(&engine, &places, 0);
            let mut to = vector(&engine, &before, 0);
            let mut commands = engine.commands();
            scatter(
                &mut commands,
                &device_rows,
                &device_places,
                count,
                stride,
                &mut to,
            );
            engine.submit(commands);
            let mut expected = before;
            for (row, place) in rows.chunks_exact(stride).zip(&places) {
                expected[*place as usize * stride..][..stride].copy_from_slice(row);
            }
            assert_eq!(read(&engine, &to, expected.len()), expected);
        }
    }
}
