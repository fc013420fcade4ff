//! What may be wrong or hard about a scene: its level, its mask, its picture, where one can measure, its size.

use std::collections::{HashSet, VecDeque};

use gpara::{Channel, Context, Grid, SeedTree, Stream, ValidMask};
use gpara_eval::Scene;
use gpara_tasks::radio::RadioScene;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};

/// Root of the disturbances' randomness: the same scene is disturbed alike in every evaluation.
const SEED: u64 = 0x6469_7374;
/// Number and radius in cells of the discs that clustered measurements lie in.
const CLUSTERS: (usize, f64) = (5, 14.0);
/// Least number of cells of a route.
const ROUTE_CELLS: usize = 800;
/// Side in cells of the blocks that share a colour error.
const COLOR_BLOCK: usize = 8;

/// Changes of a scene; the default changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Disturbance {
    /// Factor of the field above its least value: another frequency constant, a wrong depth scale.
    pub(super) scale: f64,
    /// Added to the field, normalised units: another transmitter power, a depth shift.
    pub(super) offset: f64,
    /// Share of the buildings that the method's mask lacks; as many are invented. 0 only coarsens the mask to cells.
    pub(super) wrong_buildings: Option<f64>,
    /// Standard deviation of the error of each colour channel, of 1, in blocks of 8 x 8 cells.
    pub(super) color_noise: f64,
    /// Where one can measure.
    pub(super) reach: Option<Reach>,
    /// Times as many rows and columns, interpolated.
    pub(super) enlarge: usize,
}

/// Where one can measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reach {
    /// In five discs.
    Clusters,
    /// Within a cell of one route through the valid cells.
    Route,
}

impl Default for Disturbance {
    fn default() -> Self {
        Self { scale: 1.0, offset: 0.0, wrong_buildings: None, color_noise: 0.0, reach: None, enlarge: 1 }
    }
}

impl Disturbance {
    /// The disturbed scene; `radio` is where its buildings are known.
    pub(super) fn apply(&self, scene: Scene, radio: Option<&RadioScene>) -> Outcome<Scene> {
        let seeds = SeedTree::new(SEED).subtree(&scene.id);
        let mut scene = scene;
        if (self.scale, self.offset) != (1.0, 0.0) {
            let valid = scene.scored.clone();
            // -1 is the floor of the scale, "nothing arrives": no power and no factor lifts it.
            let cells = scene.truth.iter_mut().zip(valid.as_slice()).filter(|(value, valid)| **valid && **value > -1.0);
            cells.for_each(|(value, _)| *value = (self.scale * (*value + 1.0) + self.offset - 1.0).clamp(-0.999, 1.0));
        }
        if let Some(share) = self.wrong_buildings {
            let radio = radio.ok_or_else(|| {
                Failure::input("`wrong_buildings` is set and the scenes have none", "it is for data of task radio")
            })?;
            scene.context = wrong_mask(radio, share, seeds)?;
        }
        if self.color_noise > 0.0 {
            scene.context = noisy_colors(&scene.context, self.color_noise, seeds)?;
        }
        if self.enlarge > 1 {
            scene = enlarged(&scene, self.enlarge)?;
        }
        scene.candidates = self.reach.map(|reach| match reach {
            Reach::Clusters => clusters(scene.context.valid(), seeds),
            Reach::Route => route(scene.context.valid(), seeds),
        });
        Ok(scene)
    }
}

/// The context of a mask in which a share of the buildings is missing and as many are invented.
fn wrong_mask(radio: &RadioScene, share: f64, seeds: SeedTree) -> Outcome<Context> {
    let grid = radio.grid();
    let mut stream = seeds.stream("buildings");
    let mut built: Vec<bool> = radio.valid().as_slice().iter().map(|valid| !valid).collect();
    let (row, col) = radio.transmitter();
    let transmitter = ((row.round() as usize).min(grid.rows() - 1), (col.round() as usize).min(grid.cols() - 1));
    let keep_free = grid.node(transmitter.0, transmitter.1);
    let buildings = components(grid, &built);
    let mut invented = 0;
    for building in &buildings {
        if stream.uniform() < share {
            building.iter().for_each(|&node| built[node] = false);
            invented += 1;
        }
    }
    for _ in 0..invented {
        let (height, width) = (5 + stream.index(8), 5 + stream.index(8));
        let (top, left) = (stream.index(grid.rows() - height), stream.index(grid.cols() - width));
        let cells = (top..top + height).flat_map(|row| (left..left + width).map(move |col| (row, col)));
        for node in cells.map(|(row, col)| grid.node(row, col)).filter(|&node| node != keep_free) {
            built[node] = true;
        }
    }
    built[keep_free] = false;
    Ok(RadioScene::from_mask(grid, built, transmitter, radio.meters_per_cell())?.context())
}

