//! Two scales of one depth: normalised [-1, 1] (networks) and metres (people).

/// Depth in metres of normalised 1; normalised -1 is 0 m.
pub const DEPTH_RANGE_METERS: f64 = 10.0;

/// Normalised value of a depth in metres: `2 depth / 10 - 1`, not clipped.
pub fn normalized_from_meters(meters: f64) -> f64 {
    2.0 * meters / DEPTH_RANGE_METERS - 1.0
}

/// Depth in metres of a normalised value.
pub fn meters_from_normalized(normalized: f64) -> f64 {
    DEPTH_RANGE_METERS * (normalized + 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middle_of_the_range_map_to_each_other() {
        for (normalized, meters) in [(-1.0, 0.0), (0.0, 5.0), (1.0, 10.0), (-0.5, 2.5)] {
            assert_eq!(normalized_from_meters(meters), normalized);
            assert_eq!(meters_from_normalized(normalized), meters);
        }
    }
}
