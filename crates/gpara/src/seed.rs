//! One seed, many named streams: the same numbers for any batch size, thread count or order of use.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_core::Rng;
use rand_distr::{Distribution, StandardNormal};
use sha2::{Digest, Sha256};

/// The root of all randomness of a run.
///
/// A stream is addressed by its name, e.g. `prior/3` or `probe/round7/2`; its key is the SHA-256 of seed and name, its
/// generator ChaCha8 (counter-based), so two streams never share state and sample 3 does not depend on sample 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedTree {
    seed: u64,
}

impl SeedTree {
    /// The tree of one seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed this tree was made from.
    pub fn seed(self) -> u64 {
        self.seed
    }

    /// A tree of its own for a part of the work, e.g. one scene of an evaluation.
    pub fn subtree(self, name: &str) -> Self {
        let mut stream = self.stream(&format!("subtree/{name}"));
        Self { seed: stream.0.next_u64() }
    }

    /// The stream of that name, from its beginning.
    pub fn stream(self, name: &str) -> Stream {
        let mut hash = Sha256::new();
        hash.update(b"gpara stream 1\0");
        hash.update(self.seed.to_le_bytes());
        hash.update(name.as_bytes());
        Stream(ChaCha8Rng::from_seed(hash.finalize().into()))
    }
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// A standard normal number.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Fills `values` with standard normal numbers.
    pub fn fill_normal(&mut self, values: &mut [f64]) {
        values.iter_mut().for_each(|value| *value = self.normal());
    }

    /// A number uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        // 53 random bits: every f64 multiple of 2^-53 in [0, 1) is equally likely.
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// An index uniform in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is zero.
    #[track_caller]
    pub fn index(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "index needs a positive bound");
        let bound = bound as u64;
        // Rejection removes the modulo bias.
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let draw = self.0.next_u64();
            if draw < limit {
                return (draw % bound) as usize;
            }
        }
    }

    /// A Rademacher number, -1 or +1 with equal probability (Eq. B.28).
    pub fn sign(&mut self) -> f64 {
        if self.0.next_u32() & 1 == 1 { 1.0 } else { -1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_name_and_seed() {
        let tree = SeedTree::new(7);
        let draw = |tree: SeedTree, name: &str| tree.stream(name).normal();
        assert_eq!(draw(tree, "prior/3").to_bits(), draw(tree, "prior/3").to_bits());
        assert_ne!(draw(tree, "prior/3").to_bits(), draw(tree, "prior/4").to_bits());
        assert_ne!(draw(tree, "prior/3").to_bits(), draw(SeedTree::new(8), "prior/3").to_bits());
    }

    #[test]
    fn uniform_index_and_sign_have_the_right_mean() {
        let mut stream = SeedTree::new(1).stream("test");
        let count = 20_000;
        let uniform: f64 = (0..count).map(|_| stream.uniform()).sum::<f64>() / count as f64;
        let index: f64 = (0..count).map(|_| stream.index(5) as f64).sum::<f64>() / count as f64;
        let sign: f64 = (0..count).map(|_| stream.sign()).sum::<f64>() / count as f64;
        // Five standard errors of each mean.
        assert!((uniform - 0.5).abs() < 5.0 * (1.0 / 12.0f64).sqrt() / (count as f64).sqrt());
        assert!((index - 2.0).abs() < 5.0 * 2.0f64.sqrt() / (count as f64).sqrt());
        assert!(sign.abs() < 5.0 / (count as f64).sqrt());
    }
}
