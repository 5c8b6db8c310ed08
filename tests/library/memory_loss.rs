//! The memory that lives in the engine against mining of its rows, and against its own plan.

use std::collections::VecDeque;

use crate::common::{engines, open, random_rows, rng};
use nearfar::{
    Asked, Distance, Engine, EngineKind, Error, Loss, MemoryLoss, MemoryLossSpec, Mined, Miner,
    NumberedRows, Rate, RowSource, TrainConfig, Wanted, mine_numbered,
};
use rand::RngExt as _;

const DIM: usize = 11;

/// Loss and miner by name, and what else they are asked with.
const RULES: [[&str; 3]; 8] = [
    ["triplet-margin", "triplet-margin", ""],
    ["triplet-margin", "none", "loss.swap=true"],
    ["triplet-margin", "multi-similarity", ""],
    ["triplet-margin", "distance-weighted", ""],
    ["nt-xent", "none", ""],
    ["contrastive", "pair-margin", ""],
    ["margin", "triplet-margin", ""],
    ["lifted-structure", "none", ""],
];

fn rule([loss, miner, more]: [&str; 3]) -> (Miner, Loss) {
    let sets = [
        format!("loss.name={loss}"),
        format!("miner.name={miner}"),
        more.to_owned(),
    ];
    let sets = sets.iter().filter(|set| !set.is_empty());
    let config = sets.fold(TrainConfig::default(), |config, set| {
        config.with_set(set).expect("is a setting")
    });
    (config.miner, config.loss)
}

fn source(values: &[f32]) -> RowSource {
    RowSource::Memory {
        values: values.to_vec(),
        dim: DIM,
    }
}

fn memory(engine: &Engine, slots: usize, batch: usize, rule: &(Miner, Loss)) -> MemoryLoss {
    let spec = MemoryLossSpec {
        memory_size: slots,
        dim: DIM,
        batch_size: batch,
    };
    let made = MemoryLoss::new(engine, spec, &rule.0, &rule.1, [Distance::Cosine; 2]);
    pollster::block_on(made).expect("fits")
}

/// Rows as they were given, by slot.
#[derive(Default)]
struct Slots {
    rows: Vec<f32>,
    labels: Vec<i64>,
    next: usize,
}

impl Slots {
    /// Stores rows one by one; returns their slots.
    fn store(&mut self, slots: usize, rows: &[f32], labels: &[i64]) -> Vec<u32> {
        let rows = rows.chunks_exact(DIM).zip(labels);
        rows.map(|(row, label)| {
            let slot = self.next;
            self.next = (slot + 1) % slots;
            if slot == self.labels.len() {
                self.labels.push(*label);
                self.rows.extend(row);
            } else {
                self.labels[slot] = *label;
                self.rows[slot * DIM..][..DIM].copy_from_slice(row);
            }
            slot as u32
        })
        .collect()
    }

    /// Mines a batch with these rows; `copies` are the slots of the batch.
    fn mine(
        &self,
        engine: &Engine,
        rows: &[f32],
        labels: &[i64],
        copies: Option<&[u32]>,
        (miner, loss): &(Miner, Loss),
    ) -> Mined {
        let numbers = |labels: &[i64]| labels.iter().map(|label| (*label + 5) as u32).collect();
        let (own, known): (Vec<u32>, Vec<u32>) = (numbers(labels), numbers(&self.labels));
        let (rows, references) = (source(rows), source(&self.rows));
        let side = |rows, labels| NumberedRows { rows, labels };
        let asked = Asked {
            copies,
            ..Asked::of(Distance::Cosine, Wanted::Gradient(loss))
        };
        let mined = mine_numbered(
            engine,
            side(&rows, &own),
            Some(side(&references, &known)),
            miner,
            &asked,
            |_| Ok(()),
            |_, _| {},
        );
        pollster::block_on(mined).expect("fits")
    }
}

/// Rows of any length with labels of a few classes, the first ones of which are gone after some steps.
fn batch(seed: u64, rows: usize) -> (Vec<f32>, Vec<i64>) {
    let mut rng = rng(seed);
    let values = random_rows(&mut rng, rows, DIM);
    let values = values.chunks_exact(DIM.next_multiple_of(4));
    let values = values.flat_map(|row| row[..DIM].iter().map(|value| value * 3.0));
    let first = seed as i64 / 3;
    let labels = (0..rows).map(|_| first + rng.random_range(-1..4)).collect();
    (values.collect(), labels)
}

