//! The work of a step and of a search at a shape of the data, as the wrappers record it.

use nearfar::kernels::draw::{self, Drawing, Draws};
use nearfar::kernels::gemm::{self, Input, Layer, OutputGradient};
use nearfar::kernels::norm::{Norm, NormLayer};
use nearfar::kernels::normalize::{self, Bank, Slots};
use nearfar::kernels::ranks::{self, Block, Inputs, LabelBits, NO_ID};
use nearfar::kernels::row_loss::{self, Centers, ExtraInput, Form, Multiplicity, RowCost};
use nearfar::kernels::select::{self, Counted, Keep, Kept, Selection, Side};
use nearfar::kernels::stored::{Precision, Stored, StoredRows};
use nearfar::kernels::tile::Shape;
use nearfar::kernels::triplet_loss::{self, Weighing};
use nearfar::kernels::triplet_margin::{self, Kind, Rule};
use nearfar::kernels::triplets::{self, Band, Batch, CELL};
use nearfar::kernels::{
    cast, drift, dropout, embed, gather, gelu, knn, norm, optimizer, pair_counts, pair_gradient,
    peaks, row_weights, similarities, truncate,
};
use nearfar::{Activation, Commands, DeviceVec, Distance, Engine};

use super::super::common::output;
use super::{Data, MOST_STEPS, STRIDE};

fn buffer<T: bytemuck::Pod>(engine: &Engine) -> DeviceVec<T> {
    output(engine, 64)
}

const RULE: Rule = Rule {
    distance: Distance::L2,
    kind: Kind::All,
    miner_margin: 0.2,
    loss_margin: 0.1,
};

/// The work of a step and of a search, as wrappers cut it for this shape of the data.
pub(super) struct Work<'a> {
    pub(super) engine: &'a Engine,
    pub(super) data: Data,
    pub(super) commands: Commands,
}

