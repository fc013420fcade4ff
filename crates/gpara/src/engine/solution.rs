//! Solves with a factorisation: up the blocks and the separators, and down again.

use rayon::prelude::*;

use super::block::{BlockFactor, BlockWork};
use super::factorization::{Factorization, trunk_work, works};
use super::real::LANES;
use super::simd::Kernels;
use super::trunk_solve::TrunkBuffers;

/// Buffers of a solve, so that further ones allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct SolveScratch<T> {
    count: usize,
    /// One row a right-hand side: `num_nodes` values, of which those of the separators are used, and a 0.
    x: Vec<T>,
    /// What each batch works on, batch after batch.
    fields: Vec<T>,
    trunk: TrunkBuffers<T>,
}

/// A right-hand side: values, one a node, or their products with weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RightHandSide<'a> {
    pub(crate) values: &'a [f64],
    pub(crate) weights: Option<&'a [f64]>,
}

impl RightHandSide<'_> {
    fn at<T: Kernels>(&self, node: usize) -> T {
        T::from_f64(self.weights.map_or(self.values[node], |weights| weights[node] * self.values[node]))
    }

    /// The values of consecutive nodes.
    pub(super) fn read<T: Kernels>(&self, first: usize, out: &mut [T]) {
        let values = &self.values[first..][..out.len()];
        match self.weights {
            None => out.iter_mut().zip(values).for_each(|(out, value)| *out = T::from_f64(*value)),
            Some(weights) => {
                let products = values.iter().zip(&weights[first..]).map(|(value, weight)| weight * value);
                out.iter_mut().zip(products).for_each(|(out, product)| *out = T::from_f64(product));
            }
        }
    }
}

/// Where a solution goes, one value a node.
#[derive(Debug)]
pub(crate) enum Solution<'a> {
    /// In the place of what is there.
    Set(&'a mut [f64]),
    /// Onto it.
    Add(&'a mut [f64]),
}

impl Solution<'_> {
    /// The values of consecutive nodes.
    pub(super) fn write<T: Kernels>(&mut self, first: usize, values: &[T]) {
        match self {
            Self::Set(out) => out[first..].iter_mut().zip(values).for_each(|(out, value)| *out = value.to_f64()),
            Self::Add(out) => out[first..].iter_mut().zip(values).for_each(|(out, value)| *out += value.to_f64()),
        }
    }
}

impl<T: Kernels> Factorization<T> {
    /// A^-1 rhs.
    pub(crate) fn solve(&self, rhs: &[f64], out: &mut [f64]) {
        self.solve_with(&mut SolveScratch::default(), rhs, out);
    }

    /// A^-1 of every row of `rhs`, with buffers of an earlier solve; the same bits as row by row.
    ///
    /// # Shapes
    /// * `rhs` - `[count, num_nodes]`, and so is `out`
    #[track_caller]
    pub(crate) fn solve_with(&self, scratch: &mut SolveScratch<T>, rhs: &[f64], out: &mut [f64]) {
        let num_nodes = self.plan.grid().num_nodes();
        assert!(
            rhs.len() == out.len() && rhs.len().is_multiple_of(num_nodes),
            "a right-hand side has one value a node"
        );
        let row = |row: usize| RightHandSide { values: &rhs[row * num_nodes..][..num_nodes], weights: None };
        self.solve_rows(scratch, rhs.len() / num_nodes, row);
        self.read_rows(scratch, out.chunks_mut(num_nodes).map(Solution::Set));
    }

