//! Promises of each sampler, on many small sets of labels.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Classes of these sizes; rows are numbered on, so that the class of a row is known by its number.
fn classes(sizes: &[usize]) -> Classes {
    let mut rows = 0..;
    let class = |size: &usize| rows.by_ref().take(*size).collect();
    sizes.iter().map(class).collect()
}

/// The class of each row.
fn labels(sizes: &[usize]) -> Vec<usize> {
    let of_class = |(class, size): (usize, &usize)| std::iter::repeat_n(class, *size);
    sizes.iter().enumerate().flat_map(of_class).collect()
}

/// Sizes of 2 to 8 classes, most of them small and some large.
fn random_sizes(rng: &mut Rng) -> Vec<usize> {
    let classes = 2 + rng::below(rng, 7);
    let mut size = || {
        let most = [3, 9, 40][rng::below(rng, 3)];
        1 + rng::below(rng, most)
    };
    (0..classes).map(|_| size()).collect()
}

fn draw_batches(draw: &mut dyn Draw, rng: &mut Rng, batches: usize) -> Vec<u32> {
    let mut rows = Vec::new();
    (0..batches).for_each(|_| draw.next_batch(rng, &mut rows));
    rows
}

/// Super-classes of these classes: each row of class `c` is of super-class `c % supers`, and every fifth row of another.
fn by_super(classes: &Classes, supers: usize) -> Vec<SuperClass> {
    let mut all = vec![BTreeMap::<u32, Vec<u32>>::new(); supers];
    for (class, rows) in classes.iter().enumerate() {
        for row in rows {
            let outer = (class + usize::from(row % 5 == 0)) % supers;
            all[outer].entry(class as u32).or_default().push(*row);
        }
    }
    all.retain(|classes| !classes.is_empty());
    all.into_iter()
        .map(|classes| classes.into_iter().collect())
        .collect()
}

/// Every sampler that can draw from these classes, in shapes of its own.
fn samplers(sizes: &[usize]) -> Vec<(String, usize, Box<dyn Draw>)> {
    let classes = classes(sizes);
    let rows: Vec<u32> = classes.concat();
    let mut all: Vec<(String, usize, Box<dyn Draw>)> = Vec::new();
    for batch_size in [2, 3, 4, 8, 12] {
        if let Ok(draw) = Shuffled::new(&rows, &classes, batch_size) {
            all.push(("shuffled".to_owned(), batch_size, Box::new(draw)));
        }
        let draw = ClassBalanced::new(classes.clone(), batch_size);
        all.push(("class-balanced".to_owned(), batch_size, Box::new(draw)));
        for m in (2..=batch_size).filter(|m| batch_size % m == 0) {
            let sampler = MPerClassSampler { m };
            if let Ok(draw) = MPerClass::new(classes.clone(), &sampler, batch_size) {
                all.push((format!("{sampler:?}"), batch_size, Box::new(draw)));
            }
            let sampler = MPerClassEpochSampler { m };
            if let Ok(draw) = MPerClassEpoch::new(classes.clone(), &sampler, batch_size) {
                all.push((format!("{sampler:?}"), batch_size, Box::new(draw)));
            }
        }
        for super_classes in 1..=3 {
            for samples in 1..=4 {
                let sampler = HierarchicalSampler {
                    samples_per_class: samples,
                    super_classes_per_batch: super_classes,
                    ..HierarchicalSampler::default()
                };
                let supers = by_super(&classes, 3);
                if sampler.check(batch_size).is_ok()
                    && let Ok(draw) = Hierarchical::new(supers, &sampler, batch_size)
                {
                    all.push((format!("{sampler:?}"), batch_size, Box::new(draw)));
                }
            }
        }
    }
    all
}

