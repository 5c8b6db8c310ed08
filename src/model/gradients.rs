//! [`Gradients`]: what the backward pass through a head writes.

use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::{DeviceVec, Workspace};
use crate::kernels::stored::Precision;
use crate::model::activations::Activations;
use crate::model::architecture::{Architecture, MAX_LAYERS};

/// Output of the backward pass.
#[derive(Debug)]
pub(crate) struct Gradients {
    /// Gradients of the parameters, laid out like them.
    pub(crate) parameters: DeviceVec<f32>,
    /// Sticky word: set if a gradient or an embedding is not finite, or half precision does not hold an activation.
    pub(crate) status: DeviceVec<u32>,
    /// Gradients of the hidden layers' outputs; the embeddings' own are kept elsewhere. Before the backward pass they take activations
    /// that are to be rounded.
    pub(super) between: Vec<DeviceVec<f32>>,
}

impl Gradients {
    const PARAMETERS: &str = "train.gradients";
    const STATUS: &str = "train.status";
    const BETWEEN: [&str; MAX_LAYERS - 1] = [
        "train.delta1",
        "train.delta2",
        "train.delta3",
        "train.delta4",
        "train.delta5",
        "train.delta6",
    ];

    pub(crate) fn plan(plan: MemoryPlan, architecture: &Architecture, rows: usize) -> MemoryPlan {
        let plan = plan
            .with::<f32>(
                Purpose::Gradients,
                Self::PARAMETERS,
                architecture.parameters(),
            )
            .with::<u32>(Purpose::Staging, Self::STATUS, 1);
        let precision = Precision::F32;
        Activations::plan(plan, &Self::BETWEEN, architecture.hidden(), rows, precision)
    }

    pub(crate) fn new(workspace: &mut Workspace, architecture: &Architecture) -> Self {
        let between = Self::BETWEEN.iter().zip(architecture.hidden());
        Self {
            parameters: workspace.take(Self::PARAMETERS),
            status: workspace.take(Self::STATUS),
            between: between.map(|(label, _)| workspace.take(label)).collect(),
        }
    }
}
