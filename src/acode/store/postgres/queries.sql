-- Every query of the PostgreSQL store, by name. A set-based write takes one array for each
-- column, so its text is the same for one row and for a thousand.
--
-- Others write at the same time. Whoever decides by a row locks it first, and whoever decides by
-- several locks them in the order of arrival. Rows are locked FOR NO KEY UPDATE, to change them, or
-- FOR SHARE, so that they stay as they are until the commit.

-- name: moment
-- By the server's clock, unless a test brings its own.
coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);

-- name: fresh_seqs
-- With the number of those that wait. None while the queue is being filled by a move.
SELECT nextval('acode.tasks_seq_seq'), ({waiting}) FROM generate_series(1, %(count)s)
WHERE NOT EXISTS (SELECT 1 FROM acode.flags WHERE name = 'moving');

-- name: insert_tasks
INSERT INTO acode.tasks (seq, id, status, priority, kind, workstream_id, key, created_at, ready_at,
                         spec)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::smallint[], %s::text[], %s::text[],
                     %s::text[], %s::bigint[], %s::bigint[], %s::text[]);

-- name: add_at_once
-- New tasks that wait for nobody, with their moves; none if one of the ids is taken, or there is no
-- room, or the queue is being filled by a move.
WITH new AS (
    INSERT INTO acode.tasks (id, status, priority, kind, workstream_id, created_at, ready_at, spec)
    SELECT id, 'pending', level, kind, workstream_id, now, now + delay, spec
    FROM (SELECT {moment}) AS clock (now), unnest(
        %(ids)s::text[], %(levels)s::smallint[], %(kinds)s::text[], %(workstreams)s::text[],
        %(delays)s::bigint[], %(specs)s::text[]
    ) WITH ORDINALITY AS given (id, level, kind, workstream_id, delay, spec, place)
    WHERE NOT EXISTS (SELECT 1 FROM acode.flags WHERE name = 'moving')
      AND coalesce(({waiting}), 0) + %(count)s::bigint <= %(room)s::bigint
      AND NOT EXISTS (SELECT 1 FROM acode.tasks WHERE id = ANY (%(ids)s::text[]))
      AND NOT EXISTS (SELECT 1 FROM acode.archive WHERE id = ANY (%(ids)s::text[]))
    ORDER BY place
    RETURNING seq, id, priority, created_at),
moves AS (
    INSERT INTO acode.history (task, was, became, at, actor, reason)
    SELECT seq, NULL, 'pending', created_at, actor, 'added'
    FROM new JOIN unnest(%(ids)s::text[], %(actors)s::text[]) AS given (id, actor)
        ON new.id = given.id
    ORDER BY seq)
INSERT INTO acode.tallies (shard, status, priority, n)
SELECT %(shard)s::smallint, 'pending', priority, count(*) FROM new GROUP BY priority
ORDER BY priority
ON CONFLICT (shard, status, priority) DO UPDATE SET n = tallies.n + excluded.n
RETURNING n;

-- name: are_there
SELECT 1 FROM acode.tasks WHERE id = ANY (%(ids)s::text[]) HAVING count(*) = cardinality(%(ids)s);

-- name: marks
27416::bigint << 48;

-- name: insert_history
INSERT INTO acode.history (task, was, became, at, actor, reason)
SELECT * FROM unnest(%(tasks)s::bigint[], %(was)s::text[], %(became)s::text[], %(at)s::bigint[],
                     %(actors)s::text[], %(reasons)s::text[]);

-- name: insert_ends
INSERT INTO acode.history (task, was, became, at, actor, reason, number, worker_id, host_id,
                           started_at, ended_at, ending, error, usage)
SELECT * FROM unnest(%(tasks)s::bigint[], %(was)s::text[], %(became)s::text[], %(at)s::bigint[],
                     %(actors)s::text[], %(reasons)s::text[], %(numbers)s::integer[],
                     %(workers)s::text[], %(hosts)s::text[], %(started)s::bigint[],
                     %(ended)s::bigint[], %(endings)s::text[], %(errors)s::text[],
                     %(usages)s::text[]);

