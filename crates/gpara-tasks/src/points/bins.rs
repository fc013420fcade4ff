//! Many samples in one cell: their mean, and the noise of that mean from their spread.

use std::collections::BTreeMap;

use gpara::Result;

use super::error::PointError;
use super::place::Point;
use crate::units::{Averaging, decibels_from_power, power_from_decibels};

/// How samples of one cell become one measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BinSettings {
    /// The domain of the mean; none for values that are not in dB, which are averaged as they are.
    pub averaging: Option<Averaging>,
    /// Smallest standard deviation of a mean, in the values' unit (dB for dBm): what samples of a cell have in common, such
    /// as calibration, does not average out.
    pub sigma_floor: f64,
    /// The spread of all cells together counts as this many samples in each cell, so that two samples that happen to agree
    /// do not claim to be exact.
    pub shared_samples: f64,
}

/// One cell's measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BinnedPoint {
    /// The cell.
    pub node: usize,
    /// Mean of its samples.
    pub value: f64,
    /// Standard deviation of the mean.
    pub sigma: f64,
    /// Number of its samples.
    pub num_samples: usize,
}

/// What was done to the samples.
#[derive(Debug, Clone, PartialEq)]
pub struct BinReport {
    /// The settings.
    pub settings: BinSettings,
    /// Samples that came in.
    pub num_samples: usize,
    /// Cells that came out.
    pub num_cells: usize,
    /// Cells of more than one sample.
    pub num_merged_cells: usize,
    /// Samples in the fullest cell.
    pub largest_bin: usize,
    /// Standard deviation of single samples around the means of their cells; none if no cell has two.
    pub spread: Option<f64>,
    /// Cells whose sigma is the floor.
    pub num_at_floor: usize,
}

impl std::fmt::Display for BinReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { num_samples, num_cells, num_merged_cells, largest_bin, .. } = self;
        let domain = self.settings.averaging.map_or("value", Averaging::name);
        write!(
            f,
            "{num_samples} samples in {num_cells} cells, {num_merged_cells} of them merged (at most {largest_bin}, mean of {domain})"
        )
    }
}

/// Mean and squared deviations of one cell's samples, deviations in the values' unit.
struct Bin {
    value: f64,
    squares: f64,
    num_samples: usize,
    // Variance of the mean by the samples' own sigmas.
    declared_variance: f64,
}

/// Merges the samples of each cell; cells come out in increasing order, and the order of `points` does not matter.
///
/// With n samples of mean m and deviations d, pooled variance v of all cells and k shared samples, the mean has the variance
/// `(sum d^2 + k v) / (n - 1 + k) / n`, or that of the samples' own sigmas or the floor if they are larger. A cell of one
/// sample has the pooled variance. For the mean of powers p, deviations are those of the power turned to dB at the mean,
/// `10 / ln 10 (p - m) / m`.
///
/// # Errors
/// `NonFinite` for a sample that is not; `InvalidInput` for a negative floor or number of shared samples, or if no spread is
/// known (no cell has two samples), the floor is 0 and a sample has no sigma.
pub fn bin_samples(points: &[Point], settings: BinSettings) -> Result<(Vec<BinnedPoint>, BinReport)> {
    let not_negative = |value: f64| value.is_finite() && value >= 0.0;
    let allowed = "finite and at least 0";
    if !not_negative(settings.sigma_floor) {
        return Err(PointError::Setting { name: "sigma floor", value: settings.sigma_floor, allowed }.into());
    }
    if !not_negative(settings.shared_samples) {
        return Err(PointError::Setting { name: "shared samples", value: settings.shared_samples, allowed }.into());
    }
    let mut cells: BTreeMap<usize, Vec<Point>> = BTreeMap::new();
    for point in points {
        if !point.value.is_finite() {
            return Err(PointError::BinValue { item: "line", number: point.line, value: point.value }.into());
        }
        cells.entry(point.node).or_default().push(*point);
    }
    let bins: BTreeMap<usize, Bin> =
        cells.into_iter().map(|(node, samples)| (node, bin(samples, settings.averaging))).collect();
    let degrees: usize = bins.values().map(|bin| bin.num_samples - 1).sum();
    let pooled = (degrees > 0).then(|| bins.values().map(|bin| bin.squares).sum::<f64>() / degrees as f64);

    let mut num_at_floor = 0;
    let mut binned = Vec::with_capacity(bins.len());
    for (&node, bin) in &bins {
        let num_samples = bin.num_samples as f64;
        let weight = num_samples - 1.0 + settings.shared_samples;
        // A cell of one sample without shared ones knows nothing of its own.
        let variance = match pooled {
            Some(pooled) if weight == 0.0 => pooled,
            Some(pooled) => (bin.squares + settings.shared_samples * pooled) / weight,
            None => 0.0,
        };
        let sigma = (variance / num_samples).max(bin.declared_variance).sqrt();
        num_at_floor += usize::from(sigma <= settings.sigma_floor);
        let sigma = sigma.max(settings.sigma_floor);
        if sigma == 0.0 && pooled.is_none() && bin.declared_variance == 0.0 {
            let allowed = "above 0, since no cell has two samples that could show their spread";
            return Err(PointError::Setting { name: "sigma floor", value: 0.0, allowed }.into());
        }
        binned.push(BinnedPoint { node, value: bin.value, sigma, num_samples: bin.num_samples });
    }
    let report = BinReport {
        settings,
        num_samples: points.len(),
        num_cells: bins.len(),
        num_merged_cells: bins.values().filter(|bin| bin.num_samples > 1).count(),
        largest_bin: bins.values().map(|bin| bin.num_samples).max().unwrap_or(0),
        spread: pooled.map(f64::sqrt),
        num_at_floor,
    };
    Ok((binned, report))
}

