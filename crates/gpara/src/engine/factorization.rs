//! The numeric factorisation of a [`StencilMatrix`] and what follows from it: solves, determinant, selected inverse,
//! variances and utility numerators.

use std::sync::Arc;

use rayon::prelude::*;
use thiserror::Error as ThisError;

use super::block::{BlockFactor, BlockScratch, BlockWork, ring_values};
use super::front::{Dense, Lanes, Scratch, Size};
use super::offsets::Offsets;
use super::plan::{Place, Places, Plan};
use super::real::{Aligned, LANES};
use super::simd::{Kernels, Simd};
use super::stack::Stack;
use super::stencil::StencilMatrix;
use super::trunk::{FrontFactor, TrunkWork};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::solve::Stencil;

/// A = (P, K) front by front, in arenas that every factorisation of the same [`Plan`] reuses.
///
/// Results have the same bits for any number of threads.
#[derive(Debug)]
pub(crate) struct Factorization<T> {
    pub(super) plan: Arc<Plan>,
    pub(super) simd: Simd,
    pub(super) offsets: Offsets,
    /// The matrix as listed by the plan.
    values: Vec<T>,
    /// One value a node and a 0 for what does not exist.
    weights: Vec<T>,
    pub(super) batches: Vec<BlockFactor<T>>,
    pub(super) fronts: Vec<FrontFactor<T>>,
    pub(super) trunk_layout: Stack,
    trunk_stack: Aligned<T>,
    /// Matrix of the ring of every block: S on the way up, Z22 on the way down.
    rings: Aligned<T>,
    drings: Aligned<T>,
    workers: Vec<Worker<T>>,
    trunk_scratch: Vec<Scratch<T>>,
}

/// A share of the batches has one of these.
#[derive(Debug)]
struct Worker<T> {
    scratch: BlockScratch<T>,
}

