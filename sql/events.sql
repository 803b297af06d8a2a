-- AppendEvent gives an event the session's next number, or does nothing if
-- the session has an event with that key. Writers of one key hold its run's
-- lock (or have just inserted the run), so they do not race. The session's
-- own time moves only with what a list of sessions shows, because it is
-- indexed, and an update of an indexed column costs more. Who speaks in a
-- deleted session brings it back.
-- name: AppendEvent :execrows
WITH next AS (
    UPDATE sessions SET last_seq = last_seq + 1,
        updated_at = CASE WHEN @kind::text IN ('accepted', 'done', 'entry', 'session') THEN clock_timestamp() ELSE updated_at END,
        deleted_at = CASE WHEN @kind::text IN ('accepted', 'entry') THEN NULL ELSE deleted_at END
    WHERE sessions.key = @session
      AND NOT EXISTS (SELECT 1 FROM events e WHERE e.session = @session AND e.key = @key)
    RETURNING last_seq
)
INSERT INTO events (session, seq, run_id, key, kind, data)
SELECT @session, next.last_seq, @run_id, @key, @kind::text, @data FROM next;

-- name: ListEvents :many
SELECT * FROM events WHERE session = @session AND seq > @after ORDER BY seq LIMIT @max_rows;

-- name: ListRunEvents :many
SELECT * FROM events WHERE run_id = @run_id AND seq > @after ORDER BY seq LIMIT @max_rows;

-- name: LastSeq :one
SELECT last_seq FROM sessions WHERE key = @key;

-- NotifyRun announces something about a run: its session, a newline, and the
-- payload.
-- name: NotifyRun :exec
SELECT pg_notify(@channel::text, session || E'\n' || @payload::text) FROM runs WHERE id = @run_id;

-- name: HasEvent :one
SELECT EXISTS (SELECT 1 FROM events WHERE session = @session AND key = @key);
