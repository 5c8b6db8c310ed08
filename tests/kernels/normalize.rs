use nearfar::kernels::normalize::{Bank, Slots, backward, in_place, normalize, store};
use nearfar::kernels::ranks::Row;
use nearfar::kernels::stored::StoredRows;
use nearfar::kernels::triplet_margin::{TERMS, Total};
use nearfar::reference;

use super::common::{assert_close, engines, output, random_rows, read, rng, to_f64, vector};

/// Row lengths around the vec4 and the 64 invocations of a workgroup.
const COLUMNS: [usize; 7] = [1, 3, 4, 64, 252, 256, 1000];

#[test]
fn rows_come_out_unit_and_a_zero_row_stays_zero() {
    for engine in engines() {
        for columns in COLUMNS {
            let mut rows = random_rows(&mut rng(5), 9, columns);
            let stride = rows.len() / 9;
            rows[4 * stride..5 * stride].fill(0.0);
            let mut unit = vector(&engine, &vec![7.0f32; 2 * stride], 9 * stride);
            let mut commands = engine.commands();
            normalize(
                &mut commands,
                9,
                stride,
                &vector(&engine, &rows, 0),
                2,
                &mut unit,
            );
            engine.submit(commands);
            let actual = read(&engine, &unit, 11 * stride);
            assert_eq!(actual[..2 * stride], vec![7.0; 2 * stride]);
            let expected = reference::normalize(&to_f64(&rows), stride);
            assert_close("unit", &actual[2 * stride..], &expected, 1e-6);
            // In place: the same bits, and nothing else.
            let raw = [&vec![7.0; 2 * stride], &rows[..]].concat();
            let mut raw = vector(&engine, &raw, stride);
            let mut commands = engine.commands();
            in_place(&mut commands, 8, stride, 2, &mut raw);
            engine.submit(commands);
            let untouched = &rows[8 * stride..];
            let expected = [&actual[..10 * stride], untouched].concat();
            assert_eq!(read(&engine, &raw, 11 * stride), expected);
        }
    }
}

#[test]
fn stored_rows_go_round_the_end_of_the_memory_with_label_and_id() {
    for engine in engines() {
        let (count, stride, capacity) = (6, 8, 8);
        let rows = random_rows(&mut rng(6), count, 7);
        let batch: Vec<Row> = (0..8)
            .map(|i| Row {
                label: 100 + i,
                ..Row::default()
            })
            .collect();
        let mut bank = Bank {
            rows: StoredRows::F32(vector(&engine, &vec![7.0f32; capacity * stride], 0)),
            tags: vector(&engine, &vec![[7u32; 2]; capacity], 0),
        };
        let (mut unit, mut norms) = (vector(&engine, &rows, 0), output(&engine, count));
        let mut status = vector(&engine, &[0u32], 0);
        let slots = Slots {
            cursor: 5,
            capacity,
            first_id: 1000,
        };
        let mut commands = engine.commands();
        let batch_on = vector(&engine, &batch, 0);
        store(
            &mut commands,
            0..count,
            stride,
            &batch_on,
            2,
            slots,
            &mut unit,
            &mut norms,
            &mut bank,
            &mut status,
        );
        engine.submit(commands);
        let unit = read(&engine, &unit, count * stride);
        assert_close(
            "unit",
            &unit,
            &reference::normalize(&to_f64(&rows), stride),
            1e-6,
        );
        let lengths: Vec<f64> = to_f64(&rows)
            .chunks(stride)
            .map(|row| reference::dot(row, row).sqrt())
            .collect();
        assert_close("norms", &read(&engine, &norms, count), &lengths, 1e-6);
        let stored = read(&engine, bank.rows.read().floats(), capacity * stride);
        let tags = read(&engine, &bank.tags, capacity);
        for i in 0..count {
            let slot = (5 + i) % capacity;
            assert_eq!(
                stored[slot * stride..][..stride],
                unit[i * stride..][..stride]
            );
            assert_eq!(tags[slot], [102 + i as u32, 1000 + i as u32]);
        }
        assert_eq!(tags[3..5], [[7, 7]; 2], "slots that nothing went into stay");
        assert_eq!(read(&engine, &status, 1), [0]);
    }
}

