//! The scene of a session: which cells there are, where points may be asked, and what each cell counts and costs.

use std::sync::OnceLock;

use gpara::{Context, Grid, Result, ValidMask};
use gpara_tasks::depth::DepthScene;
use gpara_tasks::radio::RadioScene;

use crate::error::SessionError;
use crate::settings::{Settings, Task};

/// Maps a session is given beside its settings, one value a cell each (`buildings`: a pixel).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layers {
    /// Cells of the field; all where `None`.
    pub valid: Option<Vec<bool>>,
    /// Pixels of a radio scene that are built on.
    pub buildings: Option<Vec<bool>>,
    /// Cells that may be asked for; all valid ones where `None`.
    pub candidates: Option<Vec<bool>>,
    /// Cells that are never asked for.
    pub forbidden: Option<Vec<bool>>,
    /// Weight of each cell's uncertainty, >= 0; all alike where `None`.
    pub importance: Option<Vec<f64>>,
    /// Cost of a measurement in each cell, > 0; 1 where `None`.
    pub cost: Option<Vec<f64>>,
    /// A picture whose edges the field follows, luminance in 0 to 1.
    pub guide: Option<Vec<f64>>,
    /// The picture of a depth scene, sRGB, a pixel a cell.
    pub picture: Option<Vec<[u8; 3]>>,
    /// Maps that a drift names.
    pub channels: Vec<(String, Vec<f64>)>,
    /// Maps of the field, in its unit, whose mean and differences are the prior.
    pub maps: Vec<Vec<f64>>,
}

impl Layers {
    fn check_lengths(&self, grid: Grid) -> Result<()> {
        let lengths = [
            ("valid mask", self.valid.as_ref().map(Vec::len)),
            ("candidates", self.candidates.as_ref().map(Vec::len)),
            ("forbidden cells", self.forbidden.as_ref().map(Vec::len)),
            ("importance", self.importance.as_ref().map(Vec::len)),
            ("cost", self.cost.as_ref().map(Vec::len)),
            ("guide", self.guide.as_ref().map(Vec::len)),
            ("picture", self.picture.as_ref().map(Vec::len)),
            ("map of the prior", self.maps.iter().map(Vec::len).find(|&len| len != grid.num_nodes())),
            ("drift's map", self.channels.iter().map(|(_, map)| map.len()).find(|&len| len != grid.num_nodes())),
        ];
        match lengths.into_iter().find(|(_, length)| length.is_some_and(|length| length != grid.num_nodes())) {
            Some((name, length)) => Err(SessionError::LayerLength { name, found: length.unwrap_or(0), grid }.into()),
            None => Ok(()),
        }
    }
}

/// The scene of a session, checked.
#[derive(Debug)]
pub struct Scene {
    valid: ValidMask,
    radio: Option<RadioScene>,
    depth: Option<DepthScene>,
    askable: Vec<bool>,
    importance: Option<Vec<f64>>,
    cost: Option<Vec<f64>>,
    guide: Option<Vec<f64>>,
    channels: Vec<(String, Vec<f64>)>,
    maps: Vec<Vec<f64>>,
    context: OnceLock<Context>,
}

impl Scene {
    /// The scene of the given settings and layers.
    ///
    /// # Errors
    /// `ShapeMismatch` if a layer has another size than the field, `InvalidInput` if a weight is negative, a cost is not
    /// positive, or no cell is left to ask for; those of [`RadioScene`].
    pub fn new(settings: &Settings, layers: &Layers) -> Result<Self> {
        settings.check()?;
        let grid = settings.grid()?;
        let radio = radio_scene(settings, layers)?;
        let own = match &radio {
            Some(radio) if radio.grid() != grid => {
                return Err(SessionError::LayerSize { name: "building mask", found: radio.grid(), grid }.into());
            }
            Some(radio) => radio.valid().as_slice().to_vec(),
            None => vec![true; grid.num_nodes()],
        };
        layers.check_lengths(grid)?;
        let given = layers.valid.as_deref();
        let valid = ValidMask::new(grid, (0..own.len()).map(|node| own[node] && flag(given, node, true)).collect())?;
        let (candidates, forbidden) = (layers.candidates.as_deref(), layers.forbidden.as_deref());
        let askable: Vec<bool> = (0..grid.num_nodes())
            .map(|node| valid.is_valid(node) && flag(candidates, node, true) && !flag(forbidden, node, false))
            .collect();
        if !askable.contains(&true) {
            return Err(SessionError::NoCandidates { name: "mask, candidates and forbidden cells" }.into());
        }
        let depth = depth_scene(settings, layers)?;
        check_map(grid, "importance", layers.importance.as_deref(), "weights must be finite and >= 0", |w| w >= 0.0)?;
        check_map(grid, "cost", layers.cost.as_deref(), "costs must be finite and > 0", |cost| cost > 0.0)?;
        if let Some(weights) = &layers.importance
            && !valid.nodes().any(|node| weights[node] > 0.0)
        {
            let allowed = "at least one valid cell must have a weight > 0";
            return Err(SessionError::Setting { name: "importance", value: "0 everywhere".into(), allowed }.into());
        }
        check_map(grid, "guide", layers.guide.as_deref(), "a picture's luminance lies in 0 to 1", |luminance| {
            (0.0..=1.0).contains(&luminance)
        })?;
        for (_, map) in &layers.channels {
            check_valid_cells(&valid, "drift's map", map)?;
        }
        layers.maps.iter().try_for_each(|map| check_valid_cells(&valid, "map of the prior", map))?;
        let normalized = |map: &Vec<f64>| map.iter().map(|&value| settings.scale.normalized(value)).collect();
        let scene = Self {
            valid,
            radio,
            depth,
            askable,
            importance: layers.importance.clone(),
            cost: layers.cost.clone(),
            guide: layers.guide.clone(),
            channels: layers.channels.clone(),
            maps: layers.maps.iter().map(normalized).collect(),
            context: OnceLock::new(),
        };
        settings.prior.check_maps(&scene)?;
        Ok(scene)
    }