impl<T: Kernels> Factorization<T> {
    /// Arenas for matrices of a plan, for as many threads as the current pool has.
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self::with_simd(plan, Simd::detect(), rayon::current_num_threads())
    }

    /// Arenas for so many threads; with one, the work stays on the calling thread.
    pub(crate) fn with_threads(plan: Arc<Plan>, threads: usize) -> Self {
        Self::with_simd(plan, Simd::detect(), threads)
    }

    pub(crate) fn with_simd(plan: Arc<Plan>, simd: Simd, threads: usize) -> Self {
        let offsets = Offsets::new(&plan.template);
        let trunk = &plan.trunk.dissection.fronts;
        let trunk_layout = Stack::new(trunk);
        let size =
            |front: &super::dissection::Front| Size { pivots: front.pivots.len(), boundary: front.boundary.len() };
        let workers = threads.clamp(1, plan.batches.len());
        let rings = plan.batches.len() * LANES * ring_values(plan.template.ring.len());
        Self {
            simd,
            values: vec![T::ZERO; plan.values.len()],
            weights: vec![T::ZERO; plan.grid().num_nodes() + 1],
            batches: plan.batches.iter().map(|_| BlockFactor::new(&offsets, &plan.template)).collect(),
            fronts: trunk
                .iter()
                .zip(plan.trunk.entry_starts.windows(2))
                .map(|(front, entries)| FrontFactor::new(front, entries[1] - entries[0]))
                .collect(),
            trunk_stack: Aligned::zeros(trunk_layout.len()),
            trunk_layout,
            rings: Aligned::zeros(rings),
            drings: Aligned::zeros(rings),
            workers: (0..workers).map(|_| Worker { scratch: BlockScratch::new(&offsets) }).collect(),
            trunk_scratch: (0..threads.max(1)).map(|_| Scratch::for_fronts::<Dense>(trunk.iter().map(size))).collect(),
            offsets,
            plan,
        }
    }

    /// Values in the arenas, apart from the room of the threads.
    #[cfg(test)]
    pub(crate) fn num_values(&self) -> usize {
        let of_blocks: usize = self.batches.iter().map(BlockFactor::num_values).sum();
        let of_trunk: usize = self.fronts.iter().map(FrontFactor::num_values).sum();
        of_blocks
            + of_trunk
            + self.trunk_stack.len()
            + self.rings.len()
            + self.drings.len()
            + self.values.len()
            + self.weights.len()
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether work is shared between several threads.
    pub(super) fn is_parallel(&self) -> bool {
        self.workers.len() > 1
    }

    /// Factorises a matrix of the plan's grid and reach.
    ///
    /// # Errors
    /// `NotPositiveDefinite` with the node of the first pivot that is not positive.
    #[track_caller]
    pub(crate) fn factor(&mut self, matrix: Stencil<'_, f64>) -> Result<()> {
        assert_eq!((matrix.grid, matrix.reach), (self.plan.grid(), self.plan.reach()));
        let maps = std::iter::once(matrix.diagonal).chain(matrix.coupling.iter().map(|map| &map[..]));
        for (out, map) in self.values.chunks_mut(matrix.diagonal.len()).zip(maps) {
            out.iter_mut().zip(map).for_each(|(out, value)| *out = T::from_f64(*value));
        }
        self.values[self.plan.values.zero() as usize] = T::ZERO;
        self.values[self.plan.values.one() as usize] = T::ONE;
        let values = &self.values;
        let works = works(&self.plan, &self.offsets, self.simd);
        each_batch(&mut self.workers, &mut self.batches, &mut self.rings, |at, worker, factor, rings| {
            works(at).eliminate(values, factor, &mut worker.scratch, rings);
        });
        let trunk = trunk_work(&self.plan, &self.trunk_layout, self.simd);
        let room = (&mut *self.trunk_stack, &mut self.trunk_scratch[..]);
        trunk.eliminate(&self.values, &mut self.fronts, room, &mut self.rings);
        self.check_pivots()
    }

    fn check_pivots(&self) -> Result<()> {
        // A NaN is not positive either.
        let bad = self.pivots().find(|(_, pivot)| !(*pivot > T::ZERO && pivot.to_f64().is_finite()));
        match bad {
            Some((node, pivot)) => Err(FactorError { node, pivot: pivot.to_f64() }.into()),
            None => Ok(()),
        }
    }

    /// The nodes with their pivots.
    fn pivots(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        let num_nodes = self.plan.grid().num_nodes();
        let blocks =
            self.plan.batches.iter().zip(&self.batches).flat_map(|(batch, factor)| {
                batch.pivot_nodes.iter().flatten().copied().zip(factor.pivots.iter().copied())
            });
        let fronts = self.plan.trunk.dissection.fronts.iter().zip(&self.fronts);
        let trunk = fronts.flat_map(|(front, factor)| front.pivots.iter().copied().zip(factor.pivots.iter().copied()));
        blocks.chain(trunk).map(|(node, pivot)| (node as usize, pivot)).filter(move |(node, _)| *node < num_nodes)
    }

    /// log det A.
    pub(crate) fn log_det(&self) -> f64 {
        self.pivots().map(|(_, pivot)| pivot.to_f64().ln()).sum()
    }

    /// diag(A^-1), one value a node.
    #[track_caller]
    pub(crate) fn variances(&mut self, variance: &mut [f64]) {
        self.sweep_trunk_down(false);
        let works = works(&self.plan, &self.offsets, self.simd);
        each_batch(&mut self.workers, &mut self.batches, &mut self.rings, |at, worker, factor, rings| {
            works(at).invert(factor, &mut worker.scratch, rings, None::<fn(usize, &[T], &[T])>);
        });
        self.collect_diagonals(variance, &mut []);
    }

    /// diag(A^-1) and diag(A^-1 W A^-1) for the diagonal W = `weights`, one value a node each.
    #[track_caller]
    pub(crate) fn variances_and_numerators(&mut self, weights: &[f64], variance: &mut [f64], numerator: &mut [f64]) {
        assert_eq!(weights.len(), self.plan.grid().num_nodes());
        self.weights.iter_mut().zip(weights).for_each(|(out, weight)| *out = T::from_f64(*weight));
        let values = &self.weights;
        let works = works(&self.plan, &self.offsets, self.simd);
        each_batch(&mut self.workers, &mut self.batches, &mut self.drings, |at, worker, factor, rings| {
            works(at).differentiate(values, factor, &mut worker.scratch, rings);
        });
        let trunk = trunk_work(&self.plan, &self.trunk_layout, self.simd);
        let room = (&mut *self.trunk_stack, &mut self.trunk_scratch[..]);
        trunk.differentiate(&self.weights, &mut self.fronts, room, &mut self.drings);
        self.sweep_trunk_down(true);
        let works = self::works(&self.plan, &self.offsets, self.simd);
        let len = LANES * ring_values(self.plan.template.ring.len());
        let drings = &self.drings;
        each_batch(&mut self.workers, &mut self.batches, &mut self.rings, |at, worker, factor, rings| {
            let drings = &drings[at * len..(at + 1) * len];
            works(at).invert_with_derivative(factor, &mut worker.scratch, (rings, drings));
        });
        self.collect_diagonals(variance, numerator);
    }

    fn sweep_trunk_down(&mut self, derivative: bool) {
        let trunk = trunk_work(&self.plan, &self.trunk_layout, self.simd);
        let room = (&mut *self.trunk_stack, &mut self.trunk_scratch[..]);
        trunk.invert(derivative, &mut self.fronts, room, &mut self.rings, &mut self.drings);
    }

    fn collect_diagonals(&self, variance: &mut [f64], numerator: &mut [f64]) {
        let num_nodes = self.plan.grid().num_nodes();
        assert!(variance.len() == num_nodes && (numerator.is_empty() || numerator.len() == num_nodes));
        for (batch, factor) in self.plan.batches.iter().zip(&self.batches) {
            for (values, out) in [(&factor.variance, &mut *variance), (&factor.numerator, &mut *numerator)] {
                if out.is_empty() {
                    continue;
                }
                for (node, value) in batch.pivot_nodes.iter().flatten().zip(values.iter()) {
                    if let Some(out) = out.get_mut(*node as usize) {
                        *out = value.to_f64();
                    }
                }
            }
        }
        for (front, factor) in self.plan.trunk.dissection.fronts.iter().zip(&self.fronts) {
            for (&node, (own_variance, own_numerator)) in front.pivots.iter().zip(factor.diagonals()) {
                variance[node as usize] = own_variance.to_f64();
                if let Some(out) = numerator.get_mut(node as usize) {
                    *out = own_numerator.to_f64();
                }
            }
        }
    }

    /// The entries of A^-1 where A has its diagonal and couplings.
    #[track_caller]
    pub(crate) fn selected_inverse(&mut self, out: &mut StencilMatrix) {
        assert_eq!((out.grid(), out.reach()), (self.plan.grid(), self.plan.reach()));
        self.sweep_trunk_down(false);
        let num_nodes = self.plan.grid().num_nodes();
        let mut write = |index: u32, value: T| {
            let (map, node) = (index as usize / num_nodes, index as usize % num_nodes);
            match map {
                0 => out.diagonal[node] = value.to_f64(),
                map => out.coupling[map - 1][node] = value.to_f64(),
            }
        };
        let template = &self.plan.template;
        let works = works(&self.plan, &self.offsets, self.simd);
        let len = LANES * ring_values(template.ring.len());
        let scratch = &mut self.workers[0].scratch;
        for (at, factor) in self.batches.iter_mut().enumerate() {
            let work = works(at);
            let rings = &self.rings[at * len..(at + 1) * len];
            let visit = |front: usize, z11: &[T], z12: &[T]| {
                let place = Places::new::<Lanes>(self.offsets.sizes[front]);
                let entries = template.entry_starts[front]..template.entry_starts[front + 1];
                for (&slot, index) in
                    template.slots[entries.clone()].iter().zip(&self.plan.batches[at].entries[entries])
                {
                    let values = match place.of(slot) {
                        Place::Square(at) => &z11[at * LANES..],
                        Place::Wide(at) => &z12[at * LANES..],
                    };
                    for (&index, &value) in index.iter().zip(values) {
                        if index < self.plan.values.zero() {
                            write(index, value);
                        }
                    }
                }
            };
            work.invert(factor, scratch, rings, Some(visit));
        }
        for (at, factor) in self.fronts.iter().enumerate() {
            let trunk = &self.plan.trunk;
            let entries = &trunk.entries[trunk.entry_starts[at]..trunk.entry_starts[at + 1]];
            for (&(_, index), &covariance) in entries.iter().zip(factor.covariances()) {
                write(index, covariance);
            }
        }
    }
}

