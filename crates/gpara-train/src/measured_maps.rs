//! Maps with the cells of each that are measured, as a stage shows them to a frozen mean network and to its own.

use gpara::Result;
use tch::Tensor;

use crate::batches::Batch;
use crate::config::TrainConfig;
use crate::data::Maps;
use crate::frozen::Frozen;
use crate::validation::{Measured, mask};

/// Tensors of a batch on the device, `[B, 1, H, W]` each but the context.
#[derive(Debug)]
pub(crate) struct MeasuredMaps {
    /// Clean fields.
    pub(crate) clean: Tensor,
    /// `[B, C, H, W]` context channels of the scenes.
    pub(crate) context: Tensor,
    /// Guided fields, if the mean network reads them.
    pub(crate) guided: Option<Tensor>,
    /// 1 at valid cells.
    pub(crate) valid: Tensor,
    /// 1 at measured cells.
    pub(crate) measured: Tensor,
}

impl MeasuredMaps {
    /// A drawn batch.
    ///
    /// # Panics
    /// If it was drawn by a configuration without masks.
    pub(crate) fn of_batch(batch: Batch) -> Self {
        let Batch { clean, context, guided, valid, measured, .. } = batch;
        Self { clean, context, guided, valid, measured: measured.expect("the configuration has masks") }
    }

    /// `count` validation maps from `first` on, measured alike, with what `mean` reads.
    ///
    /// # Errors
    /// Those of [`Frozen::guided_fields`].
    pub(crate) fn of_validation(
        config: &TrainConfig,
        maps: &Maps,
        (first, count): (i64, i64),
        measured: Measured,
        mean: &Frozen,
    ) -> Result<Self> {
        let part = |tensor: &Tensor| tensor.narrow(0, first, count);
        let (clean, context, valid) = (part(&maps.fields), part(&maps.contexts), part(&maps.valid));
        let measured = mask(config, maps, first as usize, count as usize, measured);
        let measured = measured.to_device(clean.device()).view_as(&clean);
        let guided = mean.guided_fields(&context, &valid, &clean, &measured)?;
        Ok(Self { clean, context, guided, valid, measured })
    }
}