-- name: insert_dependencies
INSERT INTO acode.dependencies (task, needs)
SELECT * FROM unnest(%s::bigint[], %s::bigint[]);

-- name: tasks_with_keys
SELECT key, id, seq, status FROM acode.tasks
WHERE key = ANY (%s::text[]);

-- name: tasks_with_ids
-- What a new task needs must not complete unnoticed until it is there.
WITH given (id) AS (SELECT unnest(%s::text[]) COLLATE "C"),
living AS (
    SELECT tasks.id, seq, status FROM given JOIN acode.tasks ON tasks.id = given.id
    ORDER BY seq FOR SHARE OF tasks)
SELECT id, seq, status FROM living
UNION ALL
SELECT archive.id, NULL, status FROM given JOIN acode.archive ON archive.id = given.id;

-- name: bump_tally
INSERT INTO acode.tallies (shard, status, priority, n)
SELECT %(shard)s::smallint, * FROM unnest(%(statuses)s::text[], %(levels)s::smallint[], %(changes)s::bigint[])
ON CONFLICT (shard, status, priority) DO UPDATE SET n = tallies.n + excluded.n;

-- name: moves_and_tallies
WITH moves AS ({insert_history})
{bump_tally};

-- name: fate
SELECT pg_xact_status(%(xid)s::xid8);

-- name: waiting
SELECT sum(n)::bigint FROM acode.tallies WHERE status IN ('pending', 'blocked');

-- name: is_paused
SELECT 1 FROM acode.flags WHERE name = 'paused';

-- name: set_paused
INSERT INTO acode.flags (name, at, actor) VALUES ('paused', %(at)s, %(actor)s)
ON CONFLICT (name) DO NOTHING;

-- name: unset_paused
DELETE FROM acode.flags WHERE name = 'paused';

-- name: candidates
-- The heads of the four levels, merged by age: each is one range of the index on ready tasks,
-- so the price does not depend on how many tasks there are. Rows are locked one by one, in order,
-- until there are enough; those that somebody else is claiming are passed over. There are none
-- while claims are held, and none for a host that has not joined or has lost its lease.
-- The window is a part of the text: a plan for any window whatever would be one for a tenth of
-- all rows, and not be kept.
WITH open (now, yes) AS MATERIALIZED (
    SELECT now, NOT EXISTS (SELECT 1 FROM acode.flags WHERE name IN ('paused', 'moving'))
       AND (%(host_id)s::text IS NULL OR EXISTS (
            SELECT 1 FROM acode.hosts
            WHERE id = %(host_id)s AND lost_at IS NULL AND lease_until > now))
    FROM (SELECT {moment}) AS clock (now)
)
SELECT {columns}, ranked.seen, tasks.token, tasks.seq
FROM (
    SELECT seq, CASE WHEN %(ageing)s > 0
                     THEN greatest(0, level - ((SELECT now FROM open) - ready_at) / %(ageing)s)
                     ELSE level END AS level, ready_at, count(*) OVER () AS seen
    FROM (({head_0}) UNION ALL ({head_1}) UNION ALL ({head_2}) UNION ALL ({head_3})) AS heads
    ORDER BY 2, 3, 1 LIMIT {window}
) AS ranked, LATERAL (
    SELECT * FROM acode.tasks WHERE tasks.seq = ranked.seq AND tasks.status = 'pending'
    FOR NO KEY UPDATE SKIP LOCKED
) AS tasks
ORDER BY ranked.level, ranked.ready_at, ranked.seq
LIMIT %(limit)s;

-- name: head
SELECT seq, {level} AS level, ready_at FROM acode.tasks
WHERE status = 'pending' AND priority = {level} AND ready_at <= (SELECT now FROM open)
  AND (SELECT yes FROM open) AND {fits}
ORDER BY ready_at, seq LIMIT {window};

-- name: not_held
-- A held circuit is a kind and a workstream, a kind that is held everywhere stands alone.
(kind, coalesce(workstream_id, '')) NOT IN
    (SELECT value ->> 0, coalesce(value ->> 1, '') FROM json_array_elements(%(held)s::json)
     WHERE json_array_length(value) = 2)