#[test]
fn a_step_has_the_bits_of_mining_the_rows_that_are_stored() {
    for engine in engines() {
        for names in RULES {
            let rule = rule(names);
            // One block, and several: 600 rows are more than one takes. Two formulas will do there.
            for (slots, count) in [(37, 9), (37, 37), (700, 600)] {
                if slots == 700 && names != RULES[0] && names != RULES[4] {
                    continue;
                }
                let mut memory = memory(&engine, slots, count, &rule);
                let mut stored = Slots::default();
                for step in 0..if slots == 37 { 8 } else { 2 } {
                    let rows = count - step as usize % 3;
                    let (values, labels) = batch(step, rows);
                    let rows = source(&values);
                    let found = pollster::block_on(memory.step(&rows, &labels, true));
                    let found = found.expect("fits");
                    let copies = stored.store(slots, &values, &labels);
                    if names[1] == "distance-weighted" && step > 0 {
                        // Every step draws anew.
                        assert!(found.gradient.iter().any(|value| *value != 0.0));
                        continue;
                    }
                    let expected = stored.mine(&engine, &values, &labels, Some(&copies), &rule);
                    assert_eq!(found.mining, expected.mining, "{names:?} {slots} {step}");
                    assert_eq!(found.loss, expected.loss, "{names:?} {slots} {step}");
                    assert_eq!(
                        found.gradient, expected.gradient,
                        "{names:?} {slots} {step}"
                    );
                }
            }
        }
    }
}

#[test]
fn rows_that_are_not_stored_meet_all_that_are_and_may_be_of_other_classes() {
    for engine in engines() {
        let rule = rule(RULES[0]);
        let mut memory = memory(&engine, 50, 12, &rule);
        let (values, labels) = batch(1, 12);
        let alone = pollster::block_on(memory.loss(&source(&values), &labels, true)).expect("fits");
        assert_eq!(
            (alone.loss, alone.mining.valid, alone.mining.anchors),
            (0.0, 0, 12)
        );
        assert_eq!(alone.gradient, vec![0.0; 12 * DIM]);
        let mut stored = Slots::default();
        let (known, mut own) = batch(2, 45);
        pollster::block_on(memory.enqueue(&source(&known), &own)).expect("fits");
        stored.store(50, &known, &own);
        own = labels.clone();
        own[3] = 900;
        let found = pollster::block_on(memory.loss(&source(&values), &own, true)).expect("fits");
        let expected = stored.mine(&engine, &values, &own, None, &rule);
        assert_eq!(found, expected);
        assert_eq!(memory.len(), 45);
    }
}

#[test]
fn memories_of_one_class_are_mined_in_blocks_that_their_thresholds_fit() {
    for engine in engines() {
        let rule = rule(RULES[0]);
        let mut memory = memory(&engine, 900, 40, &rule);
        let mut stored = Slots::default();
        for step in 0..24 {
            let (values, mut labels) = batch(step, 40);
            labels.fill(7);
            labels[0] = 8;
            let found = pollster::block_on(memory.step(&source(&values), &labels, true));
            let copies = stored.store(900, &values, &labels);
            if step == 23 {
                let expected = stored.mine(&engine, &values, &labels, Some(&copies), &rule);
                assert_eq!(found.expect("fits"), expected);
            }
        }
    }
}

#[test]
fn a_memory_holds_what_was_planned_and_its_steps_nothing_more() {
    for engine in engines() {
        let rule = rule(RULES[0]);
        let before = engine.ledger().live_bytes();
        let spec = MemoryLossSpec {
            memory_size: 300,
            dim: DIM,
            batch_size: 16,
        };
        let plan = spec.plan(&rule.0, &rule.1, &engine.room(), &Rate::default());
        let planned = plan.expect("fits").memory.total_bytes();
        let mut memory = memory(&engine, 300, 16, &rule);
        engine.ledger().restart_peak();
        for step in 0..40 {
            let (values, labels) = batch(step, 16);
            pollster::block_on(memory.step(&source(&values), &labels, true)).expect("fits");
        }
        assert_eq!(engine.ledger().live_bytes() - before, planned);
        assert_eq!(engine.ledger().peak_bytes() - before, planned);
        drop(memory);
        pollster::block_on(engine.settle()).expect("settles");
        assert_eq!(engine.ledger().live_bytes(), before);
    }
}

