//! Small whole files of every format, and files that promise absurd sizes.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, ZlibEncoder};
use gpara::{Grid, ValidMask};
use gpara_tasks::export::MapOutput;
use gpara_tasks::geo::{Crs, Georeference};
use gpara_tasks::points::PointOutput;
use gpara_tasks::units::Unit;

const GRID: (usize, usize) = (5, 7);

const POINT_COLUMNS: &[(&str, &[f64])] = &[("value", &[1.5, -2.0, 3.25]), ("sigma", &[0.5, 0.0, 1.0])];

fn place() -> Georeference {
    Georeference::north_up(431_000.0, 5_412_000.0, 10.0, Some(Crs::Epsg(32_632))).expect("a place")
}

/// What our own writer makes of a small map.
fn written(name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let grid = Grid::new(GRID.0, GRID.1).expect("a grid");
    let values: Vec<f64> = (0..35).map(|node| f64::from(node) * 0.7 - 3.0).collect();
    let valid = ValidMask::new(grid, (0..35).map(|node| node % 6 != 1).collect()).expect("a mask");
    let output = MapOutput { valid: &valid, values: &values, unit: Unit::Decibel, georeference: Some(place()) };
    output.write(&path).expect("a written map");
    std::fs::read(&path).expect("what was written")
}

fn points() -> PointOutput<'static> {
    let grid = Grid::new(GRID.0, GRID.1).expect("a grid");
    PointOutput { grid, georeference: place(), nodes: &[0, 17, 34], columns: POINT_COLUMNS }
}

pub(crate) fn png() -> Vec<Vec<u8>> {
    let mut eight_bit = std::io::Cursor::new(Vec::new());
    let picture = image::GrayImage::from_fn(9, 4, |x, y| image::Luma([(x * 20 + y) as u8]));
    picture.write_to(&mut eight_bit, image::ImageFormat::Png).expect("a picture");
    vec![written("a.png"), eight_bit.into_inner()]
}

pub(crate) fn npy() -> Vec<Vec<u8>> {
    vec![written("a.npy")]
}

pub(crate) fn npz() -> Vec<Vec<u8>> {
    let array = written("a.npy");
    vec![zip(&array, array.len() as u32, false), zip(&deflated(&array), array.len() as u32, true)]
}

