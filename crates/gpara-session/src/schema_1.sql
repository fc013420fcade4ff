-- Rows and columns count from 0; values and sigmas are in the session's unit; times are UTC.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE input (
    id INTEGER PRIMARY KEY,
    role TEXT NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    content BLOB NOT NULL
);
CREATE TABLE layer (
    name TEXT PRIMARY KEY,
    rows INTEGER NOT NULL,
    cols INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('u8', 'f64')),
    content BLOB NOT NULL
);
CREATE TABLE ask (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    num_observed INTEGER NOT NULL,
    risk REAL NOT NULL,
    seconds REAL NOT NULL,
    route_length REAL
);
CREATE TABLE ask_point (
    ask INTEGER NOT NULL REFERENCES ask (id),
    place INTEGER NOT NULL,
    row INTEGER NOT NULL,
    col INTEGER NOT NULL,
    score REAL NOT NULL,
    expected_risk_drop REAL NOT NULL,
    predicted_mean REAL,
    predicted_std REAL,
    PRIMARY KEY (ask, place)
) WITHOUT ROWID;
CREATE INDEX ask_point_cell ON ask_point (row, col);
CREATE TABLE tell (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    source TEXT NOT NULL,
    num_skipped INTEGER NOT NULL
);
CREATE TABLE measurement (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tell INTEGER NOT NULL REFERENCES tell (id),
    line INTEGER,
    row INTEGER NOT NULL,
    col INTEGER NOT NULL,
    value REAL NOT NULL,
    sigma REAL NOT NULL,
    predicted_mean REAL,
    predicted_std REAL
);
CREATE INDEX measurement_cell ON measurement (row, col);
CREATE TABLE failure (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    row INTEGER NOT NULL,
    col INTEGER NOT NULL
);
CREATE TABLE reconstruction (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    num_observed INTEGER NOT NULL,
    seconds REAL NOT NULL,
    network_calls INTEGER NOT NULL,
    largest_misfit REAL,
    outputs TEXT NOT NULL
);
CREATE TABLE prior_sample (
    sample INTEGER PRIMARY KEY,
    method TEXT NOT NULL,
    content BLOB NOT NULL
);
CREATE VIEW pending AS
    SELECT DISTINCT row, col FROM ask_point
    WHERE NOT EXISTS (SELECT 1 FROM measurement m WHERE m.row = ask_point.row AND m.col = ask_point.col)
      AND NOT EXISTS (SELECT 1 FROM failure f WHERE f.row = ask_point.row AND f.col = ask_point.col);
