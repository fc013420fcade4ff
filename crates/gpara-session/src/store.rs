//! The session file: opening, transactions, and what is read from and written to its tables.

mod read;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpara::{Grid, Result};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use sha2::{Digest, Sha256};

pub use read::{AskRecord, AskedPoint, InputRecord, ReconstructionRecord, TellRecord, ToldValue};
pub use write::{NewMeasurement, NewTell};
pub(crate) use write::{
    insert_ask, insert_failures, insert_reconstruction, insert_tell, replace_belief, replace_prior,
};

use crate::error::SessionError;
use crate::layer;
use crate::scene::{Layers, Scene};
use crate::schema::{self, STEPS};
use crate::settings::{Settings, Task};

/// How long a process waits for another one to finish its transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// A file that was given to a session, kept whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// What it is used as, e.g. `buildings`.
    pub role: String,
    /// Where it came from.
    pub path: PathBuf,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// A session on disk.
///
/// Every change is one transaction that is durable (write-ahead log, `synchronous = FULL`) when the call returns. Several
/// processes may have the file open at once; those that write wait for each other.
#[derive(Debug)]
pub struct SessionFile {
    connection: Connection,
    path: PathBuf,
    migrated_from: Option<PathBuf>,
    read_only: bool,
}

impl SessionFile {
    /// Makes a session file.
    ///
    /// # Errors
    /// `InvalidInput` if the file exists or the settings and layers do not fit each other (nothing is written then), `Io`
    /// if it cannot be written.
    pub fn create(path: &Path, settings: &Settings, layers: &Layers, inputs: &[InputFile]) -> Result<Self> {
        Scene::new(settings, layers)?;
        if path.exists() {
            return Err(SessionError::Exists { path: path.into() }.into());
        }
        let refused = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AlreadyExists => SessionError::Exists { path: path.into() },
            _ => SessionError::Create { path: path.into(), source },
        };
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        // Made under another name and moved when it is complete and closed: a session is there whole or not at all.
        let new = new_file().tempfile_in(folder).map_err(refused)?.into_temp_path();
        let mut file = Self::open_with(&new, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        file.fill(settings, layers, inputs)?;
        // The log keeps its name when the file is moved, so nothing may be left in it.
        let checkpoint = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        file.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), checkpoint).map_err(file.failure("write"))?;
        drop(file);
        new.persist_noclobber(path).map_err(|error| refused(error.error))?;
        Self::open(path)
    }

    fn fill(&mut self, settings: &Settings, layers: &Layers, inputs: &[InputFile]) -> Result<()> {
        let cells = settings.grid()?;
        let pixels = match settings.task {
            Task::Radio { pixels_per_cell, .. } => {
                Grid::new(settings.rows * pixels_per_cell, settings.cols * pixels_per_cell)?
            }
            Task::Field | Task::Depth => cells,
        };
        let text = serde_json::to_string(settings).expect("settings are plain data");
        self.change(|transaction| {
            let mut meta = transaction.prepare("INSERT INTO meta (key, value) VALUES (?, ?)")?;
            meta.execute(params!["settings", text])?;
            meta.execute(params!["made_by", concat!("gpara ", env!("CARGO_PKG_VERSION"))])?;
            transaction.execute(
                "INSERT INTO meta (key, value) VALUES ('made_at', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
                (),
            )?;
            layer::store(transaction, layers, pixels, cells)?;
            let mut statement =
                transaction.prepare("INSERT INTO input (role, path, sha256, content) VALUES (?, ?, ?, ?)")?;
            for InputFile { role, path, content } in inputs {
                statement.execute(params![role, path.display().to_string(), sha256_hex(content), content])?;
            }
            Ok(())
        })
    }

    /// Opens a session to read and write; an older schema is migrated, with a copy of the file beside it.
    ///
    /// # Errors
    /// `Io` if there is no such file or it cannot be written, `Incompatible` if it is no session or a newer one.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Err(SessionError::Missing { path: path.into() }.into());
        }
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Self> {
        let database = |source| SessionError::Database { action: "open", path: path.into(), source };
        let mut connection = Connection::open_with_flags(path, flags).map_err(database)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(database)?;
        let migrated_from = match schema::version(&connection, path, STEPS.len())? {
            version if version == STEPS.len() => None,
            0 if !flags.contains(OpenFlags::SQLITE_OPEN_CREATE) => {
                return Err(SessionError::NotASession { path: path.into() }.into());
            }
            _ => {
                connection.pragma_update(None, "journal_mode", "WAL").map_err(database)?;
                schema::migrate(&mut connection, path, STEPS)?
            }
        };
        // FULL syncs the log before a transaction is acknowledged.
        connection.pragma_update(None, "synchronous", "FULL").map_err(database)?;
        Ok(Self { connection, path: path.into(), migrated_from, read_only: false })
    }

    /// Opens a session to look at it: nothing is written, and a file on read-only media works.
    ///
    /// # Errors
    /// As [`open`](Self::open), and `Incompatible` for an older schema, which only [`open`](Self::open) migrates.
    pub fn open_read_only(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Err(SessionError::Missing { path: path.into() }.into());
        }
        let database = |source| SessionError::Database { action: "open", path: path.into(), source };
        // Where the file may be written, the last one to close it must be able to tidy the log away.
        let plain = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(database)?;
        plain.busy_timeout(BUSY_TIMEOUT).map_err(database)?;
        let connection = match plain.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get::<_, i64>(0)) {
            // A write-ahead log needs a file beside the session even to read; where none may be made, nobody writes.
            Err(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly)
                ) =>
            {
                let uri = format!("file:{}?immutable=1", percent_encoded(path));
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(uri, flags).map_err(database)?
            }
            _ => plain,
        };
        connection.pragma_update(None, "query_only", true).map_err(database)?;
        match schema::version(&connection, path, STEPS.len())? {
            version if version == STEPS.len() => {
                Ok(Self { connection, path: path.into(), migrated_from: None, read_only: true })
            }
            0 => Err(SessionError::NotASession { path: path.into() }.into()),
            // Migrating needs to write.
            _ => {
                drop(connection);
                Self::open(path)
            }
        }
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was opened to look at only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The copy that was made of the file before its schema was migrated, if it was.
    pub fn migrated_from(&self) -> Option<&Path> {
        self.migrated_from.as_deref()
    }

    /// Runs a change as one transaction that holds the write lock from its beginning.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let path = self.path.clone();
        let database = |source| SessionError::Database { action: "write", path: path.clone(), source };
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.map_err(database)?;
        let made = change(&transaction).map_err(database)?;
        transaction.commit().map_err(database)?;
        Ok(made)
    }

    /// Takes the write lock and gives what `change` may read and write; it is all kept if `change` succeeds, else nothing.
    pub(crate) fn locked<T>(&self, change: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.failure("write"))?;
        let made = change(self);
        let end = if made.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.connection.execute_batch(end);
        if ended.is_err() && !self.connection.is_autocommit() {
            // A commit that failed, e.g. on a full disk, must not stay open and land later.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let made = made?;
        ended.map_err(self.failure("write"))?;
        Ok(made)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// An error of the database while doing `action`.
    pub(crate) fn failure(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> gpara::Error + '_ {
        move |source| SessionError::Database { action, path: self.path.clone(), source }.into()
    }
}

/// A temporary file with the permissions of any new file; by default it would be private to its owner.
fn new_file() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// SHA-256 as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path inside a `file:` URI.
fn percent_encoded(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => encoded.push(char::from(byte)),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
        encoded
    })
}