#[test]
fn no_window_holds_more_of_a_class_than_was_promised() {
    let mut rng = rng::stream(0, "sizes");
    let mut seen = BTreeMap::new();
    for _ in 0..60 {
        let sizes = random_sizes(&mut rng);
        let labels = labels(&sizes);
        for (name, batch_size, mut draw) in samplers(&sizes) {
            let rows = draw_batches(&mut *draw, &mut rng, 300 / batch_size);
            assert_eq!(rows.len(), 300 / batch_size * batch_size);
            for window in (1..=40).chain([60, 100, 150]) {
                let promised = draw.most_of_a_class(window);
                assert!(promised <= window);
                let mut counts = vec![0; sizes.len()];
                for (place, row) in rows.iter().enumerate() {
                    counts[labels[*row as usize]] += 1;
                    if place >= window {
                        counts[labels[rows[place - window] as usize]] -= 1;
                    }
                    let most = counts.iter().max().expect("there are classes");
                    assert!(
                        *most <= promised,
                        "{name}, {sizes:?}, batches of {batch_size}: {most} of {window} rows, {promised} promised"
                    );
                }
            }
            let kind = name.split(' ').next().unwrap_or("").to_owned();
            *seen.entry(kind).or_insert(0) += 1;
        }
    }
    // Every kind was tried, hundreds of times.
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen.values().all(|count| *count > 100), "{seen:?}");
}

#[test]
fn an_epoch_of_m_per_class_draws_every_row_and_spreads_every_class() {
    let mut rng = rng::stream(1, "sizes");
    for _ in 0..300 {
        let sizes = random_sizes(&mut rng);
        let (m, groups_of_a_batch) = (2 + rng::below(&mut rng, 3), 1 + rng::below(&mut rng, 4));
        let batch_size = m * groups_of_a_batch;
        let classes = classes(&sizes);
        let Ok(mut draw) =
            MPerClassEpoch::new(classes.clone(), &MPerClassEpochSampler { m }, batch_size)
        else {
            assert!(sizes.len() < groups_of_a_batch);
            continue;
        };
        let labels = labels(&sizes);
        let needed: Vec<usize> = sizes.iter().map(|size| size.div_ceil(m)).collect();
        let batches = needed.iter().sum::<usize>().div_ceil(groups_of_a_batch);
        for _ in 0..3 {
            let rows = draw_batches(&mut draw, &mut rng, batches);
            let mut groups = vec![0; sizes.len()];
            for batch in rows.chunks(batch_size) {
                let mut in_batch = vec![0; sizes.len()];
                for group in batch.chunks(m) {
                    let class = labels[group[0] as usize];
                    assert!(group.iter().all(|row| labels[*row as usize] == class));
                    let different = group.iter().collect::<BTreeSet<_>>().len();
                    assert_eq!(different, m.min(sizes[class]));
                    in_batch[class] += 1;
                    groups[class] += 1;
                }
                for (class, count) in in_batch.iter().enumerate() {
                    assert!(*count <= needed[class].div_ceil(batches), "{sizes:?} {m}");
                }
            }
            // Rows of a class come as often as each other, or once more.
            let mut times = vec![0; labels.len()];
            rows.iter().for_each(|row| times[*row as usize] += 1);
            for (class, rows) in classes.iter().enumerate() {
                assert!(groups[class] >= needed[class]);
                let drawn = groups[class] * m;
                for row in rows {
                    let times = times[*row as usize];
                    assert!(times >= 1 && times >= drawn / rows.len());
                    assert!(times <= drawn.div_ceil(rows.len()));
                }
            }
            // What fills the last batch is less than a batch.
            let more: usize = groups.iter().sum::<usize>() - needed.iter().sum::<usize>();
            assert!(more < groups_of_a_batch);
        }
    }
}

#[test]
fn rows_that_fill_their_groups_and_batches_are_drawn_exactly_once_an_epoch() {
    // Sizes, m, rows of a batch; in the last one a class has more groups than there are batches.
    for (sizes, m, batch_size) in [
        (&[4, 4, 4, 4][..], 4, 8),
        (&[2, 4, 6, 12], 2, 4),
        (&[3, 3, 6, 9, 3], 3, 6),
        (&[40, 2, 2, 4], 2, 8),
    ] {
        let sampler = MPerClassEpochSampler { m };
        let mut draw = MPerClassEpoch::new(classes(sizes), &sampler, batch_size).expect("fits");
        let all: usize = sizes.iter().sum();
        let mut rng = rng::stream(0, "test");
        for _ in 0..5 {
            let mut rows = draw_batches(&mut draw, &mut rng, all / batch_size);
            rows.sort_unstable();
            assert!(rows.into_iter().eq(0..all as u32), "{sizes:?}");
        }
    }
}

