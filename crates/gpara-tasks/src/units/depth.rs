//! Depths in metres: which are values at all, and which look like another unit.

use gpara::{Result, ValidMask};

use crate::field::Field;

/// Median depths of indoor and street scenes, in metres; anything else is likely a wrong scale.
const USUAL_MEDIAN_M: std::ops::RangeInclusive<f64> = 0.1..=20.0;

/// The cells that hold a depth: finite and above 0, since 0 means missing.
///
/// # Errors
/// `InvalidInput` if no cell does.
pub fn valid_depths(field: &Field) -> Result<ValidMask> {
    ValidMask::new(field.grid(), field.values().iter().map(|depth| depth.is_finite() && *depth > 0.0).collect())
}

/// A warning if the median of the valid depths is outside of 0.1 to 20 m; `flag` is what sets the scale.
pub fn depth_warning(field: &Field, valid: &ValidMask, flag: &str) -> Option<String> {
    let mut depths: Vec<f64> = valid.nodes().filter_map(|node| field.values().get(node).copied()).collect();
    depths.sort_by(f64::total_cmp);
    let median = *depths.get(depths.len().checked_sub(1)? / 2)?;
    if USUAL_MEDIAN_M.contains(&median) {
        return None;
    }
    let (low, high) = (USUAL_MEDIAN_M.start(), USUAL_MEDIAN_M.end());
    Some(format!("median depth is {median} m, usual are {low} to {high} m; if the scale is wrong, set {flag}"))
}

#[cfg(test)]
mod tests {
    use gpara::Grid;

    use super::*;

    fn field(values: Vec<f64>) -> Field {
        Field::new(Grid::new(1, values.len()).unwrap(), values).unwrap()
    }

    #[test]
    fn users_01_missing_zero_negative_and_infinite_depths_are_invalid() {
        let depths = field(vec![1.0, f64::NAN, 0.0, -0.0, -2.0, f64::INFINITY, 0.5]);
        assert_eq!(valid_depths(&depths).unwrap().nodes().collect::<Vec<_>>(), [0, 6]);
        assert!(valid_depths(&field(vec![0.0, f64::NAN])).is_err());
    }

    #[test]
    fn users_08_median_depth_outside_0_1_to_20_m_warns_with_the_flag() {
        for (scale, warns) in [(1.0, false), (1e-3, true), (1000.0, true)] {
            let depths = field(vec![0.0, 2.0 * scale, 3.0 * scale, 4.0 * scale]);
            let warning = depth_warning(&depths, &valid_depths(&depths).unwrap(), "--depth-scale");
            assert_eq!(warning.is_some(), warns, "{scale}");
            assert!(
                warning.is_none_or(|text| text.contains("--depth-scale") && text.contains(&(3.0 * scale).to_string()))
            );
        }
    }
}
