//! [`Proxies`]: rows that a loss learns with the head, some for each class of the training rows.
//!
//! They live on the engine beside the head, both as parameters and normalized to unit length for each step.

use rand::RngExt as _;

use crate::base::error::{Error, Result};
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::base::rng;
use crate::engine::checkpoint::{ArrayReader, ArrayWriter};
use crate::engine::pace::Slices;
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::normalize;
use crate::kernels::optimizer::{self, Moments};
use crate::kernels::ranks::{NO_ID, Row};
use crate::kernels::stride;
use crate::model::optimizer::{Labels, Rule};
use crate::rules::losses::{ProxyStart, ProxyTerms};

/// The most proxies of a loss.
pub(crate) const MOST_PROXIES: usize = 1 << 17;

const PARAMETERS: &str = "proxies.parameters";
const GRADIENT: &str = "proxies.gradient";
const UNIT: &str = "proxies.unit";
const NORMS: &str = "proxies.norms";
const ROWS: &str = "proxies.rows";
const TAGS: &str = "proxies.tags";
const LABELS: Labels = Labels([PARAMETERS, "proxies.first_moment", "proxies.second_moment"]);

/// Classes, number and size of a run's proxies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProxySpec {
    pub(crate) terms: ProxyTerms,
    /// Classes that have proxies, ascending.
    pub(crate) classes: Vec<u32>,
    /// Dimensions of a proxy.
    pub(crate) dim: usize,
}

/// The proxies of a run and their optimizer's state, all `[count, stride]` or `[count]`.
#[derive(Debug)]
pub(crate) struct Proxies {
    spec: ProxySpec,
    parameters: DeviceVec<f32>,
    moments: Moments,
    norms: DeviceVec<f32>,
    /// `dL/d(unit proxy)`, and after [`Proxies::backward`] `dL/d(proxy)`.
    pub(crate) gradient: DeviceVec<f32>,
    /// Each proxy at unit length, by [`Proxies::prepare`].
    pub(crate) unit: DeviceVec<f32>,
    /// Each proxy as an anchor.
    pub(crate) rows: DeviceVec<Row>,
    /// `[label, NO_ID]` of each proxy as a reference.
    pub(crate) tags: DeviceVec<[u32; 2]>,
}

impl ProxySpec {
    /// Number of proxies.
    pub(crate) fn count(&self) -> usize {
        self.classes.len() * self.terms.per_class
    }

    /// Floats of all proxies, padded.
    pub(crate) fn floats(&self) -> u64 {
        self.count() as u64 * stride(self.dim) as u64
    }

    /// Checks the number of proxies.
    ///
    /// # Errors
    /// [`Error::Config`], with the numbers.
    pub(crate) fn check(&self) -> Result<()> {
        if self.count() <= MOST_PROXIES {
            return Ok(());
        }
        Err(Error::Config(format!(
            "loss.name: {} proxies for each of {} classes are {}, and a loss has {MOST_PROXIES} at most: use fewer for each class, or a \
             loss without proxies",
            self.terms.per_class,
            self.classes.len(),
            self.count()
        )))
    }

    /// Adds the buffers to a plan, with `moments` values of the optimizer for each number.
    pub(crate) fn plan(&self, plan: MemoryPlan, moments: usize) -> MemoryPlan {
        let (count, floats) = (self.count() as u64, self.floats());
        let plan = plan
            .with::<f32>(Purpose::Weights, PARAMETERS, floats)
            .with::<f32>(Purpose::Weights, UNIT, floats)
            .with::<f32>(Purpose::Gradients, GRADIENT, floats);
        LABELS
            .plan(plan, floats, moments)
            .with::<f32>(Purpose::Activations, NORMS, count)
            .with::<Row>(Purpose::Ranks, ROWS, count)
            .with::<[u32; 2]>(Purpose::Weights, TAGS, count)
    }

    /// Label of each proxy, class by class.
    fn labels(&self) -> impl Iterator<Item = u32> {
        let each = self.terms.per_class;
        self.classes
            .iter()
            .flat_map(move |label| std::iter::repeat_n(*label, each))
    }

    /// Random initial proxies, `[count, dim]`, from the distribution that PML starts with.
    fn initial(&self, seed: u64) -> Vec<f32> {
        let mut rng = rng::stream(seed, "proxies");
        let count = self.count() as f64;
        let draw = |_| match self.terms.start {
            ProxyStart::Normal => rng::normal(&mut rng),
            ProxyStart::KaimingNormal => (2.0 / count).sqrt() * rng::normal(&mut rng),
            ProxyStart::KaimingUniform => rng.random_range(-1.0..1.0) / count.sqrt(),
        };
        let numbers = (0..self.count() * self.dim).map(draw);
        numbers.map(|number| number as f32).collect()
    }
}