/// The work on the separators.
pub(super) fn trunk_work<'a>(plan: &'a Plan, layout: &'a Stack, simd: Simd) -> TrunkWork<'a> {
    TrunkWork { simd, plan, layout, ring: plan.template.ring.len() }
}

/// The work on each batch.
pub(super) fn works<'a>(
    plan: &'a Plan,
    offsets: &'a Offsets,
    simd: Simd,
) -> impl Fn(usize) -> BlockWork<'a> + Copy + Sync {
    move |at| BlockWork { simd, plan, offsets, batch: &plan.batches[at] }
}

/// Runs `work` on all batches with their ring matrices, each worker on a contiguous share.
fn each_batch<T: Kernels>(
    workers: &mut [Worker<T>],
    batches: &mut [BlockFactor<T>],
    rings: &mut [T],
    work: impl Fn(usize, &mut Worker<T>, &mut BlockFactor<T>, &mut [T]) + Sync,
) {
    let share = batches.len().div_ceil(workers.len());
    let len = rings.len() / batches.len();
    let run = |first: usize, worker: &mut Worker<T>, batches: &mut [BlockFactor<T>], rings: &mut [T]| {
        for (offset, (batch, rings)) in batches.iter_mut().zip(rings.chunks_mut(len)).enumerate() {
            work(first + offset, worker, batch, rings);
        }
    };
    if let [worker] = workers {
        run(0, worker, batches, rings);
    } else {
        let shares = batches.par_chunks_mut(share).zip(rings.par_chunks_mut(share * len));
        workers.par_iter_mut().zip(shares).enumerate().for_each(|(at, (worker, (batches, rings)))| {
            run(at * share, worker, batches, rings);
        });
    }
}

#[derive(Debug, ThisError)]
#[error("the posterior precision is not positive definite: pivot {pivot} at node {node}")]
struct FactorError {
    node: usize,
    pivot: f64,
}

impl ErrorDetail for FactorError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::NotPositiveDefinite
    }

    fn hint(&self) -> Option<String> {
        Some("the residual precision is too small against the graph coupling, raise it".into())
    }
}