fn bin(mut samples: Vec<Point>, averaging: Option<Averaging>) -> Bin {
    // Sums in one order, whatever the order of the file.
    let sigma = |point: &Point| point.sigma.unwrap_or(0.0);
    samples.sort_by(|a, b| a.value.total_cmp(&b.value).then(sigma(a).total_cmp(&sigma(b))));
    let num_samples = samples.len() as f64;
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / num_samples;
    let (value, squares) = match averaging {
        Some(Averaging::LinearPower) => {
            // Relative to the strongest sample, so that no power under- or overflows.
            let strongest = samples[samples.len() - 1].value;
            let powers: Vec<f64> = samples.iter().map(|sample| power_from_decibels(sample.value - strongest)).collect();
            let average = mean(&mut powers.iter().copied());
            let decibels_per_part = 10.0 / std::f64::consts::LN_10;
            let deviation = |power: &f64| decibels_per_part * (power - average) / average;
            (strongest + decibels_from_power(average), powers.iter().map(|power| deviation(power).powi(2)).sum())
        }
        Some(Averaging::Decibel) | None => {
            let average = mean(&mut samples.iter().map(|sample| sample.value));
            (average, samples.iter().map(|sample| (sample.value - average).powi(2)).sum())
        }
    };
    let declared_variance = samples.iter().map(|sample| sigma(sample).powi(2)).sum::<f64>() / num_samples.powi(2);
    Bin { value, squares, num_samples: samples.len(), declared_variance }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    fn point(node: usize, value: f64) -> Point {
        Point { line: 1, node, value, sigma: None }
    }

    fn settings(averaging: Option<Averaging>) -> BinSettings {
        BinSettings { averaging, sigma_floor: 0.0, shared_samples: 0.0 }
    }

    #[test]
    fn users_06_samples_of_a_cell_merge_and_the_merges_are_reported() {
        let points = [point(7, 3.0), point(2, 1.0), point(7, 5.0), point(7, 4.0), point(9, 8.0)];
        let (binned, report) = bin_samples(&points, settings(None)).unwrap();
        assert_eq!(
            binned.iter().map(|bin| (bin.node, bin.value, bin.num_samples)).collect::<Vec<_>>(),
            [(2, 1.0, 1), (7, 4.0, 3), (9, 8.0, 1)]
        );
        assert_eq!((report.num_samples, report.num_cells, report.num_merged_cells, report.largest_bin), (5, 3, 1, 3));
        // Spread 1 of single samples: 1 / sqrt(3) of the mean of three, 1 of a single one.
        assert_eq!(report.spread, Some(1.0));
        assert!((binned[1].sigma - 1.0 / 3.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(binned[0].sigma, 1.0);
        assert!(report.to_string().contains("5 samples in 3 cells, 1 of them merged"), "{report}");
    }

    #[test]
    fn mean_is_taken_in_the_declared_domain() {
        let points = [point(0, -80.0), point(0, -90.0)];
        let decibel = bin_samples(&points, settings(Some(Averaging::Decibel))).unwrap().0[0];
        assert_eq!(decibel.value, -85.0);
        let linear = bin_samples(&points, settings(Some(Averaging::LinearPower))).unwrap().0[0];
        // The mean of 1e-8 and 1e-9 is 5.5e-9.
        assert!((linear.value - 10.0 * 5.5e-9_f64.log10()).abs() < 1e-9, "{}", linear.value);
        // Relative deviations 4.5 / 5.5 each way.
        let expected = 10.0 / 10.0_f64.ln() * (4.5 / 5.5) * 2.0_f64.sqrt() / 2.0_f64.sqrt();
        assert!((linear.sigma - expected).abs() < 1e-9, "{} {expected}", linear.sigma);
        // Powers far below the smallest number do not vanish.
        let weak = [point(0, -5000.0), point(0, -5000.0)];
        let weak = bin_samples(&weak, settings(Some(Averaging::LinearPower))).unwrap().0[0];
        assert_eq!(weak.value, -5000.0);
    }

    #[test]
    fn users_20_order_of_samples_does_not_change_a_bit() {
        let mut points: Vec<Point> =
            (0..300_u32).map(|step| point((step % 7) as usize, -90.0 + f64::from(step * step % 101) / 7.0)).collect();
        for averaging in [None, Some(Averaging::LinearPower), Some(Averaging::Decibel)] {
            let settings = BinSettings { averaging, sigma_floor: 0.5, shared_samples: 4.0 };
            let forward = bin_samples(&points, settings).unwrap();
            points.reverse();
            assert_eq!(bin_samples(&points, settings).unwrap(), forward);
        }
    }

    #[test]
    fn sigma_never_falls_below_the_floor_or_the_samples_own() {
        let same = [point(0, 4.0), point(0, 4.0)];
        let floor = BinSettings { averaging: None, sigma_floor: 0.5, shared_samples: 4.0 };
        let (binned, report) = bin_samples(&same, floor).unwrap();
        assert_eq!((binned[0].sigma, report.num_at_floor), (0.5, 1));
        let declared = same.map(|point| Point { sigma: Some(2.0), ..point });
        // Two samples of sigma 2: 2 / sqrt(2).
        assert!((bin_samples(&declared, floor).unwrap().0[0].sigma - 2.0_f64.sqrt()).abs() < 1e-12);
        // Two that agree and two that do not: the shared spread keeps the first cell honest.
        let mixed = [point(0, 4.0), point(0, 4.0), point(1, 0.0), point(1, 2.0)];
        let (binned, _) = bin_samples(&mixed, BinSettings { sigma_floor: 0.0, ..floor }).unwrap();
        // Pooled variance 1, four shared samples, one degree of freedom, two samples.
        assert!((binned[0].sigma - (4.0_f64 / 5.0 / 2.0).sqrt()).abs() < 1e-12, "{}", binned[0].sigma);
    }

    #[test]
    fn settings_and_values_that_mean_nothing_are_refused() {
        let bad = |settings| bin_samples(&[point(0, 1.0)], settings).unwrap_err().kind();
        assert_eq!(bad(settings(None)), ErrorKind::InvalidInput);
        assert_eq!(bad(BinSettings { sigma_floor: -1.0, ..settings(None) }), ErrorKind::InvalidInput);
        assert_eq!(bad(BinSettings { shared_samples: f64::NAN, ..settings(None) }), ErrorKind::InvalidInput);
        let floor = BinSettings { sigma_floor: 1.0, ..settings(None) };
        assert_eq!(bin_samples(&[point(0, f64::NAN)], floor).unwrap_err().kind(), ErrorKind::NonFinite);
        assert_eq!(bin_samples(&[], floor).unwrap().1.num_cells, 0);
    }
}
