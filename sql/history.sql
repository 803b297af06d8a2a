-- HistoryGroups are what a session's history is made of, in order: its runs,
-- with how many items each has, and entries. Runs come in the order in which
-- they began, those that wait last. A run that has not begun has no messages
-- yet, but it was asked for; one that was stopped has its end as an item.
-- name: HistoryGroups :many
SELECT g.run_id, g.entry_id, g.items FROM (
    SELECT r.id AS run_id, ''::text AS entry_id,
        coalesce(r.started_at, r.ended_at) AS began, r.accepted_at AS added_at,
        (greatest(1, (SELECT count(*) FROM messages m WHERE m.run_id = r.id AND NOT m.rewound))
         + (SELECT count(*) FROM steps s WHERE s.run_id = r.id AND NOT s.rewound)
         + (r.ended_at IS NOT NULL AND NOT r.success AND r.reason <> 'GAVE_UP')::integer)::bigint AS items
    FROM runs r
    WHERE r.session = @session AND r.accepted_at >= @since::timestamptz AND r.reason <> 'STEERED'
      AND (sqlc.narg('run_id')::text IS NULL OR r.id = sqlc.narg('run_id'))
    UNION ALL
    SELECT ''::text, e.id, e.added_at, e.added_at, 1::bigint
    FROM entries e
    WHERE e.session = @session AND e.added_at >= @since::timestamptz AND sqlc.narg('run_id')::text IS NULL
) g
ORDER BY g.began NULLS LAST, g.added_at, g.run_id, g.entry_id;

-- name: GetRuns :many
SELECT * FROM runs WHERE id = ANY(@ids::text[]);

-- name: GetEntries :many
SELECT * FROM entries WHERE session = @session AND id = ANY(@ids::text[]);

-- name: StepImage :one
SELECT image, mime FROM steps WHERE run_id = @run_id AND step = @step AND idx = @idx AND NOT rewound AND image IS NOT NULL;