AND kind NOT IN
    (SELECT value ->> 0 FROM json_array_elements(%(held)s::json)
     WHERE json_array_length(value) = 1);

-- name: lease
WITH leased AS (
    UPDATE acode.tasks SET status = 'running', token = given.token, worker_id = given.worker_id,
                           host_id = %(host_id)s, started_at = %(now)s,
                           attempt_count = attempt_count + 1, last_attempt = last_attempt + 1
    FROM unnest(%(seqs)s::bigint[], %(workers)s::text[], %(tokens)s::text[])
        WITH ORDINALITY AS given (seq, worker_id, token, place)
    WHERE tasks.seq = given.seq AND tasks.status = 'pending'
    RETURNING place, tasks.seq, tasks.worker_id, last_attempt)
INSERT INTO acode.history (task, was, became, at, actor, reason)
SELECT seq, 'pending', 'running', %(now)s, 'worker-' || worker_id, 'attempt ' || last_attempt
FROM leased ORDER BY place;

-- name: steps_of
SELECT task_id, step, value FROM acode.checkpoints
WHERE task_id = ANY (%s::text[]);

-- name: running
SELECT {columns}, token, tasks.seq FROM acode.tasks
WHERE tasks.id = ANY (%s::text[]) AND tasks.status = 'running'
ORDER BY tasks.seq FOR NO KEY UPDATE;

-- name: one
SELECT {columns}, token, tasks.seq FROM acode.tasks WHERE tasks.id = %(id)s;

-- name: one_to_write
SELECT {columns}, token, tasks.seq FROM acode.tasks WHERE tasks.id = %(id)s
FOR NO KEY UPDATE;

-- name: hold
SELECT 1 FROM acode.tasks WHERE id = ANY (%s::text[]) ORDER BY seq FOR NO KEY UPDATE;

-- name: some
SELECT {columns}, token, tasks.seq FROM acode.tasks WHERE tasks.seq = ANY (%s::bigint[])
ORDER BY tasks.seq FOR NO KEY UPDATE;

-- name: settle
UPDATE acode.tasks SET status = given.status, attempt_count = given.attempt_count,
                       ready_at = given.ready_at, started_at = given.started_at,
                       completed_at = given.completed_at, worker_id = given.worker_id,
                       host_id = given.host_id, result = given.result, error = given.error,
                       cancel = given.cancel, token = NULL
FROM unnest(%s::bigint[], %s::text[], %s::integer[], %s::bigint[], %s::bigint[], %s::bigint[],
            %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
    AS given (seq, status, attempt_count, ready_at, started_at, completed_at, worker_id, result,
              error, cancel, host_id)
WHERE tasks.seq = given.seq;

-- name: complete
-- Whether others wait for it is asked afterwards, when they cannot be added unseen any more.
WITH done AS (
    UPDATE acode.tasks SET status = 'completed', completed_at = given.completed_at,
                           result = given.result, error = NULL, cancel = NULL, token = NULL
    FROM unnest(%(ids)s::text[], %(tokens)s::text[], %(ended)s::bigint[], %(results)s::text[],
                %(endings)s::text[], %(usages)s::text[], %(actors)s::text[])
        WITH ORDINALITY AS given (id, token, completed_at, result, ending, usage, actor, place)
    WHERE tasks.id = given.id AND tasks.token = given.token
    RETURNING place, tasks.id, seq, priority, last_attempt, worker_id, host_id, started_at,
              given.completed_at, ending, usage, actor),
moves AS (
    INSERT INTO acode.history (task, was, became, at, actor, reason, number, worker_id, host_id,
                               started_at, ended_at, ending, usage)
    SELECT seq, 'running', 'completed', (SELECT {moment}), actor, 'completed', last_attempt,
           worker_id, host_id, started_at, completed_at, ending, usage
    FROM done ORDER BY place),
steps AS (DELETE FROM acode.checkpoints USING done WHERE checkpoints.task_id = done.id)
SELECT id, seq, priority, true FROM done;

-- name: wish_end
UPDATE acode.tasks SET cancel = %(cancel)s WHERE seq = %(seq)s;

-- name: hold_dependents
-- Of two tasks that complete at once each must see the other, or their dependent would stay blocked.
SELECT tasks.seq FROM unnest(%s::bigint[]) AS given (seq)
JOIN acode.dependencies ON dependencies.needs = given.seq
JOIN acode.tasks ON tasks.seq = dependencies.task
WHERE tasks.status = 'blocked' ORDER BY tasks.seq FOR NO KEY UPDATE OF tasks;

-- name: hold_dependents_of
SELECT waiting.seq FROM acode.tasks AS done
JOIN acode.dependencies ON dependencies.needs = done.seq
JOIN acode.tasks AS waiting ON waiting.seq = dependencies.task
WHERE done.id = ANY (%s::text[]) AND waiting.status = 'blocked'
ORDER BY waiting.seq FOR NO KEY UPDATE OF waiting;

-- name: dependents_now_free
SELECT DISTINCT waiting.task
FROM unnest(%s::bigint[]) AS given (seq)
JOIN acode.dependencies AS waiting ON waiting.needs = given.seq
JOIN acode.tasks ON tasks.seq = waiting.task
WHERE tasks.status = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM acode.dependencies AS other JOIN acode.tasks AS needed ON needed.seq = other.needs
    WHERE other.task = waiting.task AND needed.status <> 'completed');

