//! Killed at any moment, a session has every acknowledged tell and ask, and is sound.

use std::path::Path;
use std::time::Duration;

use gpara::SeedTree;
use gpara_session::Campaign;

use crate::child::{Said, Work, command, listen, new_session};

/// Starts and kills a child `times` times on one session, and checks the file after each.
fn kill_at_random_moments(times: u32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let mut moments = SeedTree::new(24).stream("kill");
    let mut acknowledged = Vec::new();
    for round in 0..times {
        let mut child = command(&path, Work { writer: round, tells: u32::MAX, asks: true }).spawn().unwrap();
        // From before the file is open to some dozens of transactions later.
        let pause = Duration::from_micros(2_000 + (moments.uniform() * 120_000.0) as u64);
        let id = child.id();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(pause);
            // The number belongs to a child that nobody has waited for yet, so it cannot be another process.
            let killed = std::process::Command::new("kill").args(["-9", &id.to_string()]).status().unwrap();
            assert!(killed.success());
        });
        listen(&mut child, |said| acknowledged.push(said));
        killer.join().unwrap();
        child.wait().unwrap();
        check(&path, &acknowledged);
    }
    let told = acknowledged.iter().filter(|said| matches!(said, Said::Told { .. })).count();
    eprintln!("{times} kills, {told} tells and {} asked points acknowledged", acknowledged.len() - told);
    assert!(told > times as usize / 2, "the children were killed before they told anything");
}

fn check(path: &Path, acknowledged: &[Said]) {
    let campaign = Campaign::open(path).unwrap();
    campaign.file().check_integrity().unwrap();
    let state = campaign.state().unwrap();
    let told = campaign.file().told().unwrap();
    for said in acknowledged {
        match *said {
            Said::Asked { row, col } => {
                assert!(state.is_taken(row * 30 + col), "the ask of row {row}, col {col} is lost")
            }
            Said::Told { tell, value } => {
                let found = told.iter().find(|entry| entry.tell == tell);
                assert_eq!(found.map(|entry| entry.value), Some(value), "tell {tell} is lost");
            }
        }
    }
    // Every tell of the file has its value: none is recorded by half.
    assert_eq!(campaign.file().tells().unwrap().iter().filter(|tell| tell.num_values != 1).count(), 0);
}

#[test]
fn users_24_ten_kills_lose_nothing() {
    kill_at_random_moments(10);
}

#[test]
#[ignore = "slow: 200 kills, about half a minute"]
fn users_24_two_hundred_kills_lose_nothing() {
    kill_at_random_moments(200);
}
