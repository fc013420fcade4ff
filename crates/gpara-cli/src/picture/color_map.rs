//! Colour maps computed in OKLab: lightness rises evenly, so that order is readable in print and by colour-blind people.
//!
//! OKLab is Björn Ottosson's space (<https://bottosson.github.io/posts/oklab/>, public domain); the anchors are our own.

/// An sRGB colour.
pub(crate) type Rgb = [u8; 3];

/// The colour of cells that are not part of the field, e.g. buildings; no colour map contains a mid grey.
pub(crate) const INVALID_COLOR: Rgb = [150, 150, 156];

/// What a map shows decides how it is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorMap {
    /// Values of the field: violet, teal, yellow.
    Field,
    /// Absolute errors and standard deviations: black, red, pale yellow.
    Magnitude,
}

/// One anchor in OKLCh: lightness in [0, 1], chroma, hue in degrees.
struct Anchor {
    lightness: f64,
    chroma: f64,
    hue: f64,
}

const FIELD_ANCHORS: [Anchor; 5] = [
    Anchor { lightness: 0.26, chroma: 0.13, hue: 310.0 },
    Anchor { lightness: 0.42, chroma: 0.12, hue: 270.0 },
    Anchor { lightness: 0.59, chroma: 0.10, hue: 205.0 },
    Anchor { lightness: 0.76, chroma: 0.15, hue: 150.0 },
    Anchor { lightness: 0.93, chroma: 0.18, hue: 105.0 },
];

const MAGNITUDE_ANCHORS: [Anchor; 5] = [
    Anchor { lightness: 0.10, chroma: 0.02, hue: 300.0 },
    Anchor { lightness: 0.33, chroma: 0.15, hue: 315.0 },
    Anchor { lightness: 0.53, chroma: 0.19, hue: 360.0 },
    Anchor { lightness: 0.74, chroma: 0.16, hue: 405.0 },
    Anchor { lightness: 0.97, chroma: 0.08, hue: 465.0 },
];

impl ColorMap {
    /// The colour at `position` in [0, 1]; positions outside take the nearest end.
    pub(crate) fn color(self, position: f64) -> Rgb {
        let anchors = match self {
            Self::Field => &FIELD_ANCHORS,
            Self::Magnitude => &MAGNITUDE_ANCHORS,
        };
        let along = position.clamp(0.0, 1.0) * (anchors.len() - 1) as f64;
        let first = (along as usize).min(anchors.len() - 2);
        let weight = along - first as f64;
        let mix = |of: fn(&Anchor) -> f64| of(&anchors[first]) * (1.0 - weight) + of(&anchors[first + 1]) * weight;
        srgb_in_gamut(mix(|a| a.lightness), mix(|a| a.chroma), mix(|a| a.hue).to_radians())
    }
}

/// The sRGB colour of an OKLCh colour, its chroma reduced until all three channels can show it.
fn srgb_in_gamut(lightness: f64, chroma: f64, hue: f64) -> Rgb {
    let mut chroma = chroma;
    loop {
        let linear = linear_srgb(lightness, chroma * hue.cos(), chroma * hue.sin());
        let shown = linear.iter().all(|channel| (-1e-4..=1.0 + 1e-4).contains(channel));
        if shown || chroma < 1e-3 {
            return linear.map(|channel| (gamma_encoded(channel.clamp(0.0, 1.0)) * 255.0).round() as u8);
        }
        chroma *= 0.97;
    }
}

fn linear_srgb(lightness: f64, green_red: f64, blue_yellow: f64) -> [f64; 3] {
    let long = (lightness + 0.396_337_777_4 * green_red + 0.215_803_757_3 * blue_yellow).powi(3);
    let medium = (lightness - 0.105_561_345_8 * green_red - 0.063_854_172_8 * blue_yellow).powi(3);
    let short = (lightness - 0.089_484_177_5 * green_red - 1.291_485_548_0 * blue_yellow).powi(3);
    [
        4.076_741_662_1 * long - 3.307_711_591_3 * medium + 0.230_969_929_2 * short,
        -1.268_438_004_6 * long + 2.609_757_401_1 * medium - 0.341_319_396_5 * short,
        -0.004_196_086_3 * long - 0.703_418_614_7 * medium + 1.707_614_701_0 * short,
    ]
}

fn gamma_encoded(linear: f64) -> f64 {
    if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of an sRGB colour (WCAG 2).
    fn luminance(color: Rgb) -> f64 {
        let linear = color.map(|channel| {
            let encoded = f64::from(channel) / 255.0;
            if encoded <= 0.04045 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    #[test]
    fn luminance_rises_along_both_maps() {
        for map in [ColorMap::Field, ColorMap::Magnitude] {
            let along: Vec<f64> = (0..=64).map(|step| luminance(map.color(f64::from(step) / 64.0))).collect();
            assert!(along.windows(2).all(|pair| pair[1] > pair[0]), "{map:?}: {along:?}");
            assert!(along[64] > 0.6 && along[0] < 0.05);
        }
    }

    #[test]
    fn positions_outside_take_the_nearest_end() {
        assert_eq!(ColorMap::Field.color(-3.0), ColorMap::Field.color(0.0));
        assert_eq!(ColorMap::Field.color(7.0), ColorMap::Field.color(1.0));
    }

    #[test]
    fn no_map_color_is_mistaken_for_an_invalid_cell() {
        for map in [ColorMap::Field, ColorMap::Magnitude] {
            for step in 0..=256 {
                let color = map.color(f64::from(step) / 256.0);
                let distance = (0..3).map(|c| (f64::from(color[c]) - f64::from(INVALID_COLOR[c])).powi(2)).sum::<f64>();
                assert!(distance.sqrt() > 30.0, "{map:?} at {step}: {color:?}");
            }
        }
    }
}
