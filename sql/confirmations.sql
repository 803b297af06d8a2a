-- name: InsertConfirmation :exec
INSERT INTO confirmations (confirm_id, run_id, branch, step, question, digest, asked_at, expires_at)
VALUES (@confirm_id, @run_id, @branch, @step, @question, @digest, @asked_at, @expires_at);

-- name: GetConfirmation :one
SELECT * FROM confirmations WHERE confirm_id = @confirm_id AND NOT rewound;

-- name: OpenConfirmation :one
SELECT * FROM confirmations
WHERE run_id = @run_id AND outcome = 'open' AND NOT rewound
ORDER BY id DESC LIMIT 1;

-- name: DecideConfirmation :exec
UPDATE confirmations SET outcome = @outcome, decided_branch = @decided_branch::integer, decided_at = @decided_at::timestamptz,
    decided_by = @decided_by, note = @note
WHERE id = @id;

-- RewindConfirmation sets one question aside for the audit. If it was open
-- it is void.
-- name: RewindConfirmation :exec
UPDATE confirmations SET rewound = true,
    outcome = CASE WHEN outcome = 'open' THEN 'void' ELSE outcome END,
    decided_branch = CASE WHEN outcome = 'open' THEN @branch::integer ELSE decided_branch END,
    decided_at = coalesce(decided_at, now())
WHERE id = @id;

-- name: ListConfirmations :many
SELECT * FROM confirmations
WHERE (sqlc.narg('run_id')::text IS NULL OR run_id = sqlc.narg('run_id'))
  AND (NOT @only_open::boolean OR (outcome = 'open' AND NOT rewound))
  AND (@with_rewound::boolean OR NOT rewound)
ORDER BY id
LIMIT @max_rows;

-- DecidedConfirmations lists what is no longer open, the latest first.
-- name: DecidedConfirmations :many
SELECT * FROM confirmations
WHERE outcome <> 'open' AND NOT rewound
  AND (sqlc.narg('before')::text IS NULL OR (decided_at, id) < (
    SELECT b.decided_at, b.id FROM confirmations b WHERE b.confirm_id = sqlc.narg('before') AND NOT b.rewound ORDER BY b.id DESC LIMIT 1))
ORDER BY decided_at DESC, id DESC
LIMIT @max_rows;

-- RewindConfirmations marks questions of other branches. One that was open
-- is void.
-- name: RewindConfirmations :execrows
UPDATE confirmations SET rewound = true,
    outcome = CASE WHEN outcome = 'open' THEN 'void' ELSE outcome END,
    decided_branch = CASE WHEN outcome = 'open' THEN @branch::integer ELSE decided_branch END,
    decided_at = coalesce(decided_at, now())
WHERE run_id = @run_id AND NOT rewound AND branch <> @branch::integer
  AND (step > @step OR (step = @step AND @whole::boolean));

-- VoidConfirmations closes what is still open when a run ends.
-- name: VoidConfirmations :exec
UPDATE confirmations SET outcome = 'void', decided_branch = @branch::integer, decided_at = now()
WHERE run_id = @run_id AND NOT rewound AND outcome = 'open';