#[test]
fn a_row_without_a_finite_length_sets_the_status() {
    for engine in engines() {
        for bad in [f32::NAN, f32::INFINITY, 3e38] {
            let mut rows = random_rows(&mut rng(7), 3, 8);
            rows[10] = bad;
            let mut bank = Bank {
                rows: StoredRows::F32(output(&engine, 24)),
                tags: output(&engine, 3),
            };
            let mut status = vector(&engine, &[0u32], 0);
            let slots = Slots {
                cursor: 0,
                capacity: 3,
                first_id: 0,
            };
            let mut commands = engine.commands();
            store(
                &mut commands,
                0..3,
                8,
                &vector(&engine, &[Row::default(); 3], 0),
                0,
                slots,
                &mut vector(&engine, &rows, 0),
                &mut output(&engine, 3),
                &mut bank,
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

#[test]
fn backward_projects_and_divides_and_reports_the_terms_of_the_loss() {
    for engine in engines() {
        for (columns, centred) in COLUMNS.into_iter().flat_map(|c| [(c, false), (c, true)]) {
            let (count, active) = (5, (1u64 << 33) + 12345);
            let rows = random_rows(&mut rng(8), count, columns);
            let stride = rows.len() / count;
            let unit: Vec<f32> = reference::normalize(&to_f64(&rows), stride)
                .iter()
                .map(|v| *v as f32)
                .collect();
            let mut norms = vec![0.5, 1.0, 2.0, 0.0, 3.0];
            let gradient: Vec<f32> = random_rows(&mut rng(9), count, columns)
                .iter()
                .map(|g| g * 1e9)
                .collect();
            let mut report = vec![0u32; 20 + TERMS + count];
            report[20 + TERMS..].fill(3e9f32.to_bits());
            report[20 + Total::Active as usize] = active as u32;
            report[21 + Total::Active as usize] = (active >> 32) as u32;
            let mut mean = vec![0.0; stride];
            for row in to_f64(&gradient).chunks_exact(stride).filter(|_| centred) {
                mean.iter_mut()
                    .zip(row)
                    .for_each(|(mean, g)| *mean += g / count as f64);
            }
            let mean_on: Vec<f32> = mean.iter().map(|mean| *mean as f32).collect();
            let mean_on = vector(&engine, &mean_on, 0);
            let mut gradient_on = vector(&engine, &gradient, 0);
            let mut report_on = vector(&engine, &report, 0);
            let mut commands = engine.commands();
            backward(
                &mut commands,
                count,
                stride,
                &vector(&engine, &unit, 0),
                &vector(&engine, &norms, 0),
                &mut gradient_on,
                2.0,
                None,
                centred.then_some(&mean_on),
                20,
                &mut report_on,
            );
            engine.submit(commands);
            let (unit, g) = (to_f64(&unit), to_f64(&gradient));
            norms[3] = f32::INFINITY;
            let mut expected = Vec::new();
            let mut terms = Vec::new();
            for i in 0..count {
                let (u, g) = (&unit[i * stride..][..stride], &g[i * stride..][..stride]);
                let along = reference::dot(u, g);
                let divisor = active as f64 * f64::from(norms[i]);
                terms.push(2.0 * along / 1e9 + 3.0);
                let g: Vec<f64> = g.iter().zip(&mean).map(|(g, mean)| g - mean).collect();
                let along = reference::dot(u, &g);
                expected.extend(u.iter().zip(g).map(|(u, g)| (g - u * along) / divisor));
            }
            let actual = read(&engine, &gradient_on, count * stride);
            assert_close("gradient", &actual, &expected, 1e-6);
            let report = read(&engine, &report_on, report.len());
            let actual: Vec<f32> = report[20 + TERMS..]
                .iter()
                .map(|bits| f32::from_bits(*bits) / 1e9)
                .collect();
            assert_close("terms", &actual, &terms, 1e-5);
        }
    }
}
