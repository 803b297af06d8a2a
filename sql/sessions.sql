-- name: GetSession :one
SELECT * FROM sessions WHERE key = @key;

-- name: LockSession :one
SELECT * FROM sessions WHERE key = @key AND deleted_at IS NULL FOR NO KEY UPDATE;

-- EnsureSession makes a session, or brings a deleted one back. An agent that
-- it has already stays.
-- name: EnsureSession :exec
INSERT INTO sessions (key, agent) VALUES (@key, @agent)
ON CONFLICT (key) DO UPDATE SET
    agent = CASE WHEN sessions.agent = '' THEN excluded.agent ELSE sessions.agent END,
    updated_at = CASE WHEN sessions.deleted_at IS NULL THEN sessions.updated_at ELSE clock_timestamp() END,
    deleted_at = NULL
WHERE sessions.deleted_at IS NOT NULL OR (sessions.agent = '' AND excluded.agent <> '');

-- name: SetSessionAgent :execrows
UPDATE sessions SET agent = @agent WHERE key = @key;

-- name: SetSessionSettings :exec
UPDATE sessions SET settings = @settings WHERE key = @key;

-- name: ResetSession :exec
UPDATE sessions SET since = clock_timestamp() WHERE key = @key;

-- name: DeleteSession :exec
UPDATE sessions SET since = clock_timestamp(), settings = '{}', agent = '', deleted_at = now() WHERE key = @key;

-- name: ListSessions :many
SELECT * FROM sessions s
WHERE (@deleted::boolean OR s.deleted_at IS NULL)
  AND (sqlc.narg('agent')::text IS NULL OR s.agent = sqlc.narg('agent'))
  AND (sqlc.narg('active_since')::timestamptz IS NULL OR s.updated_at >= sqlc.narg('active_since'))
  AND (sqlc.narg('pattern')::text IS NULL OR s.key ILIKE sqlc.narg('pattern') OR s.settings ->> 'label' ILIKE sqlc.narg('pattern'))
  AND (sqlc.narg('before')::text IS NULL
       OR (s.updated_at, s.key) < (SELECT b.updated_at, b.key FROM sessions b WHERE b.key = sqlc.narg('before')))
ORDER BY s.updated_at DESC, s.key DESC
LIMIT @max_rows OFFSET @skip_rows;

-- name: CountSessions :one
SELECT count(*) FROM sessions s
WHERE (@deleted::boolean OR s.deleted_at IS NULL)
  AND (sqlc.narg('agent')::text IS NULL OR s.agent = sqlc.narg('agent'))
  AND (sqlc.narg('active_since')::timestamptz IS NULL OR s.updated_at >= sqlc.narg('active_since'))
  AND (sqlc.narg('pattern')::text IS NULL OR s.key ILIKE sqlc.narg('pattern') OR s.settings ->> 'label' ILIKE sqlc.narg('pattern'));

-- SessionFigures tells of sessions what their runs add up to.
-- name: SessionFigures :many
SELECT s.key, f.runs, f.prompt_tokens, f.completion_tokens, f.total_tokens,
    (SELECT count(*) FROM runs o WHERE o.session = s.key AND o.ended_at IS NULL) AS open_runs,
    coalesce((SELECT o.id FROM runs o WHERE o.session = s.key AND o.ended_at IS NULL
              ORDER BY o.status = 'queued', o.accepted_at, o.id LIMIT 1), '')::text AS active,
    coalesce((SELECT left(n.task, @width::integer) FROM runs n WHERE n.session = s.key AND n.accepted_at >= s.since AND n.reason <> 'STEERED'
              ORDER BY n.accepted_at DESC, n.id DESC LIMIT 1), '')::text AS last_task,
    coalesce((SELECT left(n.summary, @width::integer) FROM runs n WHERE n.session = s.key AND n.accepted_at >= s.since AND n.reason <> 'STEERED'
              ORDER BY n.accepted_at DESC, n.id DESC LIMIT 1), '')::text AS last_text
FROM sessions s
CROSS JOIN LATERAL (
    SELECT count(*) AS runs,
        coalesce(sum(r.prompt_tokens), 0)::bigint AS prompt_tokens,
        coalesce(sum(r.completion_tokens), 0)::bigint AS completion_tokens,
        coalesce(sum(r.total_tokens), 0)::bigint AS total_tokens
    FROM runs r WHERE r.session = s.key AND r.accepted_at >= s.since AND r.reason <> 'STEERED'
) f
WHERE s.key = ANY(@keys::text[]);
