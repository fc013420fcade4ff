//! Files of other versions and other programs.

use gpara::ErrorKind;
use gpara_session::{AskRequest, Campaign, NewMeasurement, NewTell, gaussian_method};

use crate::child::new_session;

#[test]
fn newer_schema_is_refused_and_the_file_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    for error in [Campaign::open(&path).unwrap_err(), Campaign::open_read_only(&path).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.to_string().contains("schema version 99"), "{error}");
        assert!(error.hint().is_some());
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn file_of_schema_1_is_migrated_with_a_copy_and_keeps_its_asks_and_tells() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let mut campaign = Campaign::open(&path).unwrap();
    let method = gaussian_method(&campaign.settings().prior).unwrap();
    let asked = campaign.ask(&*method, &AskRequest::points(1)).unwrap().ask.points[0].clone();
    let measured = NewMeasurement { line: None, row: asked.row, col: asked.col, value: 0.25, sigma: None };
    campaign.tell(&NewTell { source: "test".into(), num_skipped: 0, measurements: vec![measured] }).unwrap();
    let before = campaign.file().told().unwrap();
    drop(campaign);
    // The file as version 1 had it.
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "DROP TABLE belief; ALTER TABLE measurement DROP COLUMN predicted_by; ALTER TABLE ask DROP COLUMN interval_50; \
             ALTER TABLE ask DROP COLUMN interval_80; ALTER TABLE ask DROP COLUMN interval_95; PRAGMA user_version = 1;",
        )
        .unwrap();
    drop(connection);

    let campaign = Campaign::open(&path).unwrap();
    assert_eq!(campaign.file().migrated_from(), Some(folder.path().join("S.gpara.v1.backup").as_path()));
    assert_eq!(campaign.file().told().unwrap(), before);
    assert_eq!(campaign.file().asks().unwrap()[0].interval_factors, gpara::NORMAL_INTERVALS);
    drop(campaign);
    assert_eq!(Campaign::open(&path).unwrap().file().migrated_from(), None);
}

#[test]
fn missing_empty_foreign_and_damaged_files_are_refused_with_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    assert_eq!(Campaign::open(&path).unwrap_err().kind(), ErrorKind::Io);
    std::fs::write(&path, "").unwrap();
    assert_eq!(Campaign::open(&path).unwrap_err().kind(), ErrorKind::Incompatible);
    std::fs::write(&path, [7u8; 4096]).unwrap();
    assert_eq!(Campaign::open(&path).unwrap_err().kind(), ErrorKind::Incompatible);
    std::fs::remove_file(&path).unwrap();

    new_session(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    // Everything behind the header page is noise.
    bytes[4096..].iter_mut().for_each(|byte| *byte = 0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let error = Campaign::open(&path).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Incompatible | ErrorKind::Io), "{error}");
}

#[test]
fn a_stranger_reads_settings_tells_and_pending_points_with_plain_sql() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let budget: i64 = connection
        .query_row("SELECT json_extract(value, '$.budget') FROM meta WHERE key = 'settings'", (), |row| row.get(0))
        .unwrap();
    assert_eq!(budget, 900);
    for table in ["ask", "ask_point", "tell", "measurement", "failure", "reconstruction", "input", "pending"] {
        let rows: i64 = connection.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
    let mode: String = connection.query_row("PRAGMA journal_mode", (), |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn session_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let before = std::fs::read(&path).unwrap();
    let settings = Campaign::open(&path).unwrap().settings().clone();
    let error =
        gpara_session::SessionFile::create(&path, &settings, &gpara_session::Layers::default(), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
