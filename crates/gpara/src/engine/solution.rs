//! Solves with a factorisation: up the blocks and the separators, and down again.

use super::block_solve::SolveBuffers;
use super::factorization::{Factorization, trunk_work, works};
use super::real::LANES;
use super::simd::Kernels;

/// Buffers of a solve, so that further ones allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct SolveScratch<T> {
    /// One row a right-hand side: `num_nodes` values and a 0.
    x: Vec<T>,
    /// Positions of the template, one vector for each right-hand side, batch after batch.
    fields: Vec<T>,
    buffers: SolveBuffers<T>,
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
        scratch.buffers.count = rhs.len() / num_nodes;
        scratch.x.clear();
        for row in rhs.chunks(num_nodes) {
            scratch.x.extend(row.iter().map(|value| T::from_f64(*value)));
            scratch.x.push(T::ZERO);
        }
        self.solve_up(scratch);
        let trunk = trunk_work(&self.plan, &self.trunk_layout, self.simd);
        trunk.backward(&self.fronts, &mut scratch.x, &mut scratch.buffers);
        self.solve_down(scratch);
        for (out, x) in out.chunks_mut(num_nodes).zip(scratch.x.chunks(num_nodes + 1)) {
            out.iter_mut().zip(x).for_each(|(out, value)| *out = value.to_f64());
        }
    }

    fn solve_up(&self, scratch: &mut SolveScratch<T>) {
        let (template, num_nodes) = (&self.plan.template, self.plan.grid().num_nodes());
        let works = works(&self.plan, &self.offsets, self.simd);
        let count = scratch.buffers.count;
        let len = template.num_positions * count * LANES;
        scratch.fields.clear();
        scratch.fields.resize(len * self.batches.len(), T::ZERO);
        for (at, field) in scratch.fields.chunks_mut(len).enumerate() {
            let batch = &self.plan.batches[at];
            let order = template.dissection.fronts.iter().flat_map(|front| &front.pivots);
            let mut any = false;
            for (&position, nodes) in order.zip(&batch.pivot_nodes) {
                let targets = field[position as usize * count * LANES..].chunks_mut(LANES);
                for (target, x) in targets.zip(scratch.x.chunks(num_nodes + 1)) {
                    target.iter_mut().zip(nodes).for_each(|(target, &node)| *target = x[node as usize]);
                    any |= target.iter().any(|&value| value != T::ZERO);
                }
            }
            // The right-hand side of a column of the inverse is 0 in all batches but one.
            if !any {
                continue;
            }
            works(at).forward(&self.batches[at], field, &mut scratch.buffers);
            for (&position, nodes) in template.ring.iter().zip(&batch.ring_nodes) {
                let sources = field[position as usize * count * LANES..].chunks(LANES);
                for (source, x) in sources.zip(scratch.x.chunks_mut(num_nodes + 1)) {
                    for (&node, value) in nodes.iter().zip(source) {
                        if (node as usize) < num_nodes {
                            x[node as usize] += *value;
                        }
                    }
                }
            }
        }
        let trunk = trunk_work(&self.plan, &self.trunk_layout, self.simd);
        trunk.forward(&self.fronts, &mut scratch.x, &mut scratch.buffers);
    }

    fn solve_down(&self, scratch: &mut SolveScratch<T>) {
        let (template, num_nodes) = (&self.plan.template, self.plan.grid().num_nodes());
        let works = works(&self.plan, &self.offsets, self.simd);
        let count = scratch.buffers.count;
        let len = template.num_positions * count * LANES;
        for (at, field) in scratch.fields.chunks_mut(len).enumerate() {
            let batch = &self.plan.batches[at];
            for (&position, nodes) in template.ring.iter().zip(&batch.ring_nodes) {
                let targets = field[position as usize * count * LANES..].chunks_mut(LANES);
                for (target, x) in targets.zip(scratch.x.chunks(num_nodes + 1)) {
                    target.iter_mut().zip(nodes).for_each(|(target, &node)| *target = x[node as usize]);
                }
            }
            works(at).backward(&self.batches[at], field, &mut scratch.buffers);
            let order = template.dissection.fronts.iter().flat_map(|front| &front.pivots);
            for (&position, nodes) in order.zip(&batch.pivot_nodes) {
                let sources = field[position as usize * count * LANES..].chunks(LANES);
                for (source, x) in sources.zip(scratch.x.chunks_mut(num_nodes + 1)) {
                    for (&node, value) in nodes.iter().zip(source) {
                        if (node as usize) < num_nodes {
                            x[node as usize] = *value;
                        }
                    }
                }
            }
        }
    }
}
