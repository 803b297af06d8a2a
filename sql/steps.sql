-- name: InsertStep :exec
INSERT INTO steps (run_id, branch, step, idx, action, call, outcome, code, observation, image, mime, page,
    browser, duration_ms, signature, verdict)
VALUES (@run_id, @branch, @step, @idx, @action, @call, @outcome, @code, @observation, @image, @mime, @page,
    @browser, @duration_ms, @signature, @verdict);

-- name: GetVerdict :one
SELECT verdict FROM steps WHERE run_id = @run_id AND step = @step AND idx = @idx AND NOT rewound;

-- name: RecentSignatures :many
SELECT signature FROM steps
WHERE run_id = @run_id AND NOT rewound
ORDER BY step DESC, idx DESC LIMIT @max_rows;

-- ListSteps leaves the pictures out.
-- name: ListSteps :many
SELECT id, step, idx, call, outcome, code, observation, mime, page, duration_ms, signature, at
FROM steps WHERE run_id = @run_id AND NOT rewound ORDER BY step, idx;

-- name: ListImages :many
SELECT id, image FROM steps
WHERE run_id = @run_id AND NOT rewound AND image IS NOT NULL
ORDER BY step DESC, idx DESC LIMIT @max_rows;

-- RewindSteps marks what other branches did from a call of a step on.
-- name: RewindSteps :execrows
UPDATE steps SET rewound = true
WHERE run_id = @run_id AND NOT rewound AND branch <> @branch
  AND (step > @step OR (step = @step AND idx >= @idx));
