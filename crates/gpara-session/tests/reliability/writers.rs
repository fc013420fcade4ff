//! Two processes tell at the same time.

use gpara_session::Campaign;

use crate::child::{Said, Work, command, listen, new_session};

fn two_writers(tells: u32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let start = |writer| command(&path, Work { writer, tells, asks: false }).spawn().unwrap();
    let (mut first, mut second) = (start(1), start(2));
    let mut values: Vec<f64> = std::thread::scope(|scope| {
        let keep = |child| {
            scope.spawn(move || {
                let mut heard = Vec::new();
                listen(child, |said| heard.push(said));
                heard
            })
        };
        let (one, other) = (keep(&mut first), keep(&mut second));
        let heard = one.join().unwrap().into_iter().chain(other.join().unwrap());
        heard.filter_map(|said| if let Said::Told { value, .. } = said { Some(value) } else { None }).collect()
    });
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    assert_eq!(values.len(), 2 * tells as usize);
    let campaign = Campaign::open(&path).unwrap();
    campaign.file().check_integrity().unwrap();
    let mut found: Vec<f64> = campaign.file().told().unwrap().iter().map(|told| told.value).collect();
    found.sort_by(f64::total_cmp);
    values.sort_by(f64::total_cmp);
    assert_eq!(found, values);
}

#[test]
fn users_25_two_processes_tell_sixty_values_each_and_none_is_lost() {
    two_writers(60);
}

#[test]
#[ignore = "slow: 1000 durable tells"]
fn users_25_two_processes_tell_five_hundred_values_each_and_none_is_lost() {
    two_writers(500);
}

#[test]
fn two_asks_at_once_never_get_the_same_point() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let start = |writer| command(&path, Work { writer, tells: 12, asks: true }).spawn().unwrap();
    let (mut first, mut second) = (start(1), start(2));
    let mut asked = Vec::new();
    for child in [&mut first, &mut second] {
        listen(child, |said| {
            if let Said::Asked { row, col } = said {
                asked.push((row, col));
            }
        });
        child.wait().unwrap();
    }
    let count = asked.len();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!((asked.len(), count), (48, 48));
}