-- name: unfinished_needs
SELECT count(*) FROM (
    SELECT needed.status FROM acode.dependencies
    JOIN acode.tasks AS needed ON needed.seq = dependencies.needs
    WHERE dependencies.task = %(seq)s ORDER BY needed.seq FOR SHARE OF needed) AS held
WHERE status <> 'completed';

-- name: forget_steps
DELETE FROM acode.checkpoints WHERE task_id = ANY (%s::text[]);

-- name: save_step
INSERT INTO acode.checkpoints (task_id, step, value, saved_at)
VALUES (%(task_id)s, %(step)s, %(value)s, %(now)s)
ON CONFLICT (task_id, step) DO UPDATE SET value = excluded.value, saved_at = excluded.saved_at;

-- name: first_failure
SELECT min(ended_at) FROM acode.history WHERE task = %(seq)s AND error IS NOT NULL;

-- name: insert_dead_letter
INSERT INTO acode.dead_letter_queue (task_id, task_type, document_id, failure_reason, attempt_count,
                                     first_failure, last_failure, error_details, checkpoint,
                                     created_at)
VALUES (%(task_id)s, %(task_type)s, %(document_id)s, %(failure_reason)s, %(attempt_count)s,
        %(first_failure)s, %(last_failure)s, %(error_details)s, %(checkpoint)s, %(created_at)s);

-- name: dead_letters
SELECT task_id, task_type, document_id, failure_reason, attempt_count,
       first_failure, last_failure, error_details, checkpoint
FROM acode.dead_letter_queue ORDER BY id DESC;

-- name: dead_letter_of
SELECT task_id, task_type, document_id, failure_reason, attempt_count,
       first_failure, last_failure, error_details, checkpoint
FROM acode.dead_letter_queue WHERE task_id = %(id)s;

-- name: forget_dead_letter
DELETE FROM acode.dead_letter_queue WHERE task_id = %(id)s;

-- name: columns
tasks.id, tasks.spec, tasks.status, tasks.created_at, tasks.ready_at, tasks.attempt_count,
tasks.last_attempt, tasks.started_at, tasks.completed_at, tasks.worker_id, tasks.result,
tasks.error, tasks.cancel, tasks.priority, tasks.host_id;

-- name: ids_between
SELECT id FROM acode.tasks WHERE id >= %(low)s AND id < %(high)s
UNION ALL
SELECT id FROM acode.archive WHERE id >= %(low)s AND id < %(high)s
LIMIT 2;

-- name: attempts_of
SELECT number, worker_id, started_at, ended_at, ending, error, usage, host_id
FROM acode.history WHERE task = %(seq)s AND number IS NOT NULL ORDER BY number;