#[test]
fn a_state_goes_on_to_the_same_bits() {
    for engine in engines() {
        for names in [RULES[0], RULES[3]] {
            let rule = rule(names);
            let mut first = memory(&engine, 41, 8, &rule);
            let step = |memory: &mut MemoryLoss, step| {
                let (values, labels) = batch(step, 8);
                pollster::block_on(memory.step(&source(&values), &labels, true)).expect("fits")
            };
            for number in 0..9 {
                step(&mut first, number);
            }
            let state = pollster::block_on(first.state()).expect("reads");
            assert_eq!((state.labels.len(), state.next, state.steps), (41, 31, 9));
            let mut second = memory(&engine, 41, 8, &rule);
            step(&mut second, 77);
            pollster::block_on(second.restore(state.clone())).expect("is one");
            assert_eq!(pollster::block_on(second.state()).expect("reads"), state);
            for number in 9..14 {
                assert_eq!(step(&mut first, number), step(&mut second, number));
            }
            let mut damaged = state;
            damaged.rows[5] += 0.5;
            let refused = pollster::block_on(second.restore(damaged));
            assert!(matches!(refused, Err(Error::Data(_))), "{refused:?}");
        }
    }
}

#[test]
fn a_batch_that_cannot_be_used_changes_nothing() {
    let engine = open(EngineKind::Cpu, 64 << 20);
    let rule = rule(RULES[4]);
    let mut memory = memory(&engine, 20, 8, &rule);
    let (values, labels) = batch(0, 8);
    pollster::block_on(memory.step(&source(&values), &labels, true)).expect("fits");
    let state = pollster::block_on(memory.state()).expect("reads");
    let mut broken = values.clone();
    broken[DIM + 2] = f32::NAN;
    let (more, of_more) = batch(0, 9);
    let tries = [
        (&broken, &labels[..], "row 1, column 2: NaN is not finite"),
        (
            &more,
            &of_more[..],
            "9 rows, and the memory has 8 rows a batch",
        ),
        (&values, &labels[1..], "7 labels for 8 rows"),
    ];
    for (values, labels, words) in tries {
        let refused = pollster::block_on(memory.step(&source(values), labels, true));
        let said = refused.expect_err("refused").to_string();
        assert!(said.contains(words), "{said}");
        assert_eq!(pollster::block_on(memory.state()).expect("reads"), state);
    }
    // More than fits at once is stored in pieces, and checked before.
    let (many, of_many) = batch(0, 21);
    let refused = pollster::block_on(memory.enqueue(&source(&many), &of_many));
    assert!(
        refused
            .expect_err("refused")
            .to_string()
            .contains("20 slots")
    );
    let (miner, loss) = rule_of_proxies();
    let spec = *memory.spec();
    let refused = spec.plan(&miner, &loss, &engine.room(), &Rate::default());
    assert!(
        refused
            .expect_err("refused")
            .to_string()
            .contains("proxies")
    );
    let small = open(EngineKind::Cpu, 1000);
    let refused = MemoryLoss::new(&small, spec, &rule.0, &rule.1, [Distance::Cosine; 2]);
    let refused = pollster::block_on(refused).map(drop);
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
}

fn rule_of_proxies() -> (Miner, Loss) {
    rule(["arc-face", "none", ""])
}

#[test]
fn other_margins_are_taken_at_once_and_other_buffers_are_not() {
    let engine = open(EngineKind::Cpu, 64 << 20);
    let before = rule(RULES[0]);
    let mut memory = memory(&engine, 30, 8, &before);
    let mut stored = Slots::default();
    let config = TrainConfig::default()
        .with_set("loss.margin=0.4")
        .expect("is a setting");
    let wider = (before.0.clone(), config.loss);
    let distances = [Distance::Cosine; 2];
    let all = rule(RULES[4]);
    assert!(!memory.set(&all.0, &all.1, distances).expect("is a rule"));
    assert!(
        memory
            .set(&wider.0, &wider.1, distances)
            .expect("is a rule")
    );
    let (values, labels) = batch(3, 8);
    let found = pollster::block_on(memory.step(&source(&values), &labels, true)).expect("fits");
    let copies = stored.store(30, &values, &labels);
    let expected = stored.mine(&engine, &values, &labels, Some(&copies), &wider);
    assert_eq!(found, expected);
}

/// Kept rows of a queue, beside which the slots of [`Slots`] are not taken on trust.
#[test]
fn the_oldest_rows_make_room() {
    let engine = open(EngineKind::Cpu, 64 << 20);
    let mut memory = memory(&engine, 10, 4, &rule(RULES[0]));
    let mut queue = VecDeque::new();
    for step in 0..7 {
        let (values, labels) = batch(step, 4);
        pollster::block_on(memory.step(&source(&values), &labels, false)).expect("fits");
        queue.extend(labels);
        while queue.len() > 10 {
            queue.pop_front();
        }
        let state = pollster::block_on(memory.state()).expect("reads");
        let from_oldest = state
            .labels
            .iter()
            .cycle()
            .skip(state.next % state.labels.len());
        assert!(from_oldest.take(queue.len()).eq(&queue), "{step}");
    }
}
