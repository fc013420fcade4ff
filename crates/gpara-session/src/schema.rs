//! The tables of a session file, their version, and the way from an older version to this one.

use std::path::{Path, PathBuf};

use gpara::Result;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::SessionError;

/// Marks the file as ours in SQLite's header: "gpar".
pub(crate) const APPLICATION_ID: i64 = 0x6770_6172;

/// Step k brings a file from schema version k to k + 1; version 0 is an empty file. Steps are never edited once released.
pub(crate) const STEPS: &[&str] = &[include_str!("schema_1.sql"), include_str!("schema_2.sql")];

/// Brings the file at `path` to the newest version; a file that is older but not empty is copied to
/// `NAME.v<VERSION>.backup` first, and the copy's path returned.
///
/// # Errors
/// `Incompatible` for a newer version or a file of another program; `Io` if the copy or the migration fails, and the file
/// is as before then.
pub(crate) fn migrate(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<Option<PathBuf>> {
    let database = |source| SessionError::Database { action: "migrate", path: path.into(), source };
    let version = version(connection, path, steps.len())?;
    if version == steps.len() {
        return Ok(None);
    }
    let copy = match version {
        0 => None,
        _ => Some(back_up(connection, path, version)?),
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    // Another process may have migrated between the look above and the lock.
    let version: usize = transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(database)?;
    for step in &steps[version.min(steps.len())..] {
        transaction.execute_batch(step).map_err(database)?;
    }
    transaction.pragma_update(None, "user_version", steps.len()).map_err(database)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(database)?;
    transaction.commit().map_err(database)?;
    Ok(copy)
}

/// The schema version of a file, 0 if it is empty.
///
/// # Errors
/// `Incompatible` if the file belongs to another program or is newer than `known`.
pub(crate) fn version(connection: &Connection, path: &Path, known: usize) -> Result<usize> {
    let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let refused = |source: rusqlite::Error| match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => SessionError::NotASession { path: path.into() },
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
            SessionError::Damaged { path: path.into(), what: source.to_string() }
        }
        _ => SessionError::Database { action: "read", path: path.into(), source },
    };
    let (application, found) = (read("application_id").map_err(refused)?, read("user_version").map_err(refused)?);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0)).map_err(refused)?;
    if tables == 0 && application == 0 && found == 0 {
        return Ok(0);
    }
    if application != APPLICATION_ID {
        return Err(SessionError::NotASession { path: path.into() }.into());
    }
    match usize::try_from(found) {
        Ok(version) if (1..=known).contains(&version) => Ok(version),
        _ => Err(SessionError::Newer { path: path.into(), found, known }.into()),
    }
}

fn back_up(connection: &Connection, path: &Path, version: usize) -> Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".v{version}.backup"));
    let copy = path.with_file_name(name);
    let made = connection.backup("main", &copy, None);
    made.map_err(|source| SessionError::Backup { path: path.into(), source })?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    const FIRST: &str = "CREATE TABLE told (value REAL);";
    const SECOND: &str = "ALTER TABLE told ADD COLUMN sigma REAL NOT NULL DEFAULT 0.5;";

    #[test]
    fn older_file_is_migrated_in_place_and_kept_as_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("S.gpara");
        let mut connection = Connection::open(&path).unwrap();
        assert_eq!(migrate(&mut connection, &path, &[FIRST]).unwrap(), None);
        connection.execute("INSERT INTO told VALUES (7.0)", ()).unwrap();

        let copy = migrate(&mut connection, &path, &[FIRST, SECOND]).unwrap().unwrap();
        assert_eq!(copy, folder.path().join("S.gpara.v1.backup"));
        let row: (f64, f64) =
            connection.query_row("SELECT value, sigma FROM told", (), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(row, (7.0, 0.5));
        assert_eq!(version(&connection, &path, 2).unwrap(), 2);
        // The copy is the old file with its data, and a second opening changes nothing.
        let old = Connection::open(&copy).unwrap();
        assert_eq!(version(&old, &copy, 2).unwrap(), 1);
        assert_eq!(old.query_row("SELECT value FROM told", (), |row| row.get::<_, f64>(0)).unwrap(), 7.0);
        assert_eq!(migrate(&mut connection, &path, &[FIRST, SECOND]).unwrap(), None);
    }

    #[test]
    fn failed_migration_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("S.gpara");
        let mut connection = Connection::open(&path).unwrap();
        migrate(&mut connection, &path, &[FIRST]).unwrap();
        let error =
            migrate(&mut connection, &path, &[FIRST, "CREATE TABLE fine (a); CREATE TABLE told (a);"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(version(&connection, &path, 2).unwrap(), 1);
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0)).unwrap();
        assert_eq!(tables, 1);
    }

    #[test]
    fn newer_file_and_file_of_another_program_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("S.gpara");
        let mut connection = Connection::open(&path).unwrap();
        migrate(&mut connection, &path, &[FIRST, SECOND]).unwrap();
        let error = migrate(&mut connection, &path, &[FIRST]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.to_string().contains("schema version 2"), "{error}");

        let foreign = folder.path().join("other.db");
        let mut connection = Connection::open(&foreign).unwrap();
        connection.execute_batch("CREATE TABLE theirs (a)").unwrap();
        assert_eq!(migrate(&mut connection, &foreign, STEPS).unwrap_err().kind(), ErrorKind::Incompatible);

        let text = folder.path().join("text.gpara");
        std::fs::write(&text, "not a database, only text that is long enough to be looked at as one by SQLite")
            .unwrap();
        let mut connection = Connection::open(&text).unwrap();
        assert_eq!(migrate(&mut connection, &text, STEPS).unwrap_err().kind(), ErrorKind::Incompatible);
    }
}
