//! Every reader against arbitrary and damaged bytes: an error or a value, never a panic, never absurd memory.
//!
//! The allocator of this test refuses what exceeds a cap, which aborts the test. `GPARA_FUZZ_SECONDS=3600 cargo test -p
//! gpara-tasks --features parquet --test readers` looks for new ones.

use std::alloc::System;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cap::Cap;
use gpara::{ErrorKind, Grid, ValidMask};
use gpara_fuzz::{Search, damaged};
use gpara_tasks::field::{GrayScale, PngScale, Raster, RasterOptions};
use gpara_tasks::geo::{Crs, Georeference};
use gpara_tasks::points::PointReader;

mod seeds;

/// Seeds are below 20 kB; 512 MiB is what a picture of 2^14 x 2^14 gray values may take while it is found to be damaged.
const CAP_BYTES: usize = 512 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, CAP_BYTES);

/// The tests share the allocator and its limit.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Damaged files of each format in an ordinary run.
const ORDINARY_CASES: u64 = 20_000;

/// A whole file of each format, and what reads it.
fn readers() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    vec![
        ("a.png", seeds::png()),
        ("a.npy", seeds::npy()),
        ("a.npz", seeds::npz()),
        ("a.csv", vec![b"1,2.5,nan\n4,,6\n".to_vec(), b"1;2,5\r\n3;4\r\n".to_vec()]),
        ("a.tif", seeds::geotiff()),
        ("a.asc", seeds::ascii_grid()),
        ("points.csv", seeds::points_csv()),
        ("points.geojson", seeds::geojson()),
        #[cfg(feature = "parquet")]
        ("points.parquet", seeds::parquet()),
    ]
}

/// Reads the bytes as the name says; an error must be of a kind that a file can cause.
fn read(name: &str, bytes: &[u8]) -> Result<(), String> {
    let path = Path::new(name);
    let valid = ValidMask::all(Grid::new(5, 7).expect("a grid"));
    let place = Georeference::north_up(431_000.0, 5_412_000.0, 10.0, Some(Crs::Epsg(32_632))).expect("a place");
    let result = if name.starts_with("points") {
        PointReader::new(&valid).georeference(place).decode(bytes, path).map(|rows| {
            let finite = |value: f64, sigma: Option<f64>| value.is_finite() && sigma.is_none_or(|sigma| sigma >= 0.0);
            assert!(rows.points.iter().all(|point| point.node < 35 && finite(point.value, point.sigma)));
        })
    } else {
        let scale = PngScale::per_unit(1000.0).ok().map(GrayScale::Steps);
        let options = RasterOptions { scale, ..RasterOptions::default() };
        Raster::decode(bytes, path, &options).map(|raster| {
            assert_eq!(raster.field.values().len(), raster.field.grid().num_nodes());
        })
    };
    match result {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::ShapeMismatch) => {
            Err(error.to_string())
        }
        Err(error) => panic!("{name}: a file caused an error of kind {:?}: {error}", error.kind()),
    }
}

#[test]
fn fuzz_damaged_files_are_refused_without_panic_or_absurd_memory() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let readers = readers();
    let search = Search::ordinary(ORDINARY_CASES, readers.len() as u64);
    for (name, seeds) in &readers {
        for seed in seeds {
            read(name, seed).unwrap_or_else(|error| panic!("the seed of {name} does not read: {error}"));
        }
        search.expect_refusals(name, |u| Ok(read(name, &damaged(u, seeds)?).is_err()));
    }
}

#[test]
fn bombs_and_absurd_sizes_are_refused_within_little_memory() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = ALLOCATOR.allocated();
    for (name, bytes, expected) in seeds::bombs() {
        ALLOCATOR.set_limit(ALLOCATOR.allocated() + (64 << 20)).expect("the limit is above what is allocated");
        let error = read(name, &bytes).expect_err(name);
        ALLOCATOR.set_limit(CAP_BYTES).expect("the limit is above what is allocated");
        assert!(error.contains(expected), "{name}: {error}");
    }
    assert!(ALLOCATOR.allocated() < before + (64 << 20));
}