    /// Solves for `count` right-hand sides; [`read_rows`](Self::read_rows) takes the solutions out of the buffers.
    pub(crate) fn solve_rows<'a>(
        &self,
        scratch: &mut SolveScratch<T>,
        count: usize,
        rhs: impl Fn(usize) -> RightHandSide<'a> + Sync,
    ) {
        let num_nodes = self.plan.grid().num_nodes();
        scratch.count = count;
        if count == 0 {
            return;
        }
        let SolveScratch { x, fields, trunk: buffers, .. } = scratch;
        let works = works(&self.plan, &self.offsets, self.simd);
        let len = works(0).field_vectors() * count * LANES;
        x.resize(count * (num_nodes + 1), T::ZERO);
        fields.resize(len * self.batches.len(), T::ZERO);
        self.each_field(fields, len, |at, field| works(at).solve_up(&self.batches[at], &rhs, field, count));
        for (row, x) in x.chunks_mut(num_nodes + 1).enumerate() {
            let rhs = rhs(row);
            self.separators().for_each(|node| x[node] = rhs.at(node));
            x[num_nodes] = T::ZERO;
        }
        for (at, field) in fields.chunks(len).enumerate() {
            works(at).add_ring(field, x, count);
        }
        let trunk = trunk_work(&self.plan, &self.trunk_layout, self.simd);
        trunk.forward(&self.fronts, x, count, buffers);
        trunk.backward(&self.fronts, x, count, buffers);
        let x = &*x;
        self.each_field(fields, len, |at, field| works(at).solve_down(&self.batches[at], x, field, count));
    }

    /// The solutions of [`solve_rows`](Self::solve_rows), one after another.
    pub(crate) fn read_rows<'a>(&self, scratch: &SolveScratch<T>, rows: impl Iterator<Item = Solution<'a>>) {
        let SolveScratch { count, x, fields, .. } = scratch;
        let num_nodes = self.plan.grid().num_nodes();
        let work = |(row, (mut out, x)): (usize, (Solution<'_>, &[T]))| {
            self.separators().for_each(|node| out.write(node, &x[node..=node]));
            for (batch, field) in self.plan.batches.iter().zip(fields.chunks(fields.len() / self.batches.len())) {
                batch.cells.store(self.simd, (field, row, *count), &mut out);
            }
        };
        let rows = rows.zip(x.chunks(num_nodes + 1)).enumerate();
        if self.is_parallel() && *count > 1 {
            rows.collect::<Vec<_>>().into_par_iter().for_each(work);
        } else {
            rows.for_each(work);
        }
    }

    fn separators(&self) -> impl Iterator<Item = usize> + '_ {
        self.plan.trunk.dissection.fronts.iter().flat_map(|front| &front.pivots).map(|&node| node as usize)
    }

    /// Runs `work` on the field of each batch, in parallel if the factorisation is for several threads.
    fn each_field(&self, fields: &mut [T], len: usize, work: impl Fn(usize, &mut [T]) + Sync) {
        if self.is_parallel() {
            fields.par_chunks_mut(len).enumerate().for_each(|(at, field)| work(at, field));
        } else {
            fields.chunks_mut(len).enumerate().for_each(|(at, field)| work(at, field));
        }
    }
}

impl BlockWork<'_> {
    /// From right-hand sides to what [`forward`](Self::forward) leaves.
    fn solve_up<'a, T: Kernels>(
        &self,
        factor: &BlockFactor<T>,
        rhs: &impl Fn(usize) -> RightHandSide<'a>,
        field: &mut [T],
        count: usize,
    ) {
        let mut any = false;
        for row in 0..count {
            any |= self.batch.cells.load(self.simd, rhs(row), (&mut *field, row, count));
        }
        for &position in &self.template().ring {
            field[position as usize * count * LANES..][..count * LANES].fill(T::ZERO);
        }
        // The right-hand side of a column of the inverse is 0 in all batches but one.
        if any {
            self.forward(factor, field, count);
        }
    }

    /// Adds what the way up left at the ring to the right-hand sides of the separators.
    fn add_ring<T: Kernels>(&self, field: &[T], x: &mut [T], count: usize) {
        let num_nodes = self.plan.grid().num_nodes();
        for (&position, nodes) in self.template().ring.iter().zip(&self.batch.ring_nodes) {
            let sources = field[position as usize * count * LANES..].chunks(LANES);
            for (source, x) in sources.zip(x.chunks_mut(num_nodes + 1)) {
                for (&node, value) in nodes.iter().zip(source) {
                    if (node as usize) < num_nodes {
                        x[node as usize] += *value;
                    }
                }
            }
        }
    }

    /// The solution of the blocks from that on the separators.
    fn solve_down<T: Kernels>(&self, factor: &BlockFactor<T>, x: &[T], field: &mut [T], count: usize) {
        let num_nodes = self.plan.grid().num_nodes();
        for (&position, nodes) in self.template().ring.iter().zip(&self.batch.ring_nodes) {
            let targets = field[position as usize * count * LANES..].chunks_mut(LANES);
            for (target, x) in targets.zip(x.chunks(num_nodes + 1)) {
                target.iter_mut().zip(nodes).for_each(|(target, &node)| *target = x[node as usize]);
            }
        }
        self.backward(factor, field, count);
    }
}