-- name: history_of
SELECT seq, was, became, at, actor, reason FROM acode.history WHERE task = %(seq)s ORDER BY seq;

-- name: newest_number
-- The last number that was given to a move; asked before the locks are looked at.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM acode.history_seq_seq;

-- name: settled
-- Up to this number, every move that there will ever be can be seen by the next statement.
SELECT least(%(newest)s, min(((classid::bigint << 32) | objid::bigint) - ({marks})))
FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = 27416
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: moves
SELECT history.seq, was, became, at, actor, reason, tasks.id
FROM acode.history JOIN acode.tasks ON tasks.seq = history.task
WHERE history.seq > %(since)s AND history.seq <= %(until)s ORDER BY history.seq LIMIT %(limit)s;

-- name: arrivals
SELECT count(*) FROM acode.history WHERE seq > %(since)s AND seq <= %(until)s AND was IS NULL;

-- name: mentions
-- The cheap look at the whole JSON comes first; few rows pass it. A NUL cannot be read out of JSON.
(id ILIKE %(beginning)s OR workstream_id ILIKE %(text)s
    OR (spec ILIKE %(written)s AND CASE WHEN strpos(spec, '\u0000') > 0 THEN true ELSE
        spec::json ->> 'title' ILIKE %(text)s
        OR spec::json ->> 'command' ILIKE %(text)s
        OR EXISTS (SELECT 1 FROM json_array_elements_text(spec::json -> 'args') AS word
                   WHERE word ILIKE %(text)s) END));

-- name: find
SELECT {columns} FROM acode.tasks WHERE {where} ORDER BY {order}
LIMIT %(limit)s OFFSET %(offset)s;

-- name: leases
SELECT {columns}, token, tasks.seq FROM acode.tasks WHERE status = 'running' ORDER BY seq;

-- name: leases_of
SELECT {columns}, token, tasks.seq FROM acode.tasks
WHERE status = 'running' AND host_id = %(host_id)s ORDER BY seq;

-- name: join_host
INSERT INTO acode.hosts (id, host, lease_ms, joined_at, seen_at, lease_until)
SELECT %(id)s, %(host)s, %(lease_ms)s, moment, moment, moment + %(lease_ms)s
FROM (SELECT {moment}) AS clock (moment)
ON CONFLICT (id) DO UPDATE SET host = excluded.host, lease_ms = excluded.lease_ms,
    seen_at = excluded.seen_at, lease_until = excluded.lease_until, lost_at = NULL;

-- name: renew_host
UPDATE acode.hosts SET seen_at = moment, lease_until = moment + lease_ms,
                       pool = coalesce(%(pool)s, pool)
FROM (SELECT {moment}) AS clock (moment)
WHERE id = %(id)s AND lost_at IS NULL;

-- name: host_is_in_time
SELECT 1 FROM acode.hosts WHERE id = %(id)s AND lost_at IS NULL AND lease_until > {moment};

-- name: lose_hosts
UPDATE acode.hosts SET lost_at = moment FROM (SELECT {moment}) AS clock (moment)
WHERE lost_at IS NULL AND lease_until <= moment AND id <> %(id)s;

-- name: abandoned
-- Of hosts that were lost earlier too: a claim of theirs may have been on its way just then.
SELECT {columns}, token, tasks.seq FROM acode.hosts JOIN acode.tasks ON tasks.host_id = hosts.id
WHERE hosts.lost_at IS NOT NULL AND tasks.status = 'running'
ORDER BY tasks.seq FOR NO KEY UPDATE OF tasks SKIP LOCKED;

-- name: take_over
UPDATE acode.tasks SET token = given.token, host_id = given.host_id
FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS given (seq, token, host_id)
WHERE tasks.seq = given.seq;

-- name: forget_hosts
DELETE FROM acode.hosts WHERE lost_at < {moment} - %(age)s AND NOT EXISTS (
    SELECT 1 FROM acode.tasks WHERE status = 'running' AND host_id = hosts.id);

