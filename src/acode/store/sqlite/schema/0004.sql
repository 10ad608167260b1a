-- To check a status by IN (...), SQLite makes a table of the six in memory for every row that is
-- written, which takes as long as an index. Compared one by one they cost nearly nothing.
-- A check cannot be changed, so the table is copied; foreign keys are not looked at meanwhile.

CREATE TABLE new_tasks (
    seq           INTEGER PRIMARY KEY,  -- order of arrival
    id            TEXT    NOT NULL UNIQUE,
    status        TEXT    NOT NULL CHECK (
        status = 'pending' OR status = 'running' OR status = 'completed' OR status = 'blocked'
        OR status = 'failed' OR status = 'cancelled'
    ),
    priority      INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 3),
    kind          TEXT    NOT NULL,
    workstream_id TEXT,
    key           TEXT,
    created_at    INTEGER NOT NULL,
    ready_at      INTEGER NOT NULL,
    started_at    INTEGER,
    completed_at  INTEGER,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    last_attempt  INTEGER NOT NULL DEFAULT 0,
    worker_id     TEXT,
    token         TEXT,                 -- of the current lease; NULL unless running
    cancel        TEXT,                 -- a user's wish: gently, force
    spec          TEXT    NOT NULL,     -- JSON
    result        TEXT,                 -- JSON
    error         TEXT,                 -- JSON
    host_id       TEXT,                 -- who runs or ran it
    CHECK ((status = 'running') = (token IS NOT NULL))
) STRICT;

INSERT INTO new_tasks
SELECT seq, id, status, priority, kind, workstream_id, key, created_at, ready_at, started_at,
       completed_at, attempt_count, last_attempt, worker_id, token, cancel, spec, result, error,
       host_id
FROM tasks;

DROP TABLE tasks;

ALTER TABLE new_tasks RENAME TO tasks;

CREATE INDEX tasks_ready ON tasks (priority, ready_at, seq) WHERE status = 'pending';
CREATE INDEX tasks_by_status ON tasks (status, seq);
CREATE INDEX tasks_by_priority ON tasks (priority, seq);
CREATE INDEX tasks_by_workstream ON tasks (workstream_id, seq) WHERE workstream_id IS NOT NULL;
CREATE UNIQUE INDEX tasks_by_key ON tasks (key) WHERE key IS NOT NULL;
CREATE INDEX tasks_to_cancel ON tasks (seq) WHERE cancel IS NOT NULL;
