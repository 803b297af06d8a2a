-- name: InsertSession :exec
INSERT INTO sessions (key) VALUES (@key) ON CONFLICT DO NOTHING;

-- name: InsertRun :execrows
INSERT INTO runs (id, session, task, browser, origin, asked, aside, status)
VALUES (@id, @session, @task, @browser, @origin, @asked, @aside, 'queued')
ON CONFLICT DO NOTHING;

-- name: GetRun :one
SELECT * FROM runs WHERE id = @id;

-- LockRun begins every write to a run: writers of a run wait for each other.
-- name: LockRun :one
SELECT * FROM runs WHERE id = @id FOR NO KEY UPDATE;

-- name: ListRuns :many
SELECT * FROM runs
WHERE (sqlc.narg('session')::text IS NULL OR session = sqlc.narg('session'))
  AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
  AND (NOT @only_open::boolean OR ended_at IS NULL)
  AND (sqlc.narg('browser')::text IS NULL OR browser = sqlc.narg('browser'))
  AND (sqlc.narg('who')::text IS NULL OR origin ->> 'user' = sqlc.narg('who'))
  AND (sqlc.narg('pattern')::text IS NULL OR task ILIKE sqlc.narg('pattern') OR summary ILIKE sqlc.narg('pattern'))
  AND (sqlc.narg('before')::text IS NULL
       OR (accepted_at, id) < (SELECT b.accepted_at, b.id FROM runs b WHERE b.id = sqlc.narg('before')))
ORDER BY accepted_at DESC, id DESC
LIMIT @max_rows;

-- TakeOver makes an execution the head of its run. A run that had ended is
-- under way again.
-- name: TakeOver :one
UPDATE runs SET
    retired_executions = CASE WHEN head_execution = '' THEN retired_executions
                              ELSE array_append(retired_executions, head_execution) END,
    head_execution = @execution,
    branch = branch + 1,
    settled = head_execution = '',
    status = CASE WHEN ended_at IS NULL THEN status ELSE 'thinking' END,
    detail = CASE WHEN ended_at IS NULL THEN detail ELSE '' END,
    success = false, reason = '', summary = '', duration_ms = 0, ended_at = NULL,
    updated_at = now()
WHERE id = @id
RETURNING *;

-- name: SettleRun :exec
UPDATE runs SET settled = true, updated_at = now() WHERE id = @id;

-- name: BeginRun :one
UPDATE runs SET settings = @settings::json, browser = @browser, marker = @marker,
    started_at = @started_at::timestamptz, status = 'thinking', detail = '', step = 0, updated_at = now()
WHERE id = @id
RETURNING *;

-- name: SetRunStatus :exec
UPDATE runs SET status = @status, detail = @detail, browser = @browser, updated_at = now() WHERE id = @id;

-- name: SetThinking :exec
UPDATE runs SET status = 'thinking', detail = '', step = @step, updated_at = now() WHERE id = @id;

-- SetThinkingAfter does so if a call was the last one of its reply.
-- name: SetThinkingAfter :exec
UPDATE runs SET status = 'thinking', detail = '', updated_at = now()
WHERE runs.id = @id AND NOT EXISTS (
    SELECT 1 FROM messages m
    WHERE m.run_id = @id AND m.key = @key AND NOT m.rewound AND json_array_length(m.calls) > @done::integer);

-- name: AddRunUsage :exec
UPDATE runs SET status = @status, detail = '', step = @step,
    prompt_tokens = @prompt_tokens, completion_tokens = @completion_tokens, total_tokens = @total_tokens,
    models = @models, updated_at = now()
WHERE id = @id;

-- name: FinishRun :one
UPDATE runs SET status = @status, success = @success, reason = @reason, summary = @summary, detail = @detail,
    ended_at = @ended_at::timestamptz,
    duration_ms = @duration_ms,
    updated_at = now()
WHERE id = @id
RETURNING *;
