//! Damaged files for the tests of the other crates.
//!
//! An ordinary run looks at the same files each time, so that a change cannot fail by chance; `GPARA_FUZZ_SECONDS=3600` looks for
//! new ones that long, and what it finds is kept as a test of its own with the seed that is printed.

use arbtest::arbtest;

pub use arbtest::arbitrary::{Result, Unstructured};

/// Bytes each ordinary case is drawn from, a few times what the damage of one file takes.
const ORDINARY_SIZE: u64 = 4096;

/// Multiplier of a Weyl sequence, 2^64 divided by the golden ratio: the seeds of ordinary cases lie evenly apart.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// How many cases a search looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Extent {
    Cases(u64),
    Milliseconds(u64),
}

impl Extent {
    /// `seconds` of the environment, shared by `searches` of one test; `cases` without it.
    fn of(seconds: Option<&str>, cases: u64, searches: u64) -> Self {
        seconds.map_or(Self::Cases(cases), |text| {
            let seconds: u64 =
                text.parse().unwrap_or_else(|_| panic!("GPARA_FUZZ_SECONDS={text}: a whole number is needed"));
            Self::Milliseconds(1000 * seconds / searches)
        })
    }
}

/// A search for a case that `property` panics at.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    extent: Extent,
}

impl Search {
    /// The same `cases` each time, or, with `GPARA_FUZZ_SECONDS`, new ones for that long divided by `searches`, the number of
    /// searches of one test.
    ///
    /// # Panics
    /// If `GPARA_FUZZ_SECONDS` is no whole number.
    pub fn ordinary(cases: u64, searches: u64) -> Self {
        Self { extent: Extent::of(std::env::var("GPARA_FUZZ_SECONDS").ok().as_deref(), cases, searches) }
    }

    /// Damages of a whole file: `refuses` says whether what it was given was refused. Prints how many were.
    ///
    /// # Panics
    /// If `refuses` does, or no case is refused, so that nothing was noticed.
    pub fn expect_refusals(self, what: &str, mut refuses: impl FnMut(&mut Unstructured<'_>) -> Result<bool>) {
        let (mut cases, mut refused) = (0_u64, 0_u64);
        self.run(|u| {
            refused += u64::from(refuses(u)?);
            cases += 1;
            Ok(())
        });
        println!("{what}: {cases} cases, {refused} refused");
        assert!(refused > 0, "{what}: no damage was noticed in {cases} cases");
    }

    fn run(self, mut property: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
        match self.extent {
            Extent::Cases(cases) => {
                for case in 1..=cases {
                    // The lower half of a seed is the number of bytes, the upper half is what they are.
                    let seed = case.wrapping_mul(SEED_STEP) >> 32 << 32 | ORDINARY_SIZE;
                    arbtest(&mut property).seed(seed);
                }
            }
            Extent::Milliseconds(milliseconds) => arbtest(property).budget_ms(milliseconds).run(),
        }
    }
}

/// Longest piece that one damage removes or repeats.
const MAX_PIECE: usize = 16;

/// Bytes of one of the `wholes` with one to six of them replaced, flipped, cut off, removed, repeated elsewhere or made extreme;
/// one time in eight arbitrary ones.
///
/// # Errors
/// If `u` has no bytes left.
pub fn damaged<T: AsRef<[u8]>>(u: &mut Unstructured<'_>, wholes: &[T]) -> Result<Vec<u8>> {
    if u.ratio(1, 8)? {
        return Ok(u.bytes(u.len().min(512))?.to_vec());
    }
    let mut bytes = u.choose(wholes)?.as_ref().to_vec();
    for _ in 0..u.int_in_range(1..=6)? {
        if bytes.is_empty() {
            break;
        }
        let at = u.choose_index(bytes.len())?;
        let end = (at + u.int_in_range(1..=MAX_PIECE)?).min(bytes.len());
        match u.int_in_range(0..=5)? {
            0 => bytes[at] = u.arbitrary()?,
            1 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
            2 => bytes.truncate(at),
            3 => {
                let piece = bytes[at..end].to_vec();
                let to = u.choose_index(bytes.len())?;
                bytes.splice(to..to, piece);
            }
            4 => {
                // Lengths and offsets are where absurd sizes hide.
                let extreme = *u.choose(&[[0; 4], [255; 4], [0, 0, 0, 128], [255, 255, 255, 127]])?;
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&extreme[..end - at]);
            }
            _ => drop(bytes.drain(at..end)),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Extent, Search, damaged};

    fn seen(cases: u64) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        Search { extent: Extent::Cases(cases) }.run(|u| {
            seen.push(damaged(u, &[[7; 64]])?);
            Ok(())
        });
        seen
    }

    #[test]
    fn ordinary_cases_are_the_same_each_time_and_differ_from_each_other() {
        let cases = seen(50);
        assert_eq!(cases, seen(50));
        let mut different = cases.clone();
        different.sort();
        different.dedup();
        assert!(different.len() > 45, "{} of {}", different.len(), cases.len());
        let whole = cases.iter().filter(|bytes| bytes[..] == [7; 64]).count();
        assert!(whole < 5, "{whole} cases are not damaged");
    }

    #[test]
    #[should_panic(expected = "seen at last")]
    fn panic_of_a_case_fails_the_search() {
        let mut cases = 0;
        Search { extent: Extent::Cases(9) }.expect_refusals("numbers", |_| {
            cases += 1;
            assert!(cases < 9, "seen at last");
            Ok(true)
        });
    }

    #[test]
    #[should_panic(expected = "no damage was noticed in 9 cases")]
    fn search_that_notices_nothing_fails() {
        Search { extent: Extent::Cases(9) }.expect_refusals("numbers", |_| Ok(false));
    }

    #[test]
    fn seconds_of_the_environment_are_shared_by_the_searches_of_a_test() {
        assert_eq!(Extent::of(None, 40, 9), Extent::Cases(40));
        assert_eq!(Extent::of(Some("18"), 40, 9), Extent::Milliseconds(2000));
    }
}
