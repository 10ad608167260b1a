-- The end of an attempt is a move out of running, so the two are one row.

ALTER TABLE history ADD COLUMN number INTEGER;     -- of the attempt that ended so
ALTER TABLE history ADD COLUMN worker_id TEXT;
ALTER TABLE history ADD COLUMN host_id TEXT;
ALTER TABLE history ADD COLUMN started_at INTEGER;
ALTER TABLE history ADD COLUMN ended_at INTEGER;
ALTER TABLE history ADD COLUMN ending TEXT;        -- JSON
ALTER TABLE history ADD COLUMN error TEXT;         -- JSON
ALTER TABLE history ADD COLUMN usage TEXT;         -- JSON

UPDATE history SET number = ended.number, worker_id = ended.worker_id, host_id = ended.host_id,
                   started_at = ended.started_at, ended_at = ended.ended_at,
                   ending = ended.ending, error = ended.error, usage = ended.usage
FROM (SELECT *, row_number() OVER (PARTITION BY task ORDER BY number) AS place FROM attempts)
         AS ended
JOIN (SELECT seq, task, row_number() OVER (PARTITION BY task ORDER BY seq) AS place FROM history
      WHERE was = 'running') AS moves
  ON moves.task = ended.task AND moves.place = ended.place
WHERE history.seq = moves.seq;

DROP TABLE attempts;
