-- Every query of the SQLite store, by name. {rows} stands for a list of rows of parameters:
-- the frequent writes are set-based, so that a commit costs a handful of statements. A query
-- that ends in _one does the same to a single row, at half the price of a set of one.

-- name: next_seq
-- None while the queue is being filled by a move.
SELECT CASE WHEN EXISTS (SELECT 1 FROM flags WHERE name = 'moving') THEN NULL
            ELSE ifnull(max(seq), 0) + 1 END FROM tasks;

-- name: insert_tasks
INSERT INTO tasks (seq, id, status, priority, kind, workstream_id, key, created_at, ready_at, spec)
VALUES {rows};

-- name: insert_history
INSERT INTO history (task, was, became, at, actor, reason)
VALUES {rows};

-- name: insert_ends
INSERT INTO history (task, was, became, at, actor, reason, number, worker_id, host_id, started_at,
                     ended_at, ending, error, usage)
VALUES {rows};

-- name: insert_dependencies
INSERT INTO dependencies (task, needs)
VALUES {rows};

-- name: tasks_with_keys
SELECT key, id, seq, status FROM tasks
WHERE key IN (VALUES {rows});

-- name: newest_id
SELECT max(ifnull((SELECT max(id) FROM tasks), ''), ifnull((SELECT max(id) FROM archive), ''));

-- name: tasks_with_ids
WITH given (id) AS (VALUES {rows})
SELECT id, seq, status FROM tasks WHERE id IN given
UNION ALL
SELECT id, NULL, status FROM archive WHERE id IN given;

-- name: tasks_with_ids_one
SELECT id, seq, status FROM tasks WHERE id = ?1
UNION ALL
SELECT id, NULL, status FROM archive WHERE id = ?1;

-- name: bump_tally
UPDATE tallies SET n = n + ?3 WHERE status = ?1 AND priority = ?2;

-- name: waiting
SELECT sum(n) FROM tallies WHERE status IN ('pending', 'blocked');

-- name: is_paused
SELECT 1 FROM flags WHERE name = 'paused';

-- name: set_paused
INSERT INTO flags (name, at, actor) VALUES ('paused', :at, :actor)
ON CONFLICT (name) DO NOTHING;

-- name: unset_paused
DELETE FROM flags WHERE name = 'paused';

-- name: candidates
-- The heads of the four levels, merged by age: each is one range of the index on ready tasks,
-- so the price does not depend on how many tasks there are. Only those that are chosen are read
-- whole, in their order. While claims are held the limit is 0, and nothing is looked at; the flags
-- are asked for one by one, because for an IN SQLite makes a table in memory.
WITH heads (seq, level, ready_at) AS (
    SELECT * FROM (
        SELECT seq, priority, ready_at FROM tasks
        WHERE status = 'pending' AND priority = 0 AND ready_at <= :now AND {fits}
        ORDER BY ready_at, seq LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT seq, priority, ready_at FROM tasks
        WHERE status = 'pending' AND priority = 1 AND ready_at <= :now AND {fits}
        ORDER BY ready_at, seq LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT seq, priority, ready_at FROM tasks
        WHERE status = 'pending' AND priority = 2 AND ready_at <= :now AND {fits}
        ORDER BY ready_at, seq LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT seq, priority, ready_at FROM tasks
        WHERE status = 'pending' AND priority = 3 AND ready_at <= :now AND {fits}
        ORDER BY ready_at, seq LIMIT :limit)
)
SELECT {columns}, tasks.token, tasks.seq FROM (
    SELECT seq FROM heads
    ORDER BY CASE WHEN :ageing > 0 THEN max(0, level - (:now - ready_at) / :ageing)
                  ELSE level END,
             ready_at, seq
    LIMIT CASE WHEN EXISTS (SELECT 1 FROM flags WHERE name = 'paused')
                 OR EXISTS (SELECT 1 FROM flags WHERE name = 'moving') THEN 0 ELSE :limit END
) AS chosen CROSS JOIN tasks ON tasks.seq = chosen.seq;

-- name: not_held
-- A held circuit is a kind and a workstream, a kind that is held everywhere stands alone.
(kind, ifnull(workstream_id, '')) NOT IN
    (SELECT value ->> 0, ifnull(value ->> 1, '') FROM json_each(:held)
     WHERE json_array_length(value) = 2)
