//! Learned parameters of a trainer, read and replaced: the head's, proxies, and the boundary.

use super::Trainer;
use crate::base::error::Result;
use crate::kernels::dropout::Dropout;
use crate::model::embedding_model::Mode;
use crate::model::layer_weights::LayerWeights;

impl Trainer {
    /// The trained head for rows as they are in the file: its weights with the scaling folded into the first layer.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub async fn head(&self) -> Result<Vec<LayerWeights>> {
        let mut head = self.weights().await?;
        LayerWeights::fold_head(&mut head, &self.scaling.scaling);
        Ok(head)
    }

    /// Reads the weights back, for scaled features.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub async fn weights(&self) -> Result<Vec<LayerWeights>> {
        self.model.weights(&self.engine).await
    }

    /// Replaces the weights; the optimizer's state stays.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub async fn set_weights(&mut self, weights: &[LayerWeights]) -> Result<()> {
        self.model.set_weights(&self.engine, weights).await
    }

    /// Dropout of a step on the outputs of a hidden layer.
    #[doc(hidden)]
    pub fn dropped(&self, layer: usize, step: u64) -> Option<Dropout> {
        self.model.dropped(layer, Mode::Train(step))
    }

    /// Reads the gradients of the last step.
    #[doc(hidden)]
    pub async fn gradients(&self) -> Result<Vec<LayerWeights>> {
        self.model
            .unpad(
                &self.engine,
                &self.train.gradients.parameters,
                self.model.parameter_count(),
            )
            .await
    }

    /// Proxies that the loss learns, `[proxies, embedding_size]`: class by class of the training classes, ascending; empty if the
    /// loss learns none.
    ///
    /// # Errors
    /// [`Error::Device`].
    #[doc(hidden)]
    pub async fn proxies(&self) -> Result<Vec<f32>> {
        match &self.proxies {
            Some(proxies) => proxies.read(&self.engine).await,
            None => Ok(Vec::new()),
        }
    }

    /// Boundary that the loss learns, as its `beta`: a similarity or a distance. `None` if it learns none.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub async fn boundary(&self) -> Result<Option<f64>> {
        let Some(boundary) = &self.train.boundary else {
            return Ok(None);
        };
        let moved = self.engine.read(&boundary.moved, 0, 1).await?[0];
        let loss = &self.config.loss;
        Ok(loss.boundary(f64::from(moved), self.config.distance))
    }

    /// Gradients of the proxies in the last step, in the order of [`Trainer::proxies`].
    ///
    /// # Errors
    /// [`Error::Device`].
    #[doc(hidden)]
    pub async fn proxy_gradients(&self) -> Result<Vec<f32>> {
        match &self.proxies {
            Some(proxies) => proxies.gradients(&self.engine).await,
            None => Ok(Vec::new()),
        }
    }

    /// Replaces the proxies; the optimizer's state stays.
    ///
    /// # Errors
    /// [`Error::Device`].
    #[doc(hidden)]
    pub async fn set_proxies(&mut self, values: &[f32]) -> Result<()> {
        match &mut self.proxies {
            Some(proxies) => proxies.set(&self.engine, values).await,
            None => Ok(()),
        }
    }
}
