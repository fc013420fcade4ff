//! GeoTIFF: one band of numbers, the missing value, the affine transform and the EPSG code.

mod keys;
mod read;
mod write;

pub(super) use read::{decode, decode_pages};
pub(crate) use write::encode;

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;

    use gpara::{ErrorKind, Grid};
    use tiff::encoder::{TiffEncoder, colortype};
    use tiff::tags::Tag;

    use super::*;
    use crate::field::Field;
    use crate::geo::{Affine, Crs, Georeference};

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn users_10_written_map_reads_back_with_missing_cells_place_and_system() {
        let path = Path::new("map.tif");
        let places = [
            None,
            Some(Georeference::north_up(431_000.5, 5_412_000.25, 7.5, Some(Crs::Epsg(32_632))).unwrap()),
            Some(Georeference::north_up(7.25, 45.5, 0.001, Some(Crs::Epsg(4326))).unwrap()),
            Some(Georeference::north_up(-30.0, 60.0, 2.0, Some(Crs::LocalMetres { lat: 45.5, lon: -7.25 })).unwrap()),
            Some(Georeference::new(Affine::new([10.0, 3.0, 1.0, -3.0, 0.5, -2.0]).unwrap(), Some(Crs::Epsg(3857)))),
            Some(Georeference::new(Affine::new([10.0, 3.0, 0.0, -3.0, 0.0, 2.0]).unwrap(), None)),
        ];
        let grid = Grid::new(37, 53).unwrap();
        let values: Vec<f64> = (0..grid.num_nodes())
            .map(|node| if node % 11 == 3 { f64::NAN } else { f64::from((node as f32).sin() * 80.0 - 90.0) })
            .collect();
        let field = Field::new(grid, values).unwrap();
        for place in places {
            let (read, read_place) = decode(&encode(path, &field, place).unwrap(), path).unwrap();
            assert_eq!(read_place, place);
            assert_eq!(read.grid(), grid);
            assert_eq!(bits(read.values()), bits(field.values()));
        }
    }

    /// A file of 16-bit integers as a camera or GDAL writes them.
    fn integers(
        tags: impl Fn(&mut tiff::encoder::DirectoryEncoder<'_, &mut Cursor<Vec<u8>>, tiff::encoder::TiffKindStandard>),
    ) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut file).unwrap();
        let mut image = encoder.new_image::<colortype::Gray16>(3, 2).unwrap();
        tags(image.encoder());
        image.write_data(&[1, 2, 3, 4, 65535, 6]).unwrap();
        file.into_inner()
    }

    #[test]
    fn nodata_becomes_nan_and_points_at_centres_are_shifted_to_corners() {
        let file = integers(|tags| {
            tags.write_tag(Tag::GdalNodata, "65535").unwrap();
            tags.write_tag(Tag::ModelPixelScaleTag, &[2.0, 2.0, 0.0][..]).unwrap();
            tags.write_tag(Tag::ModelTiepointTag, &[0.0, 0.0, 0.0, 101.0, 49.0, 0.0][..]).unwrap();
            tags.write_tag(Tag::GeoKeyDirectoryTag, &[1_u16, 1, 0, 2, 1025, 0, 1, 2, 3072, 0, 1, 25832][..]).unwrap();
        });
        let (field, place) = decode(&file, Path::new("a.tif")).unwrap();
        assert_eq!(field.values()[..4], [1.0, 2.0, 3.0, 4.0]);
        assert!(field.values()[4].is_nan());
        assert_eq!(place, Some(Georeference::north_up(100.0, 50.0, 2.0, Some(Crs::Epsg(25_832))).unwrap()));
    }

    #[test]
    fn tiles_and_predictor_of_gdal_are_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/gdal_tiles.tif");
        let (field, place) = decode(&std::fs::read(&path).unwrap(), &path).unwrap();
        assert_eq!(field.grid(), Grid::new(17, 33).unwrap());
        for (node, &value) in field.values().iter().enumerate() {
            assert!(value == 0.25 * node as f64 - 50.0 || (node == 3 * 33 + 4 && value.is_nan()), "{node}: {value}");
        }
        let affine = Affine::new([600_000.0, 20.0, 0.0, 5_500_000.0, 0.0, -10.0]).unwrap();
        assert_eq!(place, Some(Georeference::new(affine, Some(Crs::Epsg(25_832)))));
    }

    #[test]
    fn what_cannot_be_read_as_one_band_of_values_is_refused() {
        let scaled = integers(|tags| {
            let xml = "<GDALMetadata><Item name=\"SCALE\" sample=\"0\" role=\"scale\">0.1</Item></GDALMetadata>";
            tags.write_tag(Tag::Unknown(42112), xml).unwrap();
        });
        let mut colour = Cursor::new(Vec::new());
        TiffEncoder::new(&mut colour).unwrap().write_image::<colortype::RGB8>(1, 1, &[1, 2, 3]).unwrap();
        let no_inverse = integers(|tags| {
            tags.write_tag(Tag::ModelPixelScaleTag, &[0.0, 2.0, 0.0][..]).unwrap();
            tags.write_tag(Tag::ModelTiepointTag, &[0.0, 0.0, 0.0, 101.0, 49.0, 0.0][..]).unwrap();
        });
        let whole = integers(|_| {});
        let cases = [scaled, colour.into_inner(), no_inverse, whole[..whole.len() / 2].to_vec(), Vec::new()];
        for (number, bytes) in cases.iter().enumerate() {
            let error = decode(bytes, Path::new("a.tif")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "case {number}");
        }
    }
}