#[test]
fn classes_meet_many_others_in_the_batches_of_an_epoch() {
    // Twenty classes of ten groups, five classes a batch: in ten batches forty places, so that few others stay unmet.
    let sampler = MPerClassEpochSampler { m: 2 };
    let mut draw = MPerClassEpoch::new(classes(&[20; 20]), &sampler, 10).expect("fits");
    let mut rng = rng::stream(0, "test");
    let rows = draw_batches(&mut draw, &mut rng, 40);
    let mut met = BTreeSet::new();
    for batch in rows.chunks(10) {
        let classes: BTreeSet<u32> = batch.iter().map(|row| row / 20).collect();
        met.extend(classes.iter().flat_map(|a| {
            let pair = move |b: &u32| (*a, *b);
            classes.iter().map(pair).collect::<Vec<_>>()
        }));
    }
    assert!(met.len() > 300, "{} of 400 pairs", met.len());
}

#[test]
fn every_class_is_as_frequent_as_every_other_where_they_are_balanced() {
    let sizes = [1, 2, 5, 40, 300];
    let mut draw = ClassBalanced::new(classes(&sizes), 10);
    let labels = labels(&sizes);
    let rows = draw_batches(&mut draw, &mut rng::stream(0, "test"), 1000);
    for (class, size) in sizes.into_iter().enumerate() {
        let own: Vec<u32> = rows
            .iter()
            .copied()
            .filter(|row| labels[*row as usize] == class)
            .collect();
        // A fifth of 10,000, within five standard errors of 40.
        assert!(own.len().abs_diff(2000) < 200, "{}", own.len());
        for round in own.chunks_exact(size) {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), size);
        }
    }
}

#[test]
fn batches_of_super_classes_hold_the_same_share_of_each_and_an_epoch_every_tuple() {
    // Four super-classes; the last has one class of five rows, too few for its share of a batch.
    let supers = [
        classes(&[9, 9, 9]),
        classes(&[6; 7]),
        classes(&[4, 20]),
        classes(&[5]),
    ];
    let (mut row, mut class) = (0, 0);
    let mut outer_of = Vec::new();
    let mut class_of = Vec::new();
    let mut given = Vec::new();
    for (outer, classes) in supers.iter().enumerate() {
        let mut own = Vec::new();
        for rows in classes {
            let numbers: Vec<u32> = (row..row + rows.len() as u32).collect();
            row += rows.len() as u32;
            outer_of.extend(vec![outer; rows.len()]);
            class_of.extend(vec![class; rows.len()]);
            own.push((class, numbers));
            class += 1;
        }
        given.push(own);
    }
    let sampler = HierarchicalSampler {
        samples_per_class: 3,
        batches_per_super_tuple: 2,
        ..HierarchicalSampler::default()
    };
    let mut draw = Hierarchical::new(given, &sampler, 12).expect("fits");
    let mut rng = rng::stream(0, "test");
    for _ in 0..4 {
        let mut tuples = BTreeMap::new();
        // Six pairs of four, twice each.
        for batch in draw_batches(&mut draw, &mut rng, 12).chunks(12) {
            let mut tuple = Vec::new();
            for share in batch.chunks(6) {
                let outer = outer_of[share[0] as usize];
                assert!(share.iter().all(|row| outer_of[*row as usize] == outer));
                tuple.push(outer);
                let mut counts = BTreeMap::new();
                for row in share {
                    *counts.entry(class_of[*row as usize]).or_insert(0) += 1;
                }
                let expected = if outer == 3 { vec![6] } else { vec![3, 3] };
                assert_eq!(counts.into_values().collect::<Vec<_>>(), expected);
                if outer != 3 {
                    assert_eq!(share.iter().collect::<BTreeSet<_>>().len(), 6);
                }
            }
            assert!(tuple[0] < tuple[1]);
            *tuples.entry(tuple).or_insert(0) += 1;
        }
        assert_eq!(tuples.into_values().collect::<Vec<_>>(), [2; 6]);
    }
}