AND kind NOT IN
    (SELECT value ->> 0 FROM json_each(:held) WHERE json_array_length(value) = 1);

-- name: lease
WITH given (seq, number, worker_id, now, token, host_id) AS (VALUES {rows})
UPDATE tasks SET status = 'running', token = given.token, worker_id = given.worker_id,
                 host_id = given.host_id,
                 started_at = given.now, attempt_count = attempt_count + 1,
                 last_attempt = given.number
FROM given
WHERE tasks.seq = given.seq;

-- name: lease_one
UPDATE tasks SET status = 'running', token = ?5, worker_id = ?3, host_id = ?6, started_at = ?4,
                 attempt_count = attempt_count + 1, last_attempt = ?2
WHERE seq = ?1;

-- name: steps_of
SELECT task_id, step, value FROM checkpoints
WHERE task_id IN (VALUES {rows});

-- name: running
WITH given (id) AS (VALUES {rows})
SELECT {columns}, token, tasks.seq FROM given CROSS JOIN tasks ON tasks.id = given.id
WHERE +tasks.status = 'running';

-- name: one
SELECT {columns}, token, tasks.seq FROM tasks WHERE tasks.id = :id;

-- name: one_to_write
SELECT {columns}, token, tasks.seq FROM tasks WHERE tasks.id = :id;

-- name: some
WITH given (seq) AS (VALUES {rows})
SELECT {columns}, token, tasks.seq FROM given CROSS JOIN tasks ON tasks.seq = given.seq;

-- name: settle
WITH given (seq, status, attempt_count, ready_at, started_at, completed_at, worker_id, result,
            error, cancel, host_id) AS (VALUES {rows})
UPDATE tasks SET status = given.status, attempt_count = given.attempt_count,
                 ready_at = given.ready_at, started_at = given.started_at,
                 completed_at = given.completed_at, worker_id = given.worker_id,
                 host_id = given.host_id,
                 result = given.result, error = given.error, cancel = given.cancel, token = NULL
FROM given WHERE tasks.seq = given.seq;

-- name: insert_completions
-- Before `complete`, which takes the tokens away.
WITH given (id, token, ended_at, ending, usage, actor, now) AS (VALUES {rows})
INSERT INTO history (task, was, became, at, actor, reason, number, worker_id, host_id, started_at,
                     ended_at, ending, usage)
SELECT seq, 'running', 'completed', given.now, given.actor, 'completed', last_attempt, worker_id,
       host_id, started_at, given.ended_at, given.ending, given.usage
FROM given CROSS JOIN tasks ON tasks.id = given.id AND tasks.token = given.token;

-- name: insert_completions_one
INSERT INTO history (task, was, became, at, actor, reason, number, worker_id, host_id, started_at,
                     ended_at, ending, usage)
SELECT seq, 'running', 'completed', ?7, ?6, 'completed', last_attempt, worker_id, host_id,
       started_at, ?3, ?4, ?5
FROM tasks WHERE id = ?1 AND token = ?2;

-- name: complete
WITH given (id, token, completed_at, result) AS (VALUES {rows})
UPDATE tasks SET status = 'completed', completed_at = given.completed_at, result = given.result,
                 error = NULL, cancel = NULL, token = NULL
FROM given WHERE tasks.id = given.id AND tasks.token = given.token
RETURNING {completed};

-- name: complete_one
UPDATE tasks SET status = 'completed', completed_at = ?3, result = ?4,
                 error = NULL, cancel = NULL, token = NULL
WHERE id = ?1 AND token = ?2
RETURNING {completed};

-- name: completed
-- What is returned has no type, and without one the checkpoints would be scanned.
tasks.id, seq, priority,
EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.task_id = CAST(tasks.id AS TEXT)),
EXISTS (SELECT 1 FROM dependencies WHERE dependencies.needs = tasks.seq);

-- name: wish_end
UPDATE tasks SET cancel = :cancel WHERE seq = :seq;

-- name: dependents_now_free
WITH given (seq) AS (VALUES {rows})
SELECT DISTINCT waiting.task
FROM given CROSS JOIN dependencies AS waiting ON waiting.needs = given.seq
CROSS JOIN tasks ON tasks.seq = waiting.task
WHERE +tasks.status = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM dependencies AS other JOIN tasks AS needed ON needed.seq = other.needs
    WHERE other.task = waiting.task AND needed.status <> 'completed');