-- name: tokens_of
SELECT token FROM acode.tasks WHERE status = 'running' AND host_id = %(id)s;

-- name: leave_host
DELETE FROM acode.hosts WHERE id = %(id)s AND NOT EXISTS (
    SELECT 1 FROM acode.tasks WHERE status = 'running' AND host_id = %(id)s);

-- name: hosts
SELECT host, joined_at, seen_at, lease_until, lost_at, pool FROM acode.hosts ORDER BY joined_at, id;

-- name: wishes
SELECT {columns} FROM acode.tasks
WHERE status = 'running' AND cancel IS NOT NULL ORDER BY seq;

-- name: tallies
SELECT status, priority, sum(n)::bigint FROM acode.tallies GROUP BY status, priority;

-- name: oldest_ready
SELECT min(head.ready_at) FROM (VALUES (0), (1), (2), (3)) AS levels (level), LATERAL (
    SELECT ready_at FROM acode.tasks WHERE status = 'pending' AND priority = levels.level
    ORDER BY ready_at LIMIT 1) AS head;

-- name: archived
SELECT record FROM acode.archive WHERE id = %(id)s;

-- name: to_archive
-- A cancelled task waits again when it is retried, so what it needs has to stay as long as it does.
SELECT id FROM acode.tasks
WHERE status IN ('completed', 'cancelled') AND completed_at < %(before)s
  AND NOT EXISTS (
    SELECT 1 FROM acode.dependencies JOIN acode.tasks AS waiting ON waiting.seq = dependencies.task
    WHERE dependencies.needs = tasks.seq AND waiting.status IN ('blocked', 'cancelled'))
LIMIT %(limit)s FOR UPDATE OF tasks SKIP LOCKED;

-- name: insert_archive
INSERT INTO acode.archive (id, status, completed_at, record)
VALUES (%(id)s, %(status)s, %(completed_at)s, %(record)s);

-- name: delete_tasks
WITH gone AS (DELETE FROM acode.tasks WHERE id = ANY (%s::text[]) RETURNING seq, id),
history AS (DELETE FROM acode.history USING gone WHERE history.task = gone.seq),
steps AS (DELETE FROM acode.checkpoints USING gone WHERE checkpoints.task_id = gone.id)
DELETE FROM acode.dependencies USING gone
WHERE dependencies.task = gone.seq OR dependencies.needs = gone.seq;

-- name: forget_orphaned_steps
DELETE FROM acode.checkpoints WHERE saved_at < %(before)s AND task_id IN (
    SELECT id FROM acode.tasks WHERE status IN ('completed', 'failed', 'cancelled'));

-- name: wrong_tallies
SELECT status, priority, coalesce(noted, 0), coalesce(counted, 0)
FROM (SELECT status, priority, sum(n)::bigint AS noted FROM acode.tallies GROUP BY 1, 2) AS notes
FULL JOIN (SELECT status, priority, count(*) AS counted FROM acode.tasks GROUP BY 1, 2) AS tasks
USING (status, priority)
WHERE coalesce(noted, 0) <> coalesce(counted, 0);

-- name: failed_without_letter
SELECT id FROM acode.tasks
WHERE status = 'failed' AND id NOT IN (SELECT task_id FROM acode.dead_letter_queue);

-- name: letters_without_failure
SELECT task_id FROM acode.dead_letter_queue
WHERE task_id NOT IN (SELECT id FROM acode.tasks WHERE status = 'failed');

-- name: blocked_without_need
SELECT id FROM acode.tasks WHERE status = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM acode.dependencies JOIN acode.tasks AS needed ON needed.seq = dependencies.needs
    WHERE dependencies.task = tasks.seq AND needed.status <> 'completed');

-- name: orphans
SELECT 'history' FROM acode.history
WHERE NOT EXISTS (SELECT 1 FROM acode.tasks WHERE seq = history.task)
UNION
SELECT 'checkpoints' FROM acode.checkpoints
WHERE NOT EXISTS (SELECT 1 FROM acode.tasks WHERE id = checkpoints.task_id)
UNION
SELECT 'dependencies' FROM acode.dependencies
WHERE NOT EXISTS (SELECT 1 FROM acode.tasks WHERE seq = dependencies.task)
   OR NOT EXISTS (SELECT 1 FROM acode.tasks WHERE seq = dependencies.needs);

