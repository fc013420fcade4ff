//! Means and paired differences over scenes, with bootstrap intervals.

use std::collections::BTreeMap;

use gpara::SeedTree;

use crate::case::Case;

/// Resamples of the scenes behind an interval.
const NUM_RESAMPLES: usize = 2000;
/// Seed of the resamples: the same cases give the same interval.
const BOOTSTRAP_SEED: u64 = 0x6770_6172;

/// A mean over scenes with its 95 % interval (percentiles of the bootstrap over scenes).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of scenes.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Lower end of the interval; the mean for a single scene.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Summary {
    /// Summary of one value a scene, `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let mut stream = SeedTree::new(BOOTSTRAP_SEED).stream("bootstrap");
        let mut means: Vec<f64> = (0..NUM_RESAMPLES)
            .map(|_| (0..count).map(|_| values[stream.index(count)]).sum::<f64>() / count as f64)
            .collect();
        means.sort_by(f64::total_cmp);
        let at = |share: f64| means[((NUM_RESAMPLES - 1) as f64 * share).round() as usize];
        Some(Self { count, mean, low: at(0.025), high: at(0.975) })
    }

    /// Half of the interval's width.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }
}

/// Whether a smaller value of a number is the better one.
pub(crate) fn smaller_is_better(number: &str) -> bool {
    !matches!(number, "ssim" | "psnr" | "delta1" | "spearman")
}

/// The values of one number of one method, the mean of its repeats, by scene.
pub(crate) fn by_scene(cases: &[Case], method: &str, number: &str) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, u32)> = BTreeMap::new();
    for case in cases.iter().filter(|case| case.method == method) {
        if let Some(&value) = case.values.get(number) {
            let entry = sums.entry(case.scene.clone()).or_insert((0.0, 0));
            *entry = (entry.0 + value, entry.1 + 1);
        }
    }
    sums.into_iter().map(|(scene, (sum, count))| (scene, sum / f64::from(count))).collect()
}

/// Summary of one number of one method; `None` if it was not run.
pub(crate) fn summary(cases: &[Case], method: &str, number: &str) -> Option<Summary> {
    Summary::of(&by_scene(cases, method, number).into_values().collect::<Vec<_>>())
}

/// Two methods on the scenes that both were run on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Mean of `method - rival` with its interval.
    pub difference: Summary,
    /// Scenes on which the method is better.
    pub wins: usize,
    /// Whether a smaller number is better.
    pub smaller_is_better: bool,
}

impl Comparison {
    /// Whether the method is better: the whole interval lies on the better side of 0. One scene has no interval.
    pub fn is_better(&self) -> bool {
        if self.difference.count < 2 {
            return false;
        }
        if self.smaller_is_better { self.difference.high < 0.0 } else { self.difference.low > 0.0 }
    }

    /// Whether the method is worse: the whole interval lies on the worse side of 0. One scene has no interval.
    pub fn is_worse(&self) -> bool {
        if self.difference.count < 2 {
            return false;
        }
        if self.smaller_is_better { self.difference.low > 0.0 } else { self.difference.high < 0.0 }
    }

    /// `better`, `worse`, or `no difference` where the interval holds 0.
    pub fn verdict(&self) -> &'static str {
        match (self.is_better(), self.is_worse()) {
            (true, _) => "better",
            (_, true) => "worse",
            _ => "no difference",
        }
    }
}

/// Compares two methods scene by scene; `None` if they have no scene in common.
pub fn compare(cases: &[Case], method: &str, rival: &str, number: &str) -> Option<Comparison> {
    let rivals = by_scene(cases, rival, number);
    let differences: Vec<f64> = by_scene(cases, method, number)
        .into_iter()
        .filter_map(|(scene, value)| rivals.get(&scene).map(|rival| value - rival))
        .collect();
    let smaller_is_better = smaller_is_better(number);
    let won = |difference: &&f64| if smaller_is_better { **difference < 0.0 } else { **difference > 0.0 };
    let wins = differences.iter().filter(won).count();
    Summary::of(&differences).map(|difference| Comparison { difference, wins, smaller_is_better })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A case with one number.
    pub(crate) fn case(method: &str, scene: &str, number: &str, value: f64) -> Case {
        Case {
            method: method.into(),
            scene: scene.into(),
            repeat: 0,
            seed: 0,
            settings: String::new(),
            code: String::new(),
            weights: BTreeMap::new(),
            points: String::new(),
            values: BTreeMap::from([(number.into(), value)]),
        }
    }

    #[test]
    fn interval_of_normal_numbers_is_near_two_standard_errors() {
        let mut stream = SeedTree::new(5).stream("x");
        let values: Vec<f64> = (0..400).map(|_| 3.0 + stream.normal()).collect();
        let summary = Summary::of(&values).unwrap();
        assert!((summary.half_width() - 1.96 / 20.0).abs() < 0.012, "{}", summary.half_width());
        assert!(summary.low < summary.mean && summary.mean < summary.high);
        assert_eq!(Summary::of(&[2.0]), Some(Summary { count: 1, mean: 2.0, low: 2.0, high: 2.0 }));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn better_is_said_only_where_the_interval_excludes_zero() {
        let mut cases = Vec::new();
        for scene in 0..20 {
            let name = format!("{scene}");
            cases.push(case("base", &name, "rmse", 1.0 + f64::from(scene)));
            cases.push(case("small", &name, "rmse", 0.9 + f64::from(scene) + 0.01 * f64::from(scene % 3)));
            cases.push(case("mixed", &name, "rmse", 1.0 + f64::from(scene) + if scene % 2 == 0 { 0.1 } else { -0.1 }));
        }
        let small = compare(&cases, "small", "base", "rmse").unwrap();
        assert!((small.difference.mean + 0.09).abs() < 0.01 && small.wins == 20 && small.verdict() == "better");
        assert_eq!(compare(&cases, "base", "small", "rmse").unwrap().verdict(), "worse");
        let mixed = compare(&cases, "mixed", "base", "rmse").unwrap();
        assert_eq!((mixed.verdict(), mixed.wins), ("no difference", 10));
        assert_eq!(compare(&cases, "base", "nobody", "rmse"), None);
    }

    #[test]
    fn larger_is_better_for_similarity() {
        let cases: Vec<Case> = (0..9)
            .flat_map(|scene| {
                let name = format!("{scene}");
                [case("a", &name, "ssim", 0.9), case("b", &name, "ssim", 0.8)]
            })
            .collect();
        assert_eq!(compare(&cases, "a", "b", "ssim").unwrap().verdict(), "better");
    }

    #[test]
    fn one_scene_decides_nothing() {
        let compared = compare(&[case("a", "s", "rmse", 0.1), case("b", "s", "rmse", 0.8)], "a", "b", "rmse").unwrap();
        assert_eq!((compared.verdict(), compared.wins), ("no difference", 1));
    }

    #[test]
    fn repeats_of_a_scene_count_once_by_their_mean() {
        let second = Case { repeat: 1, ..case("a", "s", "rmse", 3.0) };
        assert_eq!(summary(&[case("a", "s", "rmse", 1.0), second], "a", "rmse").unwrap().mean, 2.0);
    }
}