-- name: unfinished_needs
SELECT count(*) FROM dependencies JOIN tasks AS needed ON needed.seq = dependencies.needs
WHERE dependencies.task = :seq AND needed.status <> 'completed';

-- name: forget_steps
DELETE FROM checkpoints WHERE task_id IN (VALUES {rows});

-- name: save_step
INSERT INTO checkpoints (task_id, step, value, saved_at) VALUES (:task_id, :step, :value, :now)
ON CONFLICT (task_id, step) DO UPDATE SET value = excluded.value, saved_at = excluded.saved_at;

-- name: first_failure
SELECT min(ended_at) FROM history WHERE task = :seq AND error IS NOT NULL;

-- name: insert_dead_letter
INSERT INTO dead_letter_queue (task_id, task_type, document_id, failure_reason, attempt_count,
                               first_failure, last_failure, error_details, checkpoint, created_at)
VALUES (:task_id, :task_type, :document_id, :failure_reason, :attempt_count,
        :first_failure, :last_failure, :error_details, :checkpoint, :created_at);

-- name: dead_letters
SELECT task_id, task_type, document_id, failure_reason, attempt_count,
       first_failure, last_failure, error_details, checkpoint
FROM dead_letter_queue ORDER BY id DESC;

-- name: dead_letter_of
SELECT task_id, task_type, document_id, failure_reason, attempt_count,
       first_failure, last_failure, error_details, checkpoint
FROM dead_letter_queue WHERE task_id = :id;

-- name: forget_dead_letter
DELETE FROM dead_letter_queue WHERE task_id = :id;

-- name: columns
tasks.id, tasks.spec, tasks.status, tasks.created_at, tasks.ready_at, tasks.attempt_count,
tasks.last_attempt, tasks.started_at, tasks.completed_at, tasks.worker_id, tasks.result,
tasks.error, tasks.cancel, tasks.priority, tasks.host_id;

-- name: ids_between
SELECT id FROM tasks WHERE id >= :low AND id < :high
UNION ALL
SELECT id FROM archive WHERE id >= :low AND id < :high
LIMIT 2;

-- name: attempts_of
SELECT number, worker_id, started_at, ended_at, ending, error, usage, host_id
FROM history WHERE task = :seq AND number IS NOT NULL ORDER BY number;

-- name: history_of
SELECT seq, was, became, at, actor, reason FROM history WHERE task = :seq ORDER BY seq;

-- name: moves
SELECT history.seq, was, became, at, actor, reason, tasks.id
FROM history JOIN tasks ON tasks.seq = history.task
WHERE history.seq > :since ORDER BY history.seq LIMIT :limit;

-- name: newest_move
SELECT seq FROM sqlite_sequence WHERE name = 'history';

-- name: arrivals
SELECT count(*) FROM history WHERE seq > :since AND seq <= :until AND was IS NULL;