#[test]
fn too_few_super_classes_or_too_many_tuples_are_refused_with_the_numbers() {
    let supers = |count: u32| (0..count).map(|i| vec![(i, vec![i])]).collect();
    let refused = |count, super_classes| {
        let sampler = HierarchicalSampler {
            samples_per_class: 1,
            super_classes_per_batch: super_classes,
            ..HierarchicalSampler::default()
        };
        Hierarchical::new(supers(count), &sampler, 64)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(
        refused(3, 4),
        "sampler.super_classes_per_batch is 4: the training rows are of 3 super-classes, so it must be at most that"
    );
    for (count, super_classes) in [(100, 8), (3000, 2), (1000, 32)] {
        let message = refused(count, super_classes);
        assert!(
            message.starts_with(&format!(
                "sampler.super_classes_per_batch is {super_classes}: {count} super-classes have too many tuples"
            )),
            "{message}"
        );
    }
}

#[test]
fn arguments_out_of_range_are_refused_by_name_with_the_range() {
    let hierarchical = |super_classes, samples, batches| {
        Sampler::Hierarchical(HierarchicalSampler {
            outer_label: "genus".to_owned(),
            super_classes_per_batch: super_classes,
            samples_per_class: samples,
            batches_per_super_tuple: batches,
        })
    };
    for (sampler, message) in [
        (
            Sampler::MPerClass(MPerClassSampler { m: 5 }),
            "sampler.m is 5: it must be at least 2 and a divisor of batch_size, 32",
        ),
        (
            Sampler::MPerClassEpoch(MPerClassEpochSampler { m: 1 }),
            "sampler.m is 1: it must be at least 2 and a divisor of batch_size, 32",
        ),
        (
            hierarchical(3, 4, 4),
            "sampler.super_classes_per_batch is 3: it must be at least 1 and a divisor of batch_size, 32",
        ),
        (
            hierarchical(2, 5, 4),
            "sampler.samples_per_class is 5: it must be at least 1 and a divisor of batch_size / \
             sampler.super_classes_per_batch, 16",
        ),
        (
            hierarchical(2, 4, 0),
            "sampler.batches_per_super_tuple is 0: it must be between 1 and 1000",
        ),
    ] {
        assert_eq!(sampler.check(32).expect_err("refused").to_string(), message);
    }
    hierarchical(2, 16, 1).check(32).expect("holds");
}

#[test]
fn a_sampler_goes_on_from_what_it_saved_and_takes_nothing_else() {
    let mut rng = rng::stream(0, "saved");
    for _ in 0..40 {
        let sizes = random_sizes(&mut rng);
        let others = random_sizes(&mut rng);
        let pairs = samplers(&sizes).into_iter().zip(samplers(&sizes));
        for (place, ((name, _, mut first), (_, _, mut second))) in pairs.enumerate() {
            let mut chance = rng::stream(1, &name);
            let batches = rng::below(&mut rng, 30);
            draw_batches(&mut *first, &mut chance, batches);
            let mut numbers = Vec::new();
            first.save(&mut numbers);
            let mut saved = Saved(&numbers);
            second.restore(&mut saved).expect("it saved that");
            assert!(saved.0.is_empty(), "{name}: all of it was read");
            let mut again = chance.clone();
            assert_eq!(
                draw_batches(&mut *first, &mut chance, 25),
                draw_batches(&mut *second, &mut again, 25),
                "{name}"
            );
            // Cut, and of other rows.
            for count in 0..numbers.len() {
                assert!(second.restore(&mut Saved(&numbers[..count])).is_none());
            }
            for (other, _, mut draw) in samplers(&others) {
                let rows = |sizes: &[usize]| sizes.iter().sum::<usize>();
                if other == name && rows(&others) != rows(&sizes) {
                    let mut saved = Saved(&numbers);
                    let taken = draw.restore(&mut saved).is_some() && saved.0.is_empty();
                    assert!(!taken, "{name}: {sizes:?} as {others:?}");
                }
            }
            // One number changed: refused, or a place that it may have; batches come in any case.
            let mut changed = numbers.clone();
            let at = rng::below(&mut rng, numbers.len());
            changed[at] = [u32::MAX, 0, changed[at] + 1][rng::below(&mut rng, 3)];
            let (_, _, mut third) = samplers(&sizes).swap_remove(place);
            if third.restore(&mut Saved(&changed)).is_some() {
                draw_batches(&mut *third, &mut again, 25);
            }
        }
    }
}