impl Work<'_> {
    fn buffer<T: bytemuck::Pod>(&self) -> DeviceVec<T> {
        buffer(self.engine)
    }

    fn stored(&self, precision: Precision) -> StoredRows {
        match precision {
            Precision::F32 => StoredRows::F32(self.buffer()),
            Precision::F16 => StoredRows::F16(self.buffer()),
        }
    }

    fn kept(&self) -> Kept {
        Kept {
            values: self.buffer(),
            places: self.buffer(),
            counts: self.buffer(),
            weights: self.buffer(),
        }
    }

    /// The head of 128-256-128, forth and back, its optimizer and its memory.
    pub(super) fn head(&mut self) {
        let rows = self.data.rows;
        let (x, chosen, parameters) = (self.buffer(), self.buffer(), self.buffer());
        let halves = self.buffer();
        let (mut y, mut gradients, mut status) = (self.buffer(), self.buffer(), self.buffer());
        let (mut dx, batch, mut norms) = (self.buffer(), self.buffer(), self.buffer());
        let mut bank = Bank {
            rows: self.stored(Precision::F32),
            tags: self.buffer(),
        };
        let mut bank_of_f16 = Bank {
            rows: self.stored(Precision::F16),
            tags: self.buffer(),
        };
        let slots = Slots {
            cursor: 0,
            capacity: self.data.references,
            first_id: 0,
        };
        let (mut report, mut mean) = (self.buffer(), self.buffer());
        let hidden = Layer {
            inputs: STRIDE,
            outputs: 256,
            weights: 0,
            relu: true,
            of_relu: true,
            adds: false,
        };
        let last = Layer {
            inputs: 256,
            outputs: STRIDE,
            relu: false,
            ..hidden
        };
        let commands = &mut self.commands;
        for known in [Stored::F32(&x), Stored::F16(&halves)] {
            gather::gather(commands, known, &chosen, 0, rows, STRIDE, &mut y);
        }
        gather::scatter(commands, &x, &chosen, rows, STRIDE, &mut y);
        let sizes = truncate::Truncation {
            rows,
            whole: STRIDE,
            dim: STRIDE / 2,
        };
        truncate::truncate(commands, &sizes, &x, &mut y, &mut norms);
        for (known, truncated) in [
            (Stored::F32(&x), &mut bank.rows),
            (Stored::F16(&halves), &mut bank_of_f16.rows),
        ] {
            truncate::truncate_stored(commands, &sizes, known, truncated, &mut norms);
        }
        truncate::widen(commands, &sizes, &x, 0.5, true, &mut y);
        dropout::drop(
            commands,
            &dropout::Dropout {
                rate: 0.5,
                key: [0; 2],
            },
            0..rows,
            256,
            &mut y,
        );
        for x in [Stored::F32(&x), Stored::F16(&halves)] {
            gelu::forward(commands, rows * 256, x, &mut y);
            gelu::backward(commands, rows * 256, x, &mut y);
            for norm in [Norm::LayerNorm, Norm::BatchNorm] {
                let norm = NormLayer {
                    norm,
                    width: 256,
                    stride: 256,
                    gain: 0,
                    running: 0,
                    activation: Activation::Gelu,
                };
                let (moments, g) = (Some(&mut mean), &mut gradients);
                norm::forward(commands, &norm, rows, x, &parameters, moments, &mut y);
                norm::forward(commands, &norm, rows, x, &parameters, None, &mut y);
                let (p, s, y) = (&parameters, &mut status, &mut y);
                norm::backward(commands, &norm, rows, false, x, p, &norms, y, g, s);
                norm::follow(commands, &norm, rows, &norms, s, &mut mean);
            }
        }
        let mut cast_to = self.buffer();
        let commands = &mut self.commands;
        cast::cast(commands, rows * 256, &x, &mut cast_to, &mut status);
        for shape in Shape::ALL {
            let input = Input {
                values: (&x).into(),
                chosen: Some((&chosen, 0)),
            };
            let (dy, s) = (&mut gradients, &mut status);
            let whole = || OutputGradient::from(&parameters);
            gemm::weight_gradient(commands, &hidden, shape, rows, input, whole(), false, dy, s);
            for x in [Stored::F32(&x), Stored::F16(&halves)] {
                let (p, input) = (&parameters, Input { values: x, ..input });
                gemm::forward(commands, &hidden, shape, rows, input, p, &mut y);
                let (w, dx) = (whole(), &mut dx);
                gemm::backward(commands, &last, shape, rows, x, w, p, false, dy, s, dx);
                embed::embed_and_store(
                    commands,
                    &last,
                    shape,
                    0..rows,
                    x,
                    p,
                    &batch,
                    0,
                    slots,
                    &mut y,
                    &mut norms,
                    &mut bank,
                    s,
                );
            }
        }
        normalize::normalize(commands, rows, STRIDE, &x, 0, &mut y);
        normalize::in_place(commands, rows, STRIDE, 0, &mut y);
        normalize::measure(commands, rows, STRIDE, &x, &mut y, &mut norms, &mut status);
        for bank in [&mut bank, &mut bank_of_f16] {
            normalize::store(
                commands,
                0..rows,
                STRIDE,
                &batch,
                0,
                slots,
                &mut y,
                &mut norms,
                bank,
                &mut status,
            );
        }
        normalize::backward(
            commands,
            rows,
            STRIDE,
            &x,
            &norms,
            &mut y,
            1.0,
            None,
            Some(&mean),
            0,
            &mut report,
        );
        let mut moved = drift::Drift {
            state: buffer(self.engine),
            sums: buffer(self.engine),
        };
        for rows in [rows, 2 * MOST_STEPS as usize] {
            drift::measure(commands, rows, STRIDE, &x, &mut moved);
        }
        let count = 2 * 128 * 256;
        let step: optimizer::OptimizerStep = bytemuck::Zeroable::zeroed();
        let moments = || buffer(self.engine);
        let all = [
            optimizer::Moments::None,
            optimizer::Moments::First(moments()),
            optimizer::Moments::Both([moments(), moments()]),
        ];
        optimizer::squares(commands, count, &x, &mut mean);
        let status = &status;
        let mut sums = buffer(self.engine);
        optimizer::segments(commands, count, &x, 1, &mut sums);
        optimizer::clip(commands, 1.0, count.div_ceil(256), &mut sums);
        for mut moments in all {
            optimizer::update(
                commands,
                &step,
                count,
                &x,
                &mut y,
                &mut moments,
                Some(&sums),
                status,
                0,
                &mut report,
            );
        }
        peaks::multiply_add(commands, count, 1.0, &mut y);
        peaks::fill(commands, count, 1.0, &mut y);
        peaks::copy(commands, count, &x, &mut y);
    }

    /// Triplets without a list of them, and ranks.
    pub(super) fn triplets(&mut self, precision: Precision) {
        let Data {
            rows,
            references,
            positives,
        } = self.data;
        let block = self.data.block();
        let (anchors, known) = (self.buffer(), self.stored(precision));
        let (batch, tags) = (self.buffer(), self.buffer());
        let inputs = Inputs {
            anchors: &anchors,
            references: known.read(),
            batch: &batch,
            tags: &tags,
        };
        let mut scratch = ranks::Scratch {
            thresholds: self.buffer(),
            gap_counts: self.buffer(),
        };
        let (mut parts, mut gradient) = (self.buffer(), self.buffer());
        let mut report = self.buffer();
        let commands = &mut self.commands;
        // Of few pairs a workgroup does all of a row.
        let many = Block {
            rows: rows.max((1 << 18) / references),
            ..block
        };
        for block in [block, many] {
            triplet_margin::mine(
                commands,
                &block,
                positives,
                &RULE,
                references,
                inputs,
                &mut scratch,
                &mut parts,
                &mut gradient,
                0,
                Some(0),
                &mut report,
            );
        }
        if references == rows && precision == Precision::F32 {
            triplet_margin::share_with_references(
                commands,
                &block,
                &RULE,
                inputs,
                &scratch,
                &mut parts,
                &mut gradient,
            );
        }
        ranks::clear(commands, &block, inputs, &mut scratch);
        ranks::find(
            commands,
            &block,
            0..NO_ID,
            LabelBits::CLASSES,
            inputs,
            &mut scratch,
        );
        // Runs that are sorted again, too.
        for most in [positives, 64, 1024, 4096] {
            ranks::order(commands, &block, most, inputs, &mut scratch);
        }
        for shape in Shape::ALL {
            ranks::gaps(commands, &block, shape, inputs, &mut scratch);
        }
        ranks::pack(commands, rows * (positives + 1), &mut scratch);
    }

    /// Losses over similarities that are there at once.
    pub(super) fn losses(&mut self, precision: Precision) {
        let block = self.data.block();
        let (anchors, known) = (self.buffer(), self.stored(precision));
        let (batch, tags) = (self.buffer(), self.buffer());
        let inputs = Inputs {
            anchors: &anchors,
            references: known.read(),
            batch: &batch,
            tags: &tags,
        };
        let mut kept = self.kept();
        let (mut report, mut gradient) = (self.buffer(), self.buffer());
        let commands = &mut self.commands;
        for shape in Shape::ALL {
            let distance = Distance::L2;
            similarities::similarities(
                commands,
                &block,
                shape,
                distance,
                &anchors,
                known.read(),
                &mut kept.values,
            );
        }
        pair_counts::count_pairs(
            commands,
            &block,
            Distance::L2,
            inputs,
            &kept.values,
            0,
            &mut report,
        );
        let of = |positives, negatives| Selection {
            positives: Side {
                keep: positives,
                ..Side::ALL
            },
            negatives: Side {
                keep: negatives,
                ..Side::ALL
            },
            ..Selection::all(Distance::L2)
        };
        for selection in [
            of(Keep::All, Keep::All),
            of(Keep::Hard, Keep::Semihard),
            of(Keep::Close, Keep::Close),
        ] {
            let counted = Counted::Triplets;
            select::select(
                commands,
                &block,
                &selection,
                inputs,
                &mut kept,
                counted,
                0,
                &mut report,
            );
        }
        pair_gradient::anchor_gradient(
            commands,
            &block,
            false,
            known.read(),
            &kept.weights,
            &mut gradient,
        );
        pair_gradient::reference_gradient(
            commands,
            &block,
            false,
            &anchors,
            &kept.weights,
            &mut gradient,
        );
    }

    pub(super) fn triplet_losses(&mut self) {
        let block = self.data.block();
        let (anchors, known) = (self.buffer(), self.buffer());
        let (batch, tags) = (self.buffer(), self.buffer());
        let inputs = Inputs {
            anchors: &anchors,
            references: (&known).into(),
            batch: &batch,
            tags: &tags,
        };
        let mut kept = self.kept();
        let (mut terms, mut report) = (self.buffer(), self.buffer());
        let (mut times, mut list) = (self.buffer(), self.buffer());
        let places = self.data.positives + 2;
        let commands = &mut self.commands;
        let plain = Weighing {
            rule: RULE,
            swap: false,
            one_negative: false,
            smooth: false,
        };
        let one_negative = Weighing {
            one_negative: true,
            ..plain
        };
        for weighing in [plain, one_negative] {
            triplet_loss::triplet_loss(
                commands,
                &block,
                &weighing,
                (&known).into(),
                &mut kept,
                &mut terms,
                0,
                &mut report,
            );
        }
        triplet_loss::count(commands, &block, &mut kept, &mut times);
        triplet_loss::drawn_loss(
            commands,
            &block,
            &plain,
            places,
            &list,
            &mut kept,
            &mut terms,
            0,
            &mut report,
        );
        let draws = Draws {
            drawing: Drawing {
                cutoff: 0.5,
                nonzero_loss_cutoff: 1.4,
                seed: 0,
            },
            distance: Distance::L2,
            dim: STRIDE,
            key: [0; 2],
            anchor: 0,
            places,
        };
        draw::draw(commands, &block, &draws, inputs, &mut kept, &mut list);
        draw::count(commands, &block, &draws, &list, &mut times);
    }

    /// A submit has no room for these beside the other losses.
    pub(super) fn swaps(&mut self, precision: Precision) {
        let block = self.data.block();
        let (anchors, known) = (self.buffer(), self.stored(precision));
        let (batch, tags) = (self.buffer(), self.buffer());
        let inputs = Inputs {
            anchors: &anchors,
            references: known.read(),
            batch: &batch,
            tags: &tags,
        };
        let mut kept = self.kept();
        let (mut terms, mut report) = (self.buffer(), self.buffer());
        let commands = &mut self.commands;
        let swaps = Weighing {
            rule: RULE,
            swap: true,
            one_negative: false,
            smooth: false,
        };
        triplet_loss::triplet_loss(
            commands,
            &block,
            &swaps,
            known.read(),
            &mut kept,
            &mut terms,
            0,
            &mut report,
        );
        if precision == Precision::F32 {
            triplet_loss::swapped_loss(commands, &block, &swaps, 0, 64, inputs, &mut kept);
        }
    }

    pub(super) fn row_losses(&mut self) {
        let block = self.data.block();
        let own = self.data.references == self.data.rows;
        let mut kept = self.kept();
        let (mut times, batch, given) = (self.buffer(), self.buffer(), self.buffer());
        let (mut reduced, mut report) = (self.buffer(), self.buffer());
        let (mut found, mut weights) = (self.buffer(), self.buffer());
        let commands = &mut self.commands;
        let cost = |form, per_class| RowCost {
            distance: Distance::L2,
            form,
            scales: [1.0; 2],
            margins: [0.5; 2],
            times: Multiplicity::Mined,
            mined: RULE,
            centers: Centers {
                per_class,
                gamma: 1.0,
            },
            given: ExtraInput::Nothing,
        };
        for form in [
            Form::Contrastive,
            Form::NtXent,
            Form::SupCon,
            Form::ArcFace,
            Form::Lifted,
        ] {
            let cost = cost(form, 1);
            row_loss::count(commands, &block, &cost, &kept, &mut times);
            row_loss::reduce(
                commands,
                &block,
                &cost,
                &kept,
                Some(&times),
                Some(&given),
                0,
                &mut reduced,
                0,
                &mut report,
            );
            if form == Form::Lifted {
                row_loss::settle(
                    commands,
                    &block,
                    &cost,
                    own,
                    &kept,
                    Some(&times),
                    None,
                    &batch,
                    0,
                    &mut reduced,
                    0,
                    &mut report,
                );
            }
            row_loss::slopes(
                commands,
                &block,
                &cost,
                64,
                own,
                &mut kept,
                Some(&times),
                None,
                0,
                &reduced,
                0,
                &mut report,
            );
        }
        row_loss::pool(commands, &block, &cost(Form::Softmax, 10), &mut kept);
        row_loss::learn(commands, 1.0, 1.0, false, 0, &mut report, &mut reduced);
        row_weights::find(commands, &block, own, &kept, Some(&times), 0, &mut found);
        row_weights::scale(commands, block.rows, &found, &mut weights);
    }

    /// Lists of triplets, and neighbours.
    pub(super) fn lists(&mut self) {
        let Data {
            rows, references, ..
        } = self.data;
        let (of_rows, members, labels) = (self.buffer(), self.buffer(), self.buffer());
        let similarities = self.buffer();
        let inputs = triplets::Inputs {
            rows: &of_rows,
            members: &members,
            labels: &labels,
            similarities: &similarities,
        };
        let (mut counts, mut listed, mut total) = (self.buffer(), self.buffer(), self.buffer());
        let batch = Batch {
            rows,
            references,
            first_pair: 0,
            band: Band::of(Kind::All, 0.2),
        };
        let cells = 0..8 * references.div_ceil(CELL);
        let (queries, known, asked) = (self.buffer(), self.buffer(), self.buffer());
        let mut scratch = knn::Scratch {
            kept: self.buffer(),
            survivors: self.buffer(),
            counts: self.buffer(),
        };
        let commands = &mut self.commands;
        triplets::count(commands, &batch, cells.clone(), inputs, &mut counts);
        triplets::write(
            commands,
            &batch,
            cells,
            0..1000,
            inputs,
            &counts,
            &mut listed,
        );
        triplets::facenet(
            commands,
            rows,
            references,
            0..8,
            0,
            inputs,
            &counts,
            &mut listed,
        );
        triplets::valid(
            commands,
            references,
            [0; 2],
            0..1000,
            rows,
            &of_rows,
            &members,
            &mut listed,
        );
        triplets::checksum(commands, 0, 1000, &listed, &mut total);
        let inputs = knn::Inputs {
            queries: &queries,
            references: &known,
            asked: &asked,
        };
        for (rows, k, shape) in [
            (rows, 10, Shape::Tile),
            (rows, 512, Shape::Tile),
            (rows, 10, Shape::Quads),
            (rows, 512, Shape::Strip),
            (knn::FEW_QUERIES, 32, Shape::Tile),
        ] {
            let search = knn::Search {
                first_row: 0,
                rows,
                references,
                first_id: 0,
                stride: STRIDE,
                k,
            };
            knn::clear(commands, &search, inputs, &mut scratch);
            knn::search(commands, &search, 0..1, shape, inputs, &mut scratch);
        }
    }
}