-- name: mentions
-- The cheap look at the whole JSON comes first; few rows pass it.
(id LIKE :beginning ESCAPE '\' OR workstream_id LIKE :text ESCAPE '\'
    OR (spec LIKE :written ESCAPE '\' AND (
        spec ->> '$.title' LIKE :text ESCAPE '\'
        OR spec ->> '$.command' LIKE :text ESCAPE '\'
        OR EXISTS (SELECT 1 FROM json_each(spec, '$.args') WHERE value LIKE :text ESCAPE '\'))));

-- name: find
SELECT {columns} FROM tasks WHERE {where} ORDER BY {order} LIMIT :limit OFFSET :offset;

-- name: leases
SELECT {columns}, token, tasks.seq FROM tasks WHERE status = 'running' ORDER BY seq;

-- name: leases_of
SELECT {columns}, token, tasks.seq FROM tasks
WHERE status = 'running' AND host_id = :host_id ORDER BY seq;

-- name: join_host
INSERT INTO hosts (id, host, lease_ms, joined_at, seen_at)
VALUES (:id, :host, :lease_ms, :now, :now)
ON CONFLICT (id) DO UPDATE SET host = excluded.host, lease_ms = excluded.lease_ms,
                               seen_at = excluded.seen_at;

-- name: renew_host
UPDATE hosts SET seen_at = :now, pool = ifnull(:pool, pool) WHERE id = :id;

-- name: tokens_of
SELECT token FROM tasks WHERE status = 'running' AND host_id = :id;

-- name: leave_host
DELETE FROM hosts WHERE id = :id AND NOT EXISTS (
    SELECT 1 FROM tasks WHERE status = 'running' AND host_id = :id);

-- name: hosts
SELECT host, joined_at, seen_at, NULL, NULL, pool FROM hosts ORDER BY joined_at, id;

-- name: wishes
SELECT {columns} FROM tasks WHERE cancel IS NOT NULL ORDER BY seq;

-- name: tallies
SELECT status, priority, n FROM tallies;

-- name: oldest_ready
SELECT min(ready_at) FROM (
    SELECT (SELECT min(ready_at) FROM tasks WHERE status = 'pending' AND priority = levels.value)
        AS ready_at
    FROM json_each('[0,1,2,3]') AS levels);

-- name: archived
SELECT record FROM archive WHERE id = :id;

-- name: to_archive
-- A cancelled task waits again when it is retried, so what it needs has to stay as long as it does.
SELECT id FROM tasks
WHERE status IN ('completed', 'cancelled') AND completed_at < :before
  AND NOT EXISTS (
    SELECT 1 FROM dependencies JOIN tasks AS waiting ON waiting.seq = dependencies.task
    WHERE dependencies.needs = tasks.seq AND waiting.status IN ('blocked', 'cancelled'))
LIMIT :limit;

-- name: insert_archive
INSERT INTO archive (id, status, completed_at, record)
VALUES (:id, :status, :completed_at, :record);

-- name: delete_tasks
DELETE FROM tasks WHERE id IN (VALUES {rows});

-- name: forget_orphaned_steps
DELETE FROM checkpoints WHERE saved_at < :before AND task_id IN (
    SELECT id FROM tasks WHERE status IN ('completed', 'failed', 'cancelled'));

-- name: wrong_tallies
SELECT tallies.status, tallies.priority, tallies.n, count(tasks.seq) AS counted
FROM tallies LEFT JOIN tasks
  ON tasks.status = tallies.status AND tasks.priority = tallies.priority
GROUP BY tallies.status, tallies.priority HAVING tallies.n <> counted;

-- name: failed_without_letter
SELECT id FROM tasks
WHERE status = 'failed' AND id NOT IN (SELECT task_id FROM dead_letter_queue);

-- name: letters_without_failure
SELECT task_id FROM dead_letter_queue
WHERE task_id NOT IN (SELECT id FROM tasks WHERE status = 'failed');

-- name: blocked_without_need
SELECT id FROM tasks WHERE status = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM dependencies JOIN tasks AS needed ON needed.seq = dependencies.needs
    WHERE dependencies.task = tasks.seq AND needed.status <> 'completed');

-- name: page
SELECT {columns} FROM {table} WHERE {behind} ORDER BY {key} LIMIT :limit;

-- name: last_key
SELECT {key} FROM {table} ORDER BY {backwards} LIMIT 1;

-- name: rows_in
SELECT count(*) FROM {table};

-- name: wipe
DELETE FROM {table};

-- name: wipe_flags
DELETE FROM flags WHERE name <> 'moving';

-- name: moving
SELECT actor FROM flags WHERE name = 'moving';

-- name: set_moving
INSERT INTO flags (name, at, actor) VALUES ('moving', :at, :actor);

-- name: unset_moving
DELETE FROM flags WHERE name = 'moving';

-- name: is_held_by
SELECT 1 FROM flags WHERE name = 'paused' AND actor = :actor;

-- name: running_tasks
SELECT count(*) FROM tasks WHERE status = 'running';

-- name: zero_tallies
UPDATE tallies SET n = 0;

-- name: levels_of
SELECT priority, count(*) FROM tasks WHERE status = {status} GROUP BY priority;

-- name: hosts_in_time
-- Whoever looks has found out already whether the daemon of this file runs.
SELECT NULL;

-- name: newest_number
SELECT seq FROM sqlite_sequence WHERE name = 'history';

-- name: load
INSERT INTO {table} ({columns}) VALUES ({slots});

-- name: forget_number
DELETE FROM sqlite_sequence WHERE name = 'history';

-- name: set_number
INSERT INTO sqlite_sequence (name, seq) VALUES ('history', :newest);
