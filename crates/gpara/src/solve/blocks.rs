//! Loops over long vectors: cut into blocks of fixed length, so that threads share the work and the bits stay the same.

use rayon::prelude::*;

use super::Real;

/// Values of one block. Two blocks of f64 fit a first-level cache; sums are taken a block at a time.
pub(super) const BLOCK: usize = 2048;

/// Vectors of at least this many values are worked on by several threads; shorter ones cost less than the hand-over.
const PARALLEL_LENGTH: usize = 1 << 17;

/// Partial sums of a dot product; enough independent chains to fill the widest vectors.
const LANES: usize = 32;

/// Runs a plain loop that is compiled for each width of vectors, in the widest of this machine. Multiplications and additions
/// are never fused, so the bits do not depend on the machine.
///
/// The loop is a type of its own instead of a closure, because `call` must be inlined into each of the compiled versions,
/// and a closure cannot ask for that.
pub(crate) fn vectorized<K: pulp::NullaryFnOnce>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(kernel)
}

/// `work(start, block)` on every block of `out`.
pub(super) fn for_each_block<T: Real>(out: &mut [T], work: impl Fn(usize, &mut [T]) + Sync) {
    if out.len() < PARALLEL_LENGTH {
        out.chunks_mut(BLOCK).enumerate().for_each(|(at, block)| work(at * BLOCK, block));
    } else {
        out.par_chunks_mut(BLOCK).enumerate().for_each(|(at, block)| work(at * BLOCK, block));
    }
}

/// `combine(out, other)` on every value.
pub(super) fn zip_with<T: Real>(out: &mut [T], other: &[T], combine: impl Fn(&mut T, T) + Sync) {
    for_each_block(out, |start, block| vectorized(Zip { out: block, other: &other[start..], combine: &combine }));
}

struct Zip<'a, T, F> {
    out: &'a mut [T],
    other: &'a [T],
    combine: &'a F,
}

impl<T: Real, F: Fn(&mut T, T)> pulp::NullaryFnOnce for Zip<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (value, &other) in self.out.iter_mut().zip(self.other) {
            (self.combine)(value, other);
        }
    }
}

/// `out = a / b` on every value.
pub(super) fn divide<T: Real>(out: &mut [T], a: &[T], b: &[T]) {
    for_each_block(out, |start, block| vectorized(Quotient { out: block, a: &a[start..], b: &b[start..] }));
}

struct Quotient<'a, T> {
    out: &'a mut [T],
    a: &'a [T],
    b: &'a [T],
}

impl<T: Real> pulp::NullaryFnOnce for Quotient<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for ((out, &a), &b) in self.out.iter_mut().zip(self.a).zip(self.b) {
            *out = a / b;
        }
    }
}

/// The sum of `a[i] b[i]`: inside a block in the type itself, over blocks in f64, always in the same order.
pub(crate) fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    sum_over_blocks(a, b, |a, b| vectorized(BlockDot { a, b }).to_f64())
}

/// sqrt of the sum of `r[i]^2 / d[i]`, in the same fixed order.
pub(super) fn weighted_norm<T: Real>(r: &[T], d: &[T]) -> f64 {
    let term = |r: &[T], d: &[T]| {
        let mut scaled = [T::default(); BLOCK];
        let scaled = &mut scaled[..r.len()];
        vectorized(Quotient { out: scaled, a: r, b: d });
        vectorized(BlockDot { a: scaled, b: r }).to_f64()
    };
    sum_over_blocks(r, d, term).sqrt()
}

fn sum_over_blocks<T: Real>(a: &[T], b: &[T], term: impl Fn(&[T], &[T]) -> f64 + Sync) -> f64 {
    if a.len() < PARALLEL_LENGTH {
        a.chunks(BLOCK).zip(b.chunks(BLOCK)).map(|(a, b)| term(a, b)).sum()
    } else {
        let sums: Vec<f64> = a.par_chunks(BLOCK).zip(b.par_chunks(BLOCK)).map(|(a, b)| term(a, b)).collect();
        sums.into_iter().sum()
    }
}

struct BlockDot<'a, T> {
    a: &'a [T],
    b: &'a [T],
}

impl<T: Real> pulp::NullaryFnOnce for BlockDot<'_, T> {
    type Output = T;

    #[inline(always)]
    fn call(self) -> T {
        let (a_groups, a_rest) = self.a.as_chunks::<LANES>();
        let (b_groups, b_rest) = self.b.as_chunks::<LANES>();
        let mut sums = [T::default(); LANES];
        for (a, b) in a_groups.iter().zip(b_groups) {
            for lane in 0..LANES {
                sums[lane] += a[lane] * b[lane];
            }
        }
        for ((&a, &b), sum) in a_rest.iter().zip(b_rest).zip(&mut sums) {
            *sum += a * b;
        }
        // Halving keeps the rounding error of the sum small and its order fixed.
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                sums[lane] += sums[lane + width];
            }
            width /= 2;
        }
        sums[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::SeedTree;

    #[test]
    fn dot_has_the_same_bits_on_any_number_of_threads_and_the_right_value() {
        let mut stream = SeedTree::new(1).stream("dot");
        let mut draw = |count: usize| (0..count).map(|_| stream.normal()).collect::<Vec<f64>>();
        for count in [0, 1, 31, 33, BLOCK + 5, PARALLEL_LENGTH + 77] {
            let (a, b) = (draw(count), draw(count));
            let with_threads =
                |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| dot(&a, &b));
            assert_eq!(with_threads(1).to_bits(), with_threads(3).to_bits(), "{count}");
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert!((with_threads(1) - plain).abs() <= 1e-13 * (count as f64 + 1.0), "{count}");
        }
    }
}