/// The groups of cells that touch by a side.
fn components(grid: Grid, member: &[bool]) -> Vec<Vec<usize>> {
    let mut seen = vec![false; member.len()];
    let mut found = Vec::new();
    for start in 0..member.len() {
        if !member[start] || seen[start] {
            continue;
        }
        seen[start] = true;
        let mut group = vec![start];
        let mut next = 0;
        while let Some(&node) = group.get(next) {
            next += 1;
            for other in sides(grid, node) {
                if member[other] && !seen[other] {
                    seen[other] = true;
                    group.push(other);
                }
            }
        }
        found.push(group);
    }
    found
}

fn sides(grid: Grid, node: usize) -> impl Iterator<Item = usize> {
    [(0, 1), (1, 0), (0, -1), (-1, 0)].into_iter().filter_map(move |offset| grid.neighbor(node, offset))
}

fn noisy_colors(context: &Context, std: f64, seeds: SeedTree) -> Outcome<Context> {
    let grid = context.grid();
    let channels = context.channels().iter().map(|channel| {
        if !["red", "green", "blue"].contains(&channel.name.as_str()) {
            return channel.clone();
        }
        let mut stream = seeds.stream(&format!("color/{}", channel.name));
        let blocks = grid.cols().div_ceil(COLOR_BLOCK);
        let errors: Vec<f64> = (0..blocks * grid.rows().div_ceil(COLOR_BLOCK)).map(|_| std * stream.normal()).collect();
        let at = |(node, &value): (usize, &f32)| {
            let (row, col) = grid.row_col(node);
            let error = errors[row / COLOR_BLOCK * blocks + col / COLOR_BLOCK];
            (f64::from(value) + error).clamp(0.0, 1.0) as f32
        };
        Channel { name: channel.name.clone(), values: channel.values.iter().enumerate().map(at).collect() }
    });
    Ok(Context::new(context.valid().clone(), channels.collect())?)
}

/// The scene on a grid of `factor` times as many rows and columns: masks repeated, values bilinear between cell centres.
fn enlarged(scene: &Scene, factor: usize) -> Outcome<Scene> {
    let small = scene.context.grid();
    let grid = Grid::new(small.rows() * factor, small.cols() * factor)?;
    let mask = |mask: &ValidMask| {
        let at = |node| {
            let (row, col) = grid.row_col(node);
            mask.is_valid(small.node(row / factor, col / factor))
        };
        ValidMask::new(grid, (0..grid.num_nodes()).map(at).collect())
    };
    let place = |index: usize, length: usize| {
        let exact = ((index as f64 + 0.5) / factor as f64 - 0.5).clamp(0.0, (length - 1) as f64);
        let low = exact.floor() as usize;
        (low, (low + 1).min(length - 1), exact - low as f64)
    };
    let smooth = |value: &dyn Fn(usize) -> f64| -> Vec<f64> {
        (0..grid.num_nodes())
            .map(|node| {
                let (row, col) = grid.row_col(node);
                let ((r0, r1, fr), (c0, c1, fc)) = (place(row, small.rows()), place(col, small.cols()));
                let at = |row, col| value(small.node(row, col));
                let (top, bottom) =
                    (at(r0, c0) * (1.0 - fc) + at(r0, c1) * fc, at(r1, c0) * (1.0 - fc) + at(r1, c1) * fc);
                top * (1.0 - fr) + bottom * fr
            })
            .collect()
    };
    let channels = scene.context.channels().iter().map(|channel| Channel {
        name: channel.name.clone(),
        values: smooth(&|node| f64::from(channel.values[node])).into_iter().map(|value| value as f32).collect(),
    });
    let context = Context::new(mask(scene.context.valid())?, channels.collect())?;
    let (truth, scored) = (smooth(&|node| scene.truth[node]), mask(&scene.scored)?);
    Ok(Scene { context, truth, scored, ..scene.clone() })
}

fn random_valid(valid: &ValidMask, stream: &mut Stream) -> usize {
    let nodes: Vec<usize> = valid.nodes().collect();
    nodes[stream.index(nodes.len())]
}

/// The valid cells in discs around random valid cells.
fn clusters(valid: &ValidMask, seeds: SeedTree) -> Vec<usize> {
    let (grid, mut stream) = (valid.grid(), seeds.stream("clusters"));
    // On larger grids the discs grow, so that they hold the same share of the cells.
    let radius = CLUSTERS.1 * (grid.num_nodes() as f64 / (128.0 * 128.0)).sqrt();
    let centers: Vec<(usize, usize)> =
        (0..CLUSTERS.0).map(|_| grid.row_col(random_valid(valid, &mut stream))).collect();
    let near = |node: &usize| {
        let (row, col) = grid.row_col(*node);
        centers.iter().any(|&(r, c)| ((row.abs_diff(r).pow(2) + col.abs_diff(c).pow(2)) as f64) < radius * radius)
    };
    valid.nodes().filter(near).collect()
}