impl Proxies {
    /// Takes the buffers from the workspace, with `moments` values of the optimizer for each number, and starts the proxies.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub(crate) async fn new(
        engine: &Engine,
        workspace: &mut Workspace,
        spec: &ProxySpec,
        seed: u64,
        moments: usize,
    ) -> Result<Self> {
        let mut proxies = Self {
            spec: spec.clone(),
            parameters: workspace.take(PARAMETERS),
            moments: LABELS.moments(workspace, moments),
            norms: workspace.take(NORMS),
            gradient: workspace.take(GRADIENT),
            unit: workspace.take(UNIT),
            rows: workspace.take(ROWS),
            tags: workspace.take(TAGS),
        };
        let row = |label| Row {
            label,
            id: NO_ID,
            offset: 0,
            positives: 0,
        };
        let rows: Vec<Row> = spec.labels().map(row).collect();
        let tags: Vec<[u32; 2]> = spec.labels().map(|label| [label, NO_ID]).collect();
        engine.upload(&mut proxies.rows, 0, &rows).await?;
        engine.upload(&mut proxies.tags, 0, &tags).await?;
        proxies.set(engine, &spec.initial(seed)).await?;
        Ok(proxies)
    }

    /// Number of proxies.
    pub(crate) fn count(&self) -> usize {
        self.spec.count()
    }

    fn stride(&self) -> usize {
        stride(self.spec.dim)
    }

    /// Replaces all proxies, `[count, dim]`.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub(crate) async fn set(&mut self, engine: &Engine, values: &[f32]) -> Result<()> {
        let (dim, stride) = (self.spec.dim, self.stride());
        let mut padded = vec![0.0; self.count() * stride];
        for (to, from) in padded
            .chunks_exact_mut(stride)
            .zip(values.chunks_exact(dim))
        {
            to[..dim].copy_from_slice(from);
        }
        engine.upload(&mut self.parameters, 0, &padded).await
    }

    /// Reads all proxies, `[count, dim]`.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub(crate) async fn read(&self, engine: &Engine) -> Result<Vec<f32>> {
        self.unpad(engine, &self.parameters).await
    }

    /// Reads the gradients of all proxies in the last step, `[count, dim]`.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub(crate) async fn gradients(&self, engine: &Engine) -> Result<Vec<f32>> {
        self.unpad(engine, &self.gradient).await
    }

    async fn unpad(&self, engine: &Engine, values: &DeviceVec<f32>) -> Result<Vec<f32>> {
        let (dim, stride) = (self.spec.dim, self.stride());
        let floats = (self.count() * stride) as u64;
        let padded = engine.read(values, 0, floats).await?;
        let rows = padded.chunks_exact(stride).flat_map(|row| &row[..dim]);
        Ok(rows.copied().collect())
    }

    /// Saves the proxies and their moments.
    ///
    /// # Errors
    /// As [`ArrayWriter::vector`].
    pub(crate) async fn save(
        &self,
        slices: &mut Slices<'_>,
        arrays: &mut ArrayWriter,
    ) -> Result<()> {
        let floats = self.count() * self.stride();
        let (parameters, moments) = (&self.parameters, &self.moments);
        LABELS
            .save(slices, arrays, parameters, moments, floats)
            .await
    }

    /// Replaces the proxies and their moments by saved ones.
    ///
    /// # Errors
    /// As [`ArrayReader::vector`].
    pub(crate) async fn restore(
        &mut self,
        engine: &Engine,
        arrays: &ArrayReader<'_>,
    ) -> Result<()> {
        let floats = self.count() * self.stride();
        let (parameters, moments) = (&mut self.parameters, &mut self.moments);
        LABELS
            .restore(engine, arrays, parameters, moments, floats)
            .await
    }

    /// Normalizes all proxies for a step. A proxy whose length is not finite sets `status[0]`.
    pub(crate) fn prepare(&mut self, commands: &mut Commands, status: &mut DeviceVec<u32>) {
        let (count, stride) = (self.count(), self.stride());
        normalize::measure(
            commands,
            count,
            stride,
            &self.parameters,
            &mut self.unit,
            &mut self.norms,
            status,
        );
    }

    /// Computes the gradient of the proxies from that of the unit proxies.
    pub(crate) fn backward(
        &mut self,
        commands: &mut Commands,
        report_first: usize,
        report: &mut DeviceVec<u32>,
    ) {
        let (count, stride) = (self.count(), self.stride());
        normalize::backward(
            commands,
            count,
            stride,
            &self.unit,
            &self.norms,
            &mut self.gradient,
            0.0,
            Some(1.0),
            None,
            report_first,
            report,
        );
    }

    /// The proxies as they are learned, padded.
    pub(crate) fn parameters_mut(&mut self) -> &mut DeviceVec<f32> {
        &mut self.parameters
    }

    /// The gradient, and the number of its floats.
    pub(crate) fn gradient(&self) -> (&DeviceVec<f32>, usize) {
        (&self.gradient, self.count() * self.stride())
    }

    /// Takes a step of the optimizer with the proxies' own learning rate.
    pub(crate) fn learn(
        &mut self,
        commands: &mut Commands,
        rule: &Rule<'_>,
        clip: Option<&DeviceVec<f32>>,
        status: &DeviceVec<u32>,
        report_first: usize,
        report: &mut DeviceVec<u32>,
    ) {
        let floats = self.count() * self.stride();
        optimizer::update(
            commands,
            &rule.of(self.spec.terms.lr),
            floats,
            &self.gradient,
            &mut self.parameters,
            &mut self.moments,
            clip,
            status,
            report_first,
            report,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::config::TrainConfig;

    #[test]
    fn the_first_proxies_vary_as_pmls_do() {
        // PML 2.9.0 with 11 classes in 64 dimensions: the standard deviation of its proxies, and the largest value if there is a
        // bound.
        for (loss, deviation, most) in [
            ("normalized-softmax", 1.0, f32::MAX),
            ("proxy-anchor", 0.426, f32::MAX),
            ("soft-triple", 0.055, 0.0954),
        ] {
            let config = TrainConfig::default();
            let config = config
                .with_set(&format!("loss.name={loss}"))
                .expect("a loss");
            let spec = ProxySpec {
                terms: config.loss.proxies().expect("it has some"),
                classes: (0..11).collect(),
                dim: 64,
            };
            let start = spec.initial(1);
            let squares = start.iter().map(|number| f64::from(*number).powi(2));
            let found = (squares.sum::<f64>() / start.len() as f64).sqrt();
            // Three standard errors of the deviation and more.
            assert!((found / deviation - 1.0).abs() < 0.1, "{loss}: {found}");
            assert!(start.iter().all(|number| number.abs() <= most), "{loss}");
        }
    }
}
