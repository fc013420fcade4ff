//! Loops over long vectors: cut into blocks of fixed length, so that threads share the work and the bits stay the same.

use rayon::prelude::*;

use super::Real;

/// Values of one block. Two blocks of f64 fit a first-level cache; sums are taken a block at a time.
pub(super) const BLOCK: usize = 2048;

/// Vectors of at least this many values are worked on by several threads; shorter ones cost less than the hand-over.
const PARALLEL_LENGTH: usize = 1 << 17;

/// Partial sums of a dot product; enough independent chains to fill the widest vectors.
const LANES: usize = 32;

/// Runs plain loops compiled for the widest vector instructions of this machine. Multiplications and additions are never
/// fused, so the bits do not depend on the machine.
pub(super) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// `work(start, block)` on every block of `out`.
pub(super) fn for_each_block<T: Real>(out: &mut [T], work: impl Fn(usize, &mut [T]) + Sync) {
    if out.len() < PARALLEL_LENGTH {
        out.chunks_mut(BLOCK).enumerate().for_each(|(at, block)| vectorized(|| work(at * BLOCK, block)));
    } else {
        out.par_chunks_mut(BLOCK).enumerate().for_each(|(at, block)| vectorized(|| work(at * BLOCK, block)));
    }
}

/// `combine(out, other)` on every value.
pub(super) fn zip_with<T: Real>(out: &mut [T], other: &[T], combine: impl Fn(&mut T, T) + Sync) {
    for_each_block(out, |start, block| {
        block.iter_mut().zip(&other[start..]).for_each(|(value, &other)| combine(value, other));
    });
}

/// The sum of `a[i] b[i]`: inside a block in the type itself, over blocks in f64, always in the same order.
pub(crate) fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    let product = |(a, b): (&[T], &[T])| vectorized(|| block_dot(a, b)).to_f64();
    if a.len() < PARALLEL_LENGTH {
        a.chunks(BLOCK).zip(b.chunks(BLOCK)).map(product).sum()
    } else {
        let sums: Vec<f64> = a.par_chunks(BLOCK).zip(b.par_chunks(BLOCK)).map(product).collect();
        sums.into_iter().sum()
    }
}

/// sqrt of the sum of `r[i]^2 / d[i]`, in the same fixed order.
pub(super) fn weighted_norm<T: Real>(r: &[T], d: &[T]) -> f64 {
    let term = |(r, d): (&[T], &[T])| {
        let mut scaled = [T::default(); BLOCK];
        vectorized(|| {
            scaled.iter_mut().zip(r).zip(d).for_each(|((out, &r), &d)| *out = r / d);
            block_dot(&scaled[..r.len()], r)
        })
        .to_f64()
    };
    let sums: Vec<f64> = if r.len() < PARALLEL_LENGTH {
        r.chunks(BLOCK).zip(d.chunks(BLOCK)).map(term).collect()
    } else {
        r.par_chunks(BLOCK).zip(d.par_chunks(BLOCK)).map(term).collect()
    };
    sums.into_iter().sum::<f64>().sqrt()
}

#[inline(always)]
fn block_dot<T: Real>(a: &[T], b: &[T]) -> T {
    let (a_groups, a_rest) = a.as_chunks::<LANES>();
    let (b_groups, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [T::default(); LANES];
    for (a, b) in a_groups.iter().zip(b_groups) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    a_rest.iter().zip(b_rest).zip(&mut sums).for_each(|((&a, &b), sum)| *sum += a * b);
    // Halving keeps the rounding error of the sum small and its order fixed.
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] = sums[lane] + sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
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