/// The valid cells within one cell of shortest ways between random valid cells, one way after the other.
fn route(valid: &ValidMask, seeds: SeedTree) -> Vec<usize> {
    let (grid, mut stream) = (valid.grid(), seeds.stream("route"));
    let wanted = ROUTE_CELLS.min(valid.num_valid());
    let mut cells = HashSet::new();
    let mut here = random_valid(valid, &mut stream);
    // A start in a closed yard reaches few cells: the attempts are bounded.
    for _ in 0..200 {
        if cells.len() >= wanted {
            break;
        }
        let there = random_valid(valid, &mut stream);
        match way(valid, here, there) {
            Some(way) => {
                for node in way {
                    cells.insert(node);
                    cells.extend(sides(grid, node).filter(|&side| valid.is_valid(side)));
                }
                here = there;
            }
            None if cells.is_empty() => here = there,
            None => {}
        }
    }
    let mut cells: Vec<usize> = cells.into_iter().collect();
    cells.sort_unstable();
    cells
}

/// A shortest way through valid cells that touch by a side.
fn way(valid: &ValidMask, from: usize, to: usize) -> Option<Vec<usize>> {
    let grid = valid.grid();
    let mut before = vec![usize::MAX; grid.num_nodes()];
    before[to] = to;
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        if node == from {
            let mut way = vec![from];
            while way[way.len() - 1] != to {
                way.push(before[way[way.len() - 1]]);
            }
            return Some(way);
        }
        for side in sides(grid, node) {
            if valid.is_valid(side) && before[side] == usize::MAX {
                before[side] = node;
                queue.push_back(side);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use gpara_tasks::radio::sample_scene;

    use super::*;

    fn scene() -> (Scene, RadioScene) {
        let map = sample_scene(0).unwrap();
        let truth = map.field.iter().map(|&value| f64::from(value)).collect();
        (Scene::new(map.id, map.scene.context(), truth, 1e-4), map.scene)
    }

    fn disturbed(change: &str) -> Scene {
        let (scene, radio) = scene();
        toml::from_str::<Disturbance>(change).unwrap().apply(scene, Some(&radio)).unwrap()
    }

    #[test]
    fn level_moves_and_the_floor_stays() {
        let (before, after) = (scene().0, disturbed("offset = 0.1"));
        let lifted = before.scored.nodes().find(|&node| before.truth[node] > -1.0 && before.truth[node] < 0.5).unwrap();
        let floor = before.scored.nodes().find(|&node| before.truth[node] == -1.0).unwrap();
        assert!((after.truth[lifted] - before.truth[lifted] - 0.1).abs() < 1e-12);
        assert_eq!(after.truth[floor], -1.0);
    }

    #[test]
    fn a_tenth_of_the_buildings_changes_the_context_and_not_what_is_scored() {
        let (before, after) = (disturbed("wrong_buildings = 0.0"), disturbed("wrong_buildings = 0.3"));
        let changed = (0..128 * 128)
            .filter(|&node| before.context.valid().is_valid(node) != after.context.valid().is_valid(node))
            .count();
        assert!((50..4000).contains(&changed), "{changed}");
        assert_eq!(after.scored, scene().0.scored);
        assert_eq!(disturbed("wrong_buildings = 0.3").context, after.context);
    }

    #[test]
    fn reach_leaves_enough_cells_and_they_are_valid() {
        for change in ["reach = \"clusters\"", "reach = \"route\""] {
            let scene = disturbed(change);
            let cells = scene.candidates.unwrap();
            assert!(cells.len() > 600 && cells.len() < 6000, "{change}: {}", cells.len());
            assert!(cells.iter().all(|&node| scene.context.valid().is_valid(node)));
        }
    }

    #[test]
    fn enlarged_scene_has_the_old_values_in_the_middle_of_its_blocks() {
        let (before, after) = (scene().0, disturbed("enlarge = 3"));
        let (small, grid) = (before.context.grid(), after.context.grid());
        assert_eq!((grid.rows(), grid.cols()), (384, 384));
        for node in [0, 777, 16_383] {
            let (row, col) = small.row_col(node);
            let middle = grid.node(3 * row + 1, 3 * col + 1);
            assert!((after.truth[middle] - before.truth[node]).abs() < 1e-12);
            assert_eq!(after.scored.is_valid(middle), before.scored.is_valid(node));
        }
    }
}
