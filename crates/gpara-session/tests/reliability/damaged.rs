//! Damaged session files: an error or a session, never a panic. `GPARA_FUZZ_SECONDS=3600 cargo test -p gpara-session --test
//! reliability damaged` looks for new ones.

use gpara::ErrorKind;
use gpara_fuzz::Search;
use gpara_session::{AskRequest, Campaign, NewMeasurement, NewTell, gaussian_method};

use crate::child::new_session;

#[test]
fn fuzz_damaged_sessions_are_refused_without_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let mut campaign = Campaign::open(&path).unwrap();
    let method = gaussian_method(&campaign.settings().prior).unwrap();
    campaign.ask(&*method, &AskRequest::points(3)).unwrap();
    let measured = NewMeasurement { line: Some(2), row: 3, col: 4, value: 0.5, sigma: None };
    campaign.tell(&NewTell { source: "test".into(), num_skipped: 0, measurements: vec![measured] }).unwrap();
    drop(campaign);
    let whole = std::fs::read(&path).unwrap();
    let damaged = folder.path().join("D.gpara");
    Search::ordinary(400, 1).expect_refusals("sessions", |u| {
        let mut bytes = whole.clone();
        for _ in 0..u.int_in_range(1..=8)? {
            let at = u.choose_index(bytes.len())?;
            match u.int_in_range(0..=3)? {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
                _ => bytes[at] = u.arbitrary()?,
            }
        }
        std::fs::write(&damaged, &bytes).unwrap();
        let looked = Campaign::open_read_only(&damaged).and_then(|campaign| {
            campaign.status()?;
            campaign.file().asks()?;
            campaign.file().tells()?;
            campaign.file().check_integrity()
        });
        if let Err(error) = &looked {
            // Whatever the damage did to a setting or a cell, it has a kind of its own.
            assert!(error.kind() != ErrorKind::BudgetSpent, "{error}");
        }
        Ok(looked.is_err())
    });
}
