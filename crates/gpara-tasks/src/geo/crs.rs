//! Coordinate reference systems by EPSG code, or metres around a place; latitude and longitude are WGS 84.

use std::fmt;
use std::str::FromStr;

use gpara::{Error, Result};
use proj4rs::Proj;

use super::error::GeoError;

/// What world coordinates mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Crs {
    /// A system of the EPSG register, e.g. 32632 for UTM zone 32 north, 4326 for degrees (x = longitude).
    Epsg(u32),
    /// Metres east and north of a place, by a transverse Mercator projection around it: within 50 km of it, distances
    /// are true to 0.004 %.
    LocalMetres {
        /// Latitude of the place, in degrees.
        lat: f64,
        /// Longitude of the place, in degrees.
        lon: f64,
    },
}

impl Crs {
    /// The UTM zone of a place, on WGS 84, with the exceptions of Norway and Svalbard.
    ///
    /// # Errors
    /// `InvalidInput` for what is not a place on Earth, or lies outside of UTM (80 degrees south to 84 north).
    pub fn utm(lat: f64, lon: f64) -> Result<Self> {
        check_place(lat, lon)?;
        if !(-80.0..=84.0).contains(&lat) {
            return Err(GeoError::NoZone { lat }.into());
        }
        // Longitude 180 is the meridian of -180.
        let zone = (((lon + 180.0) / 6.0).floor() as u32 % 60) + 1;
        let zone = match lat {
            56.0..64.0 if (3.0..12.0).contains(&lon) => 32,
            72.0..=84.0 if (0.0..42.0).contains(&lon) => [31, 33, 35, 37][((lon + 3.0) / 12.0) as usize],
            _ => zone,
        };
        Ok(Self::Epsg(if lat < 0.0 { 32_700 } else { 32_600 } + zone))
    }

    /// The projection between latitude and longitude and this system.
    ///
    /// # Errors
    /// `InvalidInput` if the code is unknown, not of a flat map, or needs data that are not built in.
    pub fn projection(self) -> Result<Projection> {
        let text = match self {
            Self::Epsg(code) => definition(code)?.to_string(),
            Self::LocalMetres { lat, lon } => {
                check_place(lat, lon)?;
                format!("+proj=tmerc +lat_0={lat} +lon_0={lon} +k=1 +x_0=0 +y_0=0 +datum=WGS84 +units=m +no_defs")
            }
        };
        let build = |text: &str| {
            let unusable = |error: proj4rs::errors::Error| match self {
                Self::Epsg(code) => GeoError::Unusable { code, reason: error.to_string() },
                Self::LocalMetres { .. } => GeoError::UnknownCrs { text: self.to_string() },
            };
            Proj::from_proj_string(text).map_err(unusable)
        };
        Ok(Projection { crs: self, degrees: build(DEGREES)?, map: build(&text)? })
    }
}

const DEGREES: &str = "+proj=longlat +datum=WGS84 +no_defs";

fn definition(code: u32) -> Result<&'static str, GeoError> {
    let known = u16::try_from(code).ok().and_then(crs_definitions::from_code);
    known
        .map(|found| found.proj4)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| GeoError::Unusable { code, reason: "the register that is built in does not hold it".into() })
}

impl fmt::Display for Crs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epsg(code) => write!(f, "EPSG:{code}"),
            Self::LocalMetres { lat, lon } => write!(f, "local:{lat},{lon}"),
        }
    }
}

impl FromStr for Crs {
    type Err = Error;

    /// Reads `EPSG:CODE`, a bare code, or `local:LAT,LON`.
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || GeoError::UnknownCrs { text: text.into() };
        let lower = text.trim().to_ascii_lowercase();
        if let Some(place) = lower.strip_prefix("local:") {
            let (lat, lon) = place.split_once(',').ok_or_else(unknown)?;
            let (lat, lon) = (lat.trim().parse().map_err(|_| unknown())?, lon.trim().parse().map_err(|_| unknown())?);
            check_place(lat, lon)?;
            return Ok(Self::LocalMetres { lat, lon });
        }
        let code = lower.strip_prefix("epsg:").unwrap_or(&lower).parse().map_err(|_| unknown())?;
        definition(code)?;
        Ok(Self::Epsg(code))
    }
}

/// Converts between degrees on WGS 84 and one coordinate system.
#[derive(Debug, Clone)]
pub struct Projection {
    crs: Crs,
    degrees: Proj,
    map: Proj,
}

impl Projection {
    /// Whether world coordinates are degrees, not lengths.
    pub fn is_geographic(&self) -> bool {
        self.map.is_latlong()
    }

    /// World coordinates (x, y) of a place in degrees.
    ///
    /// # Errors
    /// `InvalidInput` for what is not a place on Earth or cannot be shown in this system.
    pub fn project(&self, lat: f64, lon: f64) -> Result<(f64, f64)> {
        check_place(lat, lon)?;
        let mut point = (lon.to_radians(), lat.to_radians(), 0.0);
        let what = || format!("latitude {lat}, longitude {lon}");
        self.transform(&self.degrees, &self.map, &mut point, what)?;
        Ok(if self.map.is_latlong() { (point.0.to_degrees(), point.1.to_degrees()) } else { (point.0, point.1) })
    }