    /// The grid of the field.
    pub fn grid(&self) -> Grid {
        self.valid.grid()
    }

    /// The cells of the field.
    pub fn valid(&self) -> &ValidMask {
        &self.valid
    }

    /// The radio scene, if it is one.
    pub fn radio(&self) -> Option<&RadioScene> {
        self.radio.as_ref()
    }

    /// Cells that may be asked for: valid, among the candidates, not forbidden.
    pub fn askable(&self) -> &[bool] {
        &self.askable
    }

    /// Weight of each cell's uncertainty.
    pub fn importance(&self) -> Option<&[f64]> {
        self.importance.as_deref()
    }

    /// Cost of a measurement in each cell.
    pub fn cost(&self) -> Option<&[f64]> {
        self.cost.as_deref()
    }

    /// The picture whose edges the field follows, luminance in 0 to 1.
    pub fn guide(&self) -> Option<&[f64]> {
        self.guide.as_deref()
    }

    /// A map that a drift names.
    pub fn channel(&self, name: &str) -> Option<&[f64]> {
        self.channels.iter().find(|(known, _)| known == name).map(|(_, map)| map.as_slice())
    }

    /// Maps of the field, normalised, whose mean and differences are the prior; none without such a prior.
    pub fn maps(&self) -> &[Vec<f64>] {
        &self.maps
    }

    /// The context with every channel that networks read; computed on first use.
    ///
    /// # Errors
    /// None in a scene that was checked; `ShapeMismatch` would be a fault of the task.
    pub fn context(&self) -> Result<&Context> {
        if let Some(context) = self.context.get() {
            return Ok(context);
        }
        if let Some(depth) = &self.depth {
            let context = depth.context(&self.valid)?;
            return Ok(self.context.get_or_init(|| context));
        }
        let channels = self.radio.as_ref().map_or(Vec::new(), |radio| radio.context().channels().to_vec());
        let context = Context::new(self.valid.clone(), channels)?;
        Ok(self.context.get_or_init(|| context))
    }

    /// The scene without channels that only networks read; a picture's stay, since graphs follow its edges.
    ///
    /// # Errors
    /// Those of [`context`](Self::context).
    pub fn bare_context(&self) -> Result<Context> {
        match self.depth {
            Some(_) => self.context().cloned(),
            None => Context::new(self.valid.clone(), Vec::new()),
        }
    }
}

fn flag(layer: Option<&[bool]>, node: usize, otherwise: bool) -> bool {
    layer.map_or(otherwise, |layer| layer[node])
}

fn radio_scene(settings: &Settings, layers: &Layers) -> Result<Option<RadioScene>> {
    let Task::Radio { transmitter, meters_per_pixel, pixels_per_cell } = settings.task else { return Ok(None) };
    let built = layers.buildings.clone().unwrap_or_default();
    match pixels_per_cell {
        1 => RadioScene::from_mask(settings.grid()?, built, transmitter, meters_per_pixel).map(Some),
        2 => {
            let pixels = Grid::new(2 * settings.rows, 2 * settings.cols)?;
            RadioScene::from_halved_mask(pixels, built, transmitter, meters_per_pixel).map(Some)
        }
        other => {
            let (name, value) = ("pixels-per-cell", other.to_string());
            Err(SessionError::Setting { name, value, allowed: "1 or 2" }.into())
        }
    }
}

fn depth_scene(settings: &Settings, layers: &Layers) -> Result<Option<DepthScene>> {
    if settings.task != Task::Depth {
        return Ok(None);
    }
    let Some(picture) = &layers.picture else {
        let allowed = "a depth scene has a picture";
        return Err(SessionError::Setting { name: "picture", value: "none".into(), allowed }.into());
    };
    DepthScene::new(settings.grid()?, picture.clone()).map(Some)
}

/// Such a map needs a number in every valid cell; elsewhere it is not looked at.
fn check_valid_cells(valid: &ValidMask, name: &'static str, map: &[f64]) -> Result<()> {
    let Some(node) = valid.nodes().find(|&node| !map[node].is_finite()) else { return Ok(()) };
    let (row, col) = valid.grid().row_col(node);
    let (value, allowed) = (map[node], "it must be finite in every valid cell");
    Err(SessionError::LayerValue { name, value, row, col, allowed }.into())
}

fn check_map(
    grid: Grid,
    name: &'static str,
    map: Option<&[f64]>,
    allowed: &'static str,
    accepts: impl Fn(f64) -> bool,
) -> Result<()> {
    let bad = map.and_then(|map| map.iter().position(|&value| !(value.is_finite() && accepts(value))));
    match (map, bad) {
        (Some(map), Some(node)) => {
            let (row, col) = grid.row_col(node);
            Err(SessionError::LayerValue { name, value: map[node], row, col, allowed }.into())
        }
        _ => Ok(()),
    }
}
