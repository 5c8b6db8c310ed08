//! [`Activations`]: buffers of a head's layers, of a batch in training or of a [`Tile`] of rows in any other pass.

use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::cpu::Norm;
use crate::engine::{DeviceVec, Workspace};
use crate::kernels::norm::NormLayer;
use crate::kernels::stored::{Precision, StoredRows};
use crate::kernels::stride;
use crate::model::architecture::{Architecture, MAX_LAYERS};

/// Outputs of the hidden layers of a batch.
pub(crate) const HIDDEN: [&str; MAX_LAYERS - 1] = [
    "train.layer1",
    "train.layer2",
    "train.layer3",
    "train.layer4",
    "train.layer5",
    "train.layer6",
];

/// Their linear outputs, if those are kept.
pub(crate) const LINEAR: [&str; MAX_LAYERS - 1] = [
    "train.linear1",
    "train.linear2",
    "train.linear3",
    "train.linear4",
    "train.linear5",
    "train.linear6",
];

/// Means and variances of their norms, if they have norms.
const MOMENTS: [&str; MAX_LAYERS - 1] = [
    "train.moments1",
    "train.moments2",
    "train.moments3",
    "train.moments4",
    "train.moments5",
    "train.moments6",
];

/// Output of every layer, `[rows, stride(width)]`; training keeps those of the hidden layers for the backward pass, in half precision
/// if asked for.
#[derive(Debug)]
pub(crate) struct Activations {
    pub(super) outputs: Vec<StoredRows>,
    /// Linear outputs of the hidden layers, if those are kept: each layer's own in training, else one buffer for all.
    pub(super) linear: Vec<StoredRows>,
    /// Means and variances of their norms, likewise; none of batch norm that goes by running ones.
    pub(super) moments: Vec<DeviceVec<f32>>,
}

/// Buffers of a forward pass without a backward pass.
#[derive(Debug)]
pub(crate) struct Tile {
    pub(super) input: DeviceVec<f32>,
    pub(super) outputs: Activations,
}

impl Activations {
    /// Adds matrices of `rows` rows and these widths to a plan; `labels` name the phase.
    pub(crate) fn plan(
        mut plan: MemoryPlan,
        labels: &[&'static str],
        widths: &[usize],
        rows: usize,
        precision: Precision,
    ) -> MemoryPlan {
        for (label, width) in labels.iter().zip(widths) {
            let floats = rows as u64 * stride(*width) as u64;
            plan = match precision {
                Precision::F32 => plan.with::<f32>(Purpose::Activations, label, floats),
                Precision::F16 => plan.with::<u32>(Purpose::Activations, label, floats / 2),
            };
        }
        plan
    }

    fn new(
        workspace: &mut Workspace,
        labels: &[&'static str],
        widths: &[usize],
        precision: Precision,
    ) -> Self {
        let take =
            |(label, _): (&&'static str, &usize)| StoredRows::take(workspace, precision, label);
        Self {
            outputs: labels.iter().zip(widths).map(take).collect(),
            linear: Vec::new(),
            moments: Vec::new(),
        }
    }

    /// Adds the outputs of the hidden layers for `rows` rows of a batch, and what else of them the backward pass needs.
    pub(crate) fn plan_hidden(
        plan: MemoryPlan,
        architecture: &Architecture,
        rows: usize,
        precision: Precision,
    ) -> MemoryPlan {
        let hidden = architecture.hidden();
        let plan = Self::plan(plan, &HIDDEN, hidden, rows, precision);
        let mut plan = match architecture.keeps_linear() {
            true => Self::plan(plan, &LINEAR, hidden, rows, precision),
            false => plan,
        };
        for (label, norm) in MOMENTS.iter().zip(architecture.norms()) {
            plan = plan.with::<f32>(Purpose::Activations, label, norm.moments(rows as u64));
        }
        plan
    }

    /// Takes the buffers of [`Activations::plan_hidden`].
    pub(crate) fn of_hidden(
        workspace: &mut Workspace,
        architecture: &Architecture,
        precision: Precision,
    ) -> Self {
        let hidden = architecture.hidden();
        let linear = match architecture.keeps_linear() {
            true => hidden,
            false => &[],
        };
        let moments = MOMENTS.iter().zip(architecture.norms());
        Self {
            linear: Self::new(workspace, &LINEAR, linear, precision).outputs,
            moments: moments.map(|(label, _)| workspace.take(label)).collect(),
            ..Self::new(workspace, &HIDDEN, hidden, precision)
        }
    }
}

impl Tile {
    /// Linear outputs of a hidden layer, one after the other.
    const LINEAR: &str = "tile.linear";
    /// Means and variances of its rows.
    const MOMENTS: &str = "tile.moments";

    /// Adds a tile of `rows` rows to a plan: the input, then every layer's output; `labels` name them.
    pub(crate) fn plan(
        plan: MemoryPlan,
        labels: &[&'static str],
        architecture: &Architecture,
        rows: usize,
    ) -> MemoryPlan {
        let floats = Precision::F32;
        let plan = Activations::plan(plan, labels, &architecture.widths, rows, floats);
        let widest = architecture.hidden().iter().max();
        let plan = match widest.filter(|_| architecture.keeps_linear()) {
            Some(width) => Activations::plan(plan, &[Self::LINEAR], &[*width], rows, floats),
            None => plan,
        };
        match Self::norm(architecture) {
            Some(norm) => {
                let floats = norm.moments(rows as u64);
                plan.with::<f32>(Purpose::Activations, Self::MOMENTS, floats)
            }
            None => plan,
        }
    }

    /// A norm that goes over rows, if there is one.
    fn norm(architecture: &Architecture) -> Option<NormLayer> {
        let first = architecture.norms().into_iter().next();
        first.filter(|norm| norm.norm == Norm::LayerNorm)
    }

    /// Takes a tile from a workspace whose plan has [`Tile::plan`] of the same labels.
    pub(crate) fn new(
        workspace: &mut Workspace,
        labels: &[&'static str],
        architecture: &Architecture,
    ) -> Self {
        let linear = architecture
            .keeps_linear()
            .then(|| StoredRows::F32(workspace.take(Self::LINEAR)));
        Self {
            input: workspace.take(labels[0]),
            outputs: Activations {
                linear: linear.into_iter().collect(),
                moments: Self::norm(architecture)
                    .map(|_| workspace.take(Self::MOMENTS))
                    .into_iter()
                    .collect(),
                ..Activations::new(
                    workspace,
                    &labels[1..],
                    &architecture.widths[1..],
                    Precision::F32,
                )
            },
        }
    }

    /// Input rows of the model.
    pub(crate) fn input_mut(&mut self) -> &mut DeviceVec<f32> {
        &mut self.input
    }

    /// Output rows of the model.
    pub(crate) fn output(&self) -> &DeviceVec<f32> {
        let last = self.outputs.outputs.last();
        last.expect("a model has an output").read().floats()
    }
}