-- name: size
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = 'acode'::regnamespace AND relkind = 'r';

-- name: ring
-- Nobody waits until that is on disk: whoever was not rung for looks by himself.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('acode', %(who)s);

-- name: listen
LISTEN acode;

-- name: look
-- What has to be known of a server before anything else. The catalogue is read as a table: functions
-- like to_regclass may remember what was there before somebody else made the schema.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_backend_pid(),
       EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = 'acode' AND tablename = 'schema_version'),
       EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'acode');

-- name: keep_to_indexes
-- To plan a claim takes longer than to make it, so plans are kept; and one that was made while the
-- queue was short has to do when it is long.
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET jit = off;

-- name: schema_version
SELECT version FROM acode.schema_version;

-- name: lock_schema
SELECT pg_advisory_xact_lock(7017280452245743464);

-- name: make_schema
CREATE SCHEMA acode;

-- name: make_version
CREATE TABLE acode.schema_version (version integer NOT NULL);

-- name: first_version
INSERT INTO acode.schema_version (version) VALUES (0);

-- name: set_version
UPDATE acode.schema_version SET version = %(version)s;

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: commit
COMMIT;

-- name: begun
-- The time; the number of the transaction, to find out whether it was committed if the connection
-- breaks just then; and a mark. Moves become visible in another order than they are numbered.
-- Whoever follows them stops at the lowest of these locks: what is numbered behind it may still be
-- on its way. See `settled`.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_current_xact_id()::text,
       pg_advisory_xact_lock_shared(({marks}) + CASE WHEN is_called THEN last_value ELSE 0 END)
FROM acode.history_seq_seq;

-- name: begin_on
BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: begun_to_read
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, NULL;

-- name: page
SELECT {columns} FROM acode.{table} WHERE {behind} ORDER BY {key} LIMIT %(limit)s;

-- name: last_key
SELECT {key} FROM acode.{table} ORDER BY {backwards} LIMIT 1;

-- name: rows_in
SELECT count(*) FROM acode.{table};

-- name: wipe
DELETE FROM acode.{table};

-- name: wipe_flags
DELETE FROM acode.flags WHERE name <> 'moving';

-- name: moving
SELECT actor FROM acode.flags WHERE name = 'moving';

-- name: set_moving
INSERT INTO acode.flags (name, at, actor) VALUES ('moving', %(at)s, %(actor)s);

-- name: unset_moving
DELETE FROM acode.flags WHERE name = 'moving';

-- name: is_held_by
SELECT 1 FROM acode.flags WHERE name = 'paused' AND actor = %(actor)s;

-- name: running_tasks
SELECT count(*) FROM acode.tasks WHERE status = 'running';

-- name: zero_tallies
DELETE FROM acode.tallies;

-- name: levels_of
SELECT priority, count(*) FROM acode.tasks WHERE status = {status} GROUP BY priority;

-- name: hosts_in_time
SELECT count(*) FROM acode.hosts WHERE lost_at IS NULL AND lease_until > {moment};

-- name: freeze
LOCK TABLE acode.tasks, acode.archive, acode.checkpoints, acode.dead_letter_queue, acode.flags
IN EXCLUSIVE MODE;

-- name: load
INSERT INTO acode.{table} ({columns})
SELECT {columns} FROM json_populate_recordset(NULL::acode.{table}, %(rows)s::json);

-- name: renumber
SELECT setval('acode.history_seq_seq', greatest(%(newest)s, 1), %(newest)s > 0),
       setval('acode.tasks_seq_seq', greatest(max(seq), 1), max(seq) IS NOT NULL),
       (SELECT setval('acode.dead_letter_queue_id_seq', greatest(max(id), 1), max(id) IS NOT NULL)
        FROM acode.dead_letter_queue)
FROM acode.tasks;
