//! Three scales of one gain: normalised [-1, 1] (networks), gray 0..255 (files), dB (people).

/// Path gain of gray 0, in dB (RadioMapSeer's constant).
pub const GAIN_FLOOR_DB: f64 = -147.0;

/// Path gain of gray 255 minus that of gray 0, in dB; gray 255 is -47.84 dB.
pub const GAIN_RANGE_DB: f64 = 99.16;

/// Normalised value of cells that are not part of the field (buildings).
pub const INVALID_VALUE: f32 = -1.0;

/// Normalised value of a gray value: `2 gray / 255 - 1`.
pub fn normalized_from_gray(gray: f64) -> f64 {
    2.0 * gray / 255.0 - 1.0
}

/// Gray value, not rounded, of a normalised value: `255 (normalized + 1) / 2`.
pub fn gray_from_normalized(normalized: f64) -> f64 {
    255.0 * (normalized + 1.0) / 2.0
}

/// Path gain in dB of a gray value. Gray 0 also stands for every gain below the floor.
pub fn gain_db_from_gray(gray: f64) -> f64 {
    GAIN_FLOOR_DB + GAIN_RANGE_DB * gray / 255.0
}

/// Gray value, neither rounded nor clipped, of a path gain in dB; outside 0..=255 for gains a file cannot hold.
pub fn gray_from_gain_db(gain_db: f64) -> f64 {
    255.0 * (gain_db - GAIN_FLOOR_DB) / GAIN_RANGE_DB
}

/// Path gain in dB of a normalised value.
pub fn gain_db_from_normalized(normalized: f64) -> f64 {
    gain_db_from_gray(gray_from_normalized(normalized))
}

/// Normalised value of a path gain in dB, not clipped.
pub fn normalized_from_gain_db(gain_db: f64) -> f64 {
    normalized_from_gray(gray_from_gain_db(gain_db))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_the_range_map_to_each_other() {
        let rows = [(-1.0, 0.0, -147.0), (1.0, 255.0, -47.84), (0.0, 127.5, -97.42)];
        for (normalized, gray, gain_db) in rows {
            assert!((normalized_from_gray(gray) - normalized).abs() < 1e-12, "gray {gray}");
            assert!((gray_from_normalized(normalized) - gray).abs() < 1e-12, "normalized {normalized}");
            assert!((gain_db_from_gray(gray) - gain_db).abs() < 1e-12, "gray {gray}");
            assert!((gray_from_gain_db(gain_db) - gray).abs() < 1e-10, "gain {gain_db} dB");
            assert!((gain_db_from_normalized(normalized) - gain_db).abs() < 1e-12, "normalized {normalized}");
            assert!((normalized_from_gain_db(gain_db) - normalized).abs() < 1e-12, "gain {gain_db} dB");
        }
    }

    #[test]
    fn one_gray_step_is_0_389_db() {
        assert!((gain_db_from_gray(101.0) - gain_db_from_gray(100.0) - 0.389).abs() < 5e-4);
    }
}
