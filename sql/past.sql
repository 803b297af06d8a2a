-- PastRuns are a session's runs that have ended, the latest to end first:
-- after a summary, and begun before another run.
-- name: PastRuns :many
SELECT * FROM runs r
WHERE r.session = @session AND r.ended_at IS NOT NULL AND r.reason <> 'STEERED' AND r.accepted_at >= @since
  AND r.ended_at >= @upto::timestamptz AND (r.ended_at > @upto::timestamptz OR r.id COLLATE "C" > @upto_id::text)
  AND r.id <> @before_run::text
  AND (sqlc.narg('before')::timestamptz IS NULL OR coalesce(r.started_at, r.ended_at) < sqlc.narg('before'))
ORDER BY r.ended_at DESC, r.id COLLATE "C" DESC
LIMIT @max_rows;

-- name: PastEntries :many
SELECT * FROM entries e
WHERE e.session = @session AND e.added_at >= @since
  AND e.added_at >= @upto::timestamptz AND (e.added_at > @upto::timestamptz OR e.id COLLATE "C" > @upto_id::text)
  AND (sqlc.narg('before')::timestamptz IS NULL OR e.added_at < sqlc.narg('before'))
ORDER BY e.added_at DESC, e.id COLLATE "C" DESC
LIMIT @max_rows;

-- name: MessagesOfRuns :many
SELECT * FROM messages WHERE run_id = ANY(@run_ids::text[]) AND NOT rewound ORDER BY run_id, step, id;

-- StepsOfRuns leaves the pictures out.
-- name: StepsOfRuns :many
SELECT id, run_id, step, idx, call, outcome, code, observation, mime, page, duration_ms, signature, at
FROM steps WHERE run_id = ANY(@run_ids::text[]) AND NOT rewound ORDER BY run_id, step, idx;

-- name: NewestSummary :one
SELECT * FROM summaries WHERE session = @session AND upto >= @since ORDER BY upto DESC, id DESC LIMIT 1;

-- name: InsertSummary :execrows
INSERT INTO summaries (session, upto, upto_id, text, model, prompt_tokens, completion_tokens, total_tokens)
VALUES (@session, @upto, @upto_id, @text, @model, @prompt_tokens, @completion_tokens, @total_tokens)
ON CONFLICT DO NOTHING;

-- name: InsertContext :exec
INSERT INTO contexts (run_id, body) VALUES (@run_id, @body) ON CONFLICT DO NOTHING;

-- name: GetContext :one
SELECT body FROM contexts WHERE run_id = @run_id;

-- name: InsertEntry :execrows
INSERT INTO entries (session, id, role, label, text, data, author, at)
VALUES (@session, @id, @role, @label, @text, @data, @author, coalesce(sqlc.narg('at')::timestamptz, clock_timestamp()))
ON CONFLICT DO NOTHING;

-- name: GetEntry :one
SELECT * FROM entries WHERE session = @session AND id = @id;
