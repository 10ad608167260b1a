-- The queue. Moments are milliseconds since the epoch (UTC) unless a column says otherwise.

CREATE TABLE tasks (
    seq           INTEGER PRIMARY KEY,  -- order of arrival
    id            TEXT    NOT NULL UNIQUE,
    status        TEXT    NOT NULL CHECK (
        status IN ('pending', 'blocked', 'running', 'completed', 'failed', 'cancelled')
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
    CHECK ((status = 'running') = (token IS NOT NULL))
) STRICT;

CREATE INDEX tasks_ready ON tasks (priority, ready_at, seq) WHERE status = 'pending';
CREATE INDEX tasks_by_status ON tasks (status, seq);
CREATE INDEX tasks_by_priority ON tasks (priority, seq);
CREATE INDEX tasks_by_workstream ON tasks (workstream_id, seq) WHERE workstream_id IS NOT NULL;
CREATE UNIQUE INDEX tasks_by_key ON tasks (key) WHERE key IS NOT NULL;
CREATE INDEX tasks_to_cancel ON tasks (seq) WHERE cancel IS NOT NULL;

-- The attempts that have ended; one that runs is a part of its task's row.
CREATE TABLE attempts (
    task       INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    number     INTEGER NOT NULL,
    worker_id  TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    ending     TEXT    NOT NULL,        -- JSON
    error      TEXT,                    -- JSON
    usage      TEXT,                    -- JSON
    PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: event streams resume from it
    task   INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    was    TEXT,
    became TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    reason TEXT    NOT NULL
) STRICT;

CREATE INDEX history_by_task ON history (task);

CREATE TABLE dependencies (
    needs INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    task  INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    PRIMARY KEY (needs, task)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependencies_by_task ON dependencies (task);

CREATE TABLE checkpoints (
    task_id  TEXT    NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    step     TEXT    NOT NULL,
    value    TEXT    NOT NULL,          -- JSON
    saved_at INTEGER NOT NULL,
    PRIMARY KEY (task_id, step)
) STRICT, WITHOUT ROWID;

CREATE INDEX checkpoints_by_age ON checkpoints (saved_at);

CREATE TABLE dead_letter_queue (
    id             INTEGER   PRIMARY KEY AUTOINCREMENT,
    task_id        TEXT      NOT NULL,
    task_type      TEXT      NOT NULL,
    document_id    TEXT      NOT NULL,
    failure_reason TEXT      NOT NULL,
    attempt_count  INTEGER   NOT NULL,
    first_failure  TIMESTAMP NOT NULL,  -- ISO 8601
    last_failure   TIMESTAMP NOT NULL,  -- ISO 8601
    error_details  TEXT,                -- JSON
    checkpoint     TEXT,                -- JSON: finished steps and their values
    created_at     TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX idx_dlq_task_id ON dead_letter_queue (task_id);
CREATE INDEX idx_dlq_document_id ON dead_letter_queue (document_id);
CREATE INDEX idx_dlq_last_failure ON dead_letter_queue (last_failure);

-- How many tasks there are of each status and priority, kept by every write, so that counting is free.
CREATE TABLE tallies (
    status   TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    n        INTEGER NOT NULL CHECK (n >= 0),
    PRIMARY KEY (status, priority)
) STRICT, WITHOUT ROWID;

INSERT INTO tallies (status, priority, n)
SELECT s.value, p.value, 0
FROM json_each('["pending","blocked","running","completed","failed","cancelled"]') AS s,
     json_each('[0,1,2,3]') AS p;

CREATE TABLE flags (
    name  TEXT    PRIMARY KEY,
    at    INTEGER NOT NULL,
    actor TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Finished long ago: one JSON record each, out of the way of the living.
CREATE TABLE archive (
    id           TEXT    PRIMARY KEY,
    status       TEXT    NOT NULL,
    completed_at INTEGER NOT NULL,
    record       TEXT    NOT NULL       -- JSON
) STRICT, WITHOUT ROWID;
