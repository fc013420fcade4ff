//! Damaged session files: an error or a session, never a panic. `GPARA_FUZZ_SECONDS=3600 cargo test -p gpara-session --test
//! reliability damaged` runs longer.

use arbtest::arbtest;
use gpara::ErrorKind;
use gpara_session::{AskRequest, Campaign, NewMeasurement, NewTell, gaussian_method};

use crate::child::new_session;

fn budget_ms() -> u64 {
    std::env::var("GPARA_FUZZ_SECONDS").ok().map_or(1500, |text| 1000 * text.parse::<u64>().expect("seconds"))
}

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
    let (mut runs, mut refused) = (0_u64, 0_u64);
    let damaged = folder.path().join("D.gpara");
    arbtest(|u| {
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
        runs += 1;
        let looked = Campaign::open_read_only(&damaged).and_then(|campaign| {
            campaign.status()?;
            campaign.file().asks()?;
            campaign.file().tells()?;
            campaign.file().check_integrity()
        });
        if let Err(error) = looked {
            refused += 1;
            // Whatever the damage did to a setting or a cell, it has a kind of its own.
            assert!(error.kind() != ErrorKind::BudgetSpent, "{error}");
        }
        Ok(())
    })
    .budget_ms(budget_ms());
    println!("sessions: {runs} files, {refused} refused");
    assert!(refused > 0);
}
