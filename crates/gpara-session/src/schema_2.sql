-- What networks said of the field after the measurements whose hash stands beside it; at most one row.
CREATE TABLE belief (
    method TEXT NOT NULL,
    observations TEXT NOT NULL,
    mean BLOB NOT NULL,
    std BLOB NOT NULL,
    PRIMARY KEY (method, observations)
) WITHOUT ROWID;
-- Half widths of the 50, 80 and 95 % intervals of an ask's predictions, in predicted standard deviations.
ALTER TABLE ask ADD COLUMN interval_50 REAL NOT NULL DEFAULT 0.6744897501960817;
ALTER TABLE ask ADD COLUMN interval_80 REAL NOT NULL DEFAULT 1.2815515655446004;
ALTER TABLE ask ADD COLUMN interval_95 REAL NOT NULL DEFAULT 1.959963984540054;
-- The ask whose prediction stands beside a value.
ALTER TABLE measurement ADD COLUMN predicted_by INTEGER;
