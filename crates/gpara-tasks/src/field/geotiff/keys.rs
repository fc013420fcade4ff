//! The GeoTIFF keys that matter here (OGC 19-008r4): raster type, coordinate system, citation.

use crate::geo::Crs;

const MODEL_TYPE: u16 = 1024;
const RASTER_TYPE: u16 = 1025;
const CITATION: u16 = 1026;
const GEODETIC_CRS: u16 = 2048;
const PROJECTED_CRS: u16 = 3072;

/// Model types.
const PROJECTED: u16 = 1;
const GEOGRAPHIC: u16 = 2;

/// Raster types: a pixel is an area, or a point at its centre.
const AREA: u16 = 1;
const POINT: u16 = 2;

/// A value that stands for a definition outside of the EPSG register.
const USER_DEFINED: u16 = 32767;

/// Where a key's text lies: tag GeoAsciiParams.
const IN_TEXT: u16 = 34737;

/// What the keys of a file say.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Keys {
    pub(super) crs: Option<Crs>,
    /// Whether the transform gives the centre of a pixel, not its corner.
    pub(super) points_at_centres: bool,
}

impl Keys {
    /// Reads a directory of four numbers a key; keys that are not known are passed over.
    pub(super) fn parse(directory: &[u16], text: &str) -> Self {
        let mut keys = Self::default();
        let (mut geodetic, mut projected, mut citation) = (None, None, None);
        for entry in directory.chunks_exact(4).skip(1) {
            let [key, location, count, value] = [entry[0], entry[1], entry[2], entry[3]];
            match (key, location) {
                (RASTER_TYPE, 0) => keys.points_at_centres = value == POINT,
                (GEODETIC_CRS, 0) => geodetic = Some(value),
                (PROJECTED_CRS, 0) => projected = Some(value),
                (CITATION, IN_TEXT) => {
                    let (start, end) = (usize::from(value), usize::from(value) + usize::from(count));
                    citation = text.get(start..end.min(text.len()));
                }
                _ => {}
            }
        }
        let registered = |code: Option<u16>| code.filter(|&code| code != 0 && code != USER_DEFINED);
        // A projected system names its geodetic one too, so that it comes first.
        keys.crs = match (projected, registered(projected), registered(geodetic)) {
            (_, Some(code), _) | (None, None, Some(code)) => Some(Crs::Epsg(code.into())),
            _ => citation.and_then(|text| text.trim_end_matches(['|', '\0']).parse().ok()),
        };
        keys
    }
}

/// The directory of a pixel-is-area file in a system, and the text its citation points to.
///
/// An EPSG code that does not fit in 16 bits gives none: GeoTIFF cannot hold it.
pub(super) fn directory(crs: Crs, geographic: bool) -> Option<(Vec<u16>, String)> {
    let (code, text) = match crs {
        Crs::Epsg(code) => (u16::try_from(code).ok().filter(|&code| code != USER_DEFINED)?, String::new()),
        Crs::LocalMetres { .. } => (USER_DEFINED, format!("{crs}|")),
    };
    let mut entries =
        vec![[MODEL_TYPE, 0, 1, if geographic { GEOGRAPHIC } else { PROJECTED }], [RASTER_TYPE, 0, 1, AREA]];
    if !text.is_empty() {
        entries.push([CITATION, IN_TEXT, text.len() as u16, 0]);
    }
    entries.push([if geographic { GEODETIC_CRS } else { PROJECTED_CRS }, 0, 1, code]);
    let header = [1, 1, 0, entries.len() as u16];
    Some((std::iter::once(header).chain(entries).flatten().collect(), text))
}