    /// Latitude and longitude of world coordinates, in degrees.
    ///
    /// # Errors
    /// `InvalidInput` if the coordinates are no place in this system.
    pub fn unproject(&self, x: f64, y: f64) -> Result<(f64, f64)> {
        let mut point = if self.map.is_latlong() { (x.to_radians(), y.to_radians(), 0.0) } else { (x, y, 0.0) };
        self.transform(&self.map, &self.degrees, &mut point, || format!("x {x}, y {y}"))?;
        Ok((point.1.to_degrees(), point.0.to_degrees()))
    }

    fn transform(&self, from: &Proj, to: &Proj, point: &mut (f64, f64, f64), what: impl Fn() -> String) -> Result<()> {
        let transformed = proj4rs::transform::transform(from, to, point);
        if transformed.is_err() || !point.0.is_finite() || !point.1.is_finite() {
            return Err(GeoError::Projection { what: what(), crs: self.crs.to_string() }.into());
        }
        Ok(())
    }
}

fn check_place(lat: f64, lon: f64) -> Result<(), GeoError> {
    if (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon) {
        return Ok(());
    }
    Err(GeoError::NoPlace { lat, lon })
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn utm_coordinates_of_a_known_place() {
        // The CN Tower is the example of the UTM article: zone 17, 630084 m east, 4833438 m north.
        let (lat, lon) = (43.642_567, -79.387_139);
        let crs = Crs::utm(lat, lon).unwrap();
        assert_eq!(crs, Crs::Epsg(32_617));
        let projection = crs.projection().unwrap();
        let (x, y) = projection.project(lat, lon).unwrap();
        assert!((x - 630_084.0).abs() < 1.0 && (y - 4_833_438.0).abs() < 1.0, "{x} {y}");
        let (back_lat, back_lon) = projection.unproject(x, y).unwrap();
        assert!((back_lat - lat).abs() < 1e-9 && (back_lon - lon).abs() < 1e-9, "{back_lat} {back_lon}");
    }

    #[test]
    fn parity_projections_match_proj() {
        // pyproj 3, PROJ 9: Transformer.from_crs(4326, crs, always_xy=True).transform(lon, lat).
        let rows = [
            (Crs::Epsg(32_632), 47.25, 11.5, 689_170.930_163_681_4, 5_235_977.841_676_373),
            (Crs::Epsg(25_833), 50.25, 7.5, -34_429.903_511_795_33, 5_593_390.544_724_45),
            (Crs::Epsg(3857), 50.25, 7.5, 834_896.180_949_551_8, 6_489_684.535_799_275),
            (Crs::Epsg(2154), 50.25, 7.5, 1_021_171.628_646_697_5, 7_026_046.850_779_803_5),
            (Crs::Epsg(3035), 50.25, 7.5, 4_142_716.699_591_088, 3_018_355.022_321_71),
            (Crs::LocalMetres { lat: 45.0, lon: 7.0 }, 45.2, 7.3, 23_571.614_133_887_64, 22_270.534_385_808_143),
        ];
        for (crs, lat, lon, x, y) in rows {
            let found = crs.projection().unwrap().project(lat, lon).unwrap();
            assert!((found.0 - x).abs() < 1e-3 && (found.1 - y).abs() < 1e-3, "{crs}: {found:?}");
        }
    }

    #[test]
    fn utm_zones_have_their_exceptions() {
        let cases = [
            (60.4, 5.3, 32_632),
            (60.4, 2.9, 32_631),
            (78.2, 15.6, 32_633),
            (78.2, 8.9, 32_631),
            (-33.9, 151.2, 32_756),
            (0.0, 180.0, 32_601),
            (0.0, -180.0, 32_601),
        ];
        for (lat, lon, code) in cases {
            assert_eq!(Crs::utm(lat, lon).unwrap(), Crs::Epsg(code), "{lat} {lon}");
        }
        assert_eq!(Crs::utm(85.0, 0.0).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn local_metres_measure_the_meridian() {
        // One degree of the meridian at 45 degrees is 111131.8 m long on WGS 84.
        let projection = Crs::LocalMetres { lat: 45.0, lon: 7.0 }.projection().unwrap();
        let ((_, south), (_, north)) = (projection.project(44.5, 7.0).unwrap(), projection.project(45.5, 7.0).unwrap());
        assert!((north - south - 111_131.8).abs() < 0.1, "{}", north - south);
        assert_eq!(projection.project(45.0, 7.0).unwrap().0.abs().round(), 0.0);
    }

    #[test]
    fn degrees_stay_degrees_in_epsg_4326() {
        let projection = Crs::Epsg(4326).projection().unwrap();
        let (x, y) = projection.project(43.5, -79.25).unwrap();
        assert!((x + 79.25).abs() < 1e-12 && (y - 43.5).abs() < 1e-12, "{x} {y}");
    }

    #[test]
    fn names_read_back_and_unknown_ones_are_refused() {
        for crs in [Crs::Epsg(25_832), Crs::LocalMetres { lat: -1.5, lon: 100.25 }] {
            assert_eq!(crs.to_string().parse::<Crs>().unwrap(), crs);
        }
        assert_eq!("32632".parse::<Crs>().unwrap(), Crs::Epsg(32_632));
        for bad in ["", "EPSG:", "EPSG:1", "utm", "local:1", "local:91,0", "EPSG:99999999999"] {
            assert_eq!(bad.parse::<Crs>().unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
        }
        for (lat, lon) in [(91.0, 0.0), (0.0, 181.0), (f64::NAN, 0.0)] {
            let error = Crs::Epsg(32_632).projection().unwrap().project(lat, lon).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{lat} {lon}");
        }
    }
}
