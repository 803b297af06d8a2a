-- name: InsertMessage :execrows
INSERT INTO messages (run_id, branch, step, role, key, author, text)
VALUES (@run_id, @branch, @step, @role, @key, @author, @text)
ON CONFLICT (run_id, key) WHERE NOT rewound DO NOTHING;

-- name: InsertThought :one
INSERT INTO messages (run_id, branch, step, role, key, text, calls, call_ids, model,
    prompt_tokens, completion_tokens, total_tokens, took_ms, attempt, final, gave_up, nudge)
VALUES (@run_id, @branch, @step, 'thought', @key, @text, @calls, @call_ids, @model,
    @prompt_tokens, @completion_tokens, @total_tokens, @took_ms, @attempt, @final, @gave_up, @nudge)
RETURNING *;

-- name: GetMessage :one
SELECT * FROM messages WHERE run_id = @run_id AND key = @key AND NOT rewound;

-- name: LastFinal :one
SELECT text FROM messages
WHERE run_id = @run_id AND NOT rewound AND role = 'thought' AND final
ORDER BY step DESC LIMIT 1;

-- name: ListMessages :many
SELECT * FROM messages WHERE run_id = @run_id AND NOT rewound ORDER BY step, id;

-- RewindMessages marks what other branches said at or after a step, or only
-- after it. The task stays.
-- name: RewindMessages :execrows
UPDATE messages SET rewound = true
WHERE run_id = @run_id AND NOT rewound AND branch <> @branch AND role <> 'task'
  AND (step > @step OR (step = @step AND @whole::boolean));