pub(crate) fn geotiff() -> Vec<Vec<u8>> {
    let mut file = std::io::Cursor::new(Vec::new());
    let mut encoder = tiff::encoder::TiffEncoder::new(&mut file).expect("a file");
    encoder.write_image::<tiff::encoder::colortype::Gray16>(3, 2, &[1, 2, 3, 4, 5, 6]).expect("a picture");
    let mut lzw = std::io::Cursor::new(Vec::new());
    let encoder = tiff::encoder::TiffEncoder::new(&mut lzw).expect("a file");
    let mut encoder = encoder.with_compression(tiff::encoder::Compression::Lzw);
    encoder
        .write_image::<tiff::encoder::colortype::Gray64Float>(3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .expect("a picture");
    vec![written("a.tif"), file.into_inner(), lzw.into_inner(), include_bytes!("../data/gdal_tiles.tif").to_vec()]
}

pub(crate) fn ascii_grid() -> Vec<Vec<u8>> {
    vec![written("a.asc"), b"NCOLS 2\r\nNROWS 1\r\nXLLCENTER 1\r\nYLLCENTER 2\r\nDX 3\r\nDY 4\r\n5 6\r\n".to_vec()]
}

pub(crate) fn points_csv() -> Vec<Vec<u8>> {
    let tabs = b"\xef\xbb\xbfnote\tVALUE\tlon\tlat\r\n\"a\nb\"\t-80,5\t8,0601\t48,8601\r\n".to_vec();
    vec![points().csv().expect("points").into_bytes(), tabs]
}

pub(crate) fn geojson() -> Vec<Vec<u8>> {
    vec![points().geojson().expect("points").into_bytes()]
}

#[cfg(feature = "parquet")]
pub(crate) fn parquet() -> Vec<Vec<u8>> {
    vec![include_bytes!("../data/points.parquet").to_vec(), include_bytes!("../data/points_gzip.parquet").to_vec()]
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("deflated bytes");
    encoder.finish().expect("deflated bytes")
}

/// A ZIP archive with one member `a.npy` of an announced size.
fn zip(packed: &[u8], size: u32, deflate: bool) -> Vec<u8> {
    let method: u16 = if deflate { 8 } else { 0 };
    let mut common = vec![20, 0, 0, 0];
    common.extend(method.to_le_bytes());
    common.extend([0; 8]);
    common.extend((packed.len() as u32).to_le_bytes());
    common.extend(size.to_le_bytes());
    common.extend([5, 0, 0, 0]);
    let mut file = [b"PK\x03\x04".as_slice(), &common, b"a.npy", packed].concat();
    let start = file.len() as u32;
    file.extend([b"PK\x01\x02\x14\x00".as_slice(), &common, &[0; 14], b"a.npy"].concat());
    let length = file.len() as u32 - start;
    file.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    file.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
    file.extend([0; 2]);
    file
}

/// A gray PNG that announces a size and holds little.
fn png_of(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], content: &[u8]| {
        file.extend((content.len() as u32).to_be_bytes());
        let checked = [kind.as_slice(), content].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&checked);
        file.extend(&checked);
        file.extend(crc.sum().to_be_bytes());
    };
    chunk(b"IHDR", &[width.to_be_bytes().as_slice(), &height.to_be_bytes(), &[16, 0, 0, 0, 0]].concat());
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(pixels).expect("deflated bytes");
    chunk(b"IDAT", &encoder.finish().expect("deflated bytes"));
    chunk(b"IEND", &[]);
    file
}

/// A TIFF header of one strip of float32 that announces a size.
fn tiff_of(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"II\x2a\x00\x08\x00\x00\x00".to_vec();
    let entries: [(u16, u16, u32); 9] = [
        (256, 4, width),
        (257, 4, height),
        (258, 3, 32),
        (259, 3, 8),
        (262, 3, 1),
        (273, 4, 8),
        (278, 4, height),
        (279, 4, 16),
        (339, 3, 3),
    ];
    file.extend((entries.len() as u16).to_le_bytes());
    for (tag, kind, value) in entries {
        file.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
        file.extend([1_u32.to_le_bytes(), value.to_le_bytes()].concat());
    }
    file.extend([0; 4]);
    file
}

fn npy_of(shape: &str) -> Vec<u8> {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00".as_slice(), &(header.len() as u16).to_le_bytes(), header.as_bytes(), &[0; 64]].concat()
}

/// Name, bytes and what the error must say.
pub(crate) fn bombs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let zeros = vec![0; 40 << 20];
    let asc = "ncols 16000\nnrows 16000\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2 3\n";
    vec![
        ("a.png", png_of(60_000, 60_000, &[0; 100]), "cells, at most"),
        ("a.png", png_of(u32::MAX >> 1, u32::MAX >> 1, &[0; 100]), "limits are exceeded"),
        ("a.png", png_of(16_000, 16_000, &[0; 100]), "cannot hold them"),
        ("a.npy", npy_of("(100000, 100000)"), "cells, at most"),
        ("a.npy", npy_of("(16000, 16000)"), "are announced"),
        ("a.npy", npy_of("(99999999999999999999, 2)"), "not a readable NPY"),
        ("a.npz", zip(&deflated(&zeros), 100, true), "announced size"),
        ("a.npz", zip(&deflated(&zeros[..1000]), u32::MAX, true), "cannot hold them"),
        ("a.tif", tiff_of(60_000, 60_000), "cells, at most"),
        ("a.tif", tiff_of(16_000, 16_000), "cannot hold them"),
        ("a.asc", asc.into(), "3 values follow"),
        ("a.asc", asc.replace("16000", "1e12").into(), "cells, at most"),
    ]
}
