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
    /// One row a right-hand side: `num_nodes` values, of which those of the separators are used, and a 0.
    x: Vec<T>,
    /// What each batch works on, batch after batch.
    fields: Vec<T>,
    trunk: TrunkBuffers<T>,
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
        if rhs.is_empty() {
            return;
        }
        let count = rhs.len() / num_nodes;
        let SolveScratch { x, fields, trunk: buffers } = scratch;
        let works = works(&self.plan, &self.offsets, self.simd);
        let len = works(0).field_len(count);
        x.resize(count * (num_nodes + 1), T::ZERO);
        fields.resize(len * self.batches.len(), T::ZERO);
        self.each_field(fields, len, |at, field| works(at).solve_up(&self.batches[at], rhs, field, count));
        let separators = || self.plan.trunk.dissection.fronts.iter().flat_map(|front| &front.pivots);
        for (rhs, x) in rhs.chunks(num_nodes).zip(x.chunks_mut(num_nodes + 1)) {
            separators().for_each(|&node| x[node as usize] = T::from_f64(rhs[node as usize]));
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
        for (row, (out, x)) in out.chunks_mut(num_nodes).zip(x.chunks(num_nodes + 1)).enumerate() {
            separators().for_each(|&node| out[node as usize] = x[node as usize].to_f64());
            for (at, field) in fields.chunks_mut(len).enumerate() {
                works(at).read_cells(field, row, out, count);
            }
        }
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
    /// Values of the field of a batch for `count` right-hand sides: its vectors, then room to exchange them.
    fn field_len(&self, count: usize) -> usize {
        self.field_vectors() * count * LANES + self.batch.cells.room()
    }

    fn split_field<'a, T>(&self, field: &'a mut [T], count: usize) -> (&'a mut [T], &'a mut [T]) {
        field.split_at_mut(self.field_vectors() * count * LANES)
    }

    /// From right-hand sides to what [`forward`](Self::forward) leaves.
    fn solve_up<T: Kernels>(&self, factor: &BlockFactor<T>, rhs: &[f64], field: &mut [T], count: usize) {
        let (field, room) = self.split_field(field, count);
        let mut any = false;
        for (row, rhs) in rhs.chunks(self.plan.grid().num_nodes()).enumerate() {
            any |= self.batch.cells.load(self.simd, rhs, room, (&mut *field, row, count));
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
        let (field, _) = self.split_field(field, count);
        for (&position, nodes) in self.template().ring.iter().zip(&self.batch.ring_nodes) {
            let targets = field[position as usize * count * LANES..].chunks_mut(LANES);
            for (target, x) in targets.zip(x.chunks(num_nodes + 1)) {
                target.iter_mut().zip(nodes).for_each(|(target, &node)| *target = x[node as usize]);
            }
        }
        self.backward(factor, field, count);
    }

    /// The cells of the blocks, of one right-hand side.
    fn read_cells<T: Kernels>(&self, field: &mut [T], row: usize, out: &mut [f64], count: usize) {
        let (field, room) = self.split_field(field, count);
        self.batch.cells.store(self.simd, (field, row, count), room, out);
    }
}
