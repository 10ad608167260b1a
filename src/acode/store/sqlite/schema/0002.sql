-- Who ran what: hosts are daemons that share a store.

ALTER TABLE tasks ADD COLUMN host_id TEXT;

ALTER TABLE attempts ADD COLUMN host_id TEXT;

CREATE TABLE hosts (
    id        TEXT    PRIMARY KEY,
    host      TEXT    NOT NULL,         -- JSON
    lease_ms  INTEGER NOT NULL,
    joined_at INTEGER NOT NULL,
    seen_at   INTEGER NOT NULL,
    pool      TEXT                      -- JSON: what it last published
) STRICT, WITHOUT ROWID;
