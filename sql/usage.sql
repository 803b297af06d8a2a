-- Usage adds up the runs that ended in a time, by day. A run that used
-- several models is counted with the one that it used most; tokens go with
-- their models. Summaries of sessions cost tokens too.
-- name: Usage :many
WITH ended AS (
    SELECT r.id, to_char(r.ended_at AT TIME ZONE @tz::text, 'YYYY-MM-DD') AS day,
        coalesce(r.settings ->> 'agent', '') AS agent, r.browser, r.status, r.success, r.duration_ms, r.step, r.models
    FROM runs r
    WHERE r.ended_at >= @since::timestamptz AND r.ended_at < @until::timestamptz AND r.reason <> 'STEERED'
), used AS (
    SELECT e.id, e.day, e.agent, e.browser, e.status, e.success, e.duration_ms, e.step,
        coalesce(m.key, '') AS model,
        coalesce((m.value ->> 'prompt_tokens')::bigint, 0) AS prompt_tokens,
        coalesce((m.value ->> 'completion_tokens')::bigint, 0) AS completion_tokens,
        coalesce((m.value ->> 'total_tokens')::bigint, 0) AS total_tokens,
        row_number() OVER (PARTITION BY e.id ORDER BY (m.value ->> 'total_tokens')::bigint DESC NULLS LAST, m.key) = 1 AS counts
    FROM ended e LEFT JOIN LATERAL jsonb_each(e.models) AS m (key, value) ON true
    UNION ALL
    SELECT '', to_char(s.at AT TIME ZONE @tz::text, 'YYYY-MM-DD'), x.agent, '', '', false, 0, 0,
        s.model, s.prompt_tokens, s.completion_tokens, s.total_tokens, false
    FROM summaries s JOIN sessions x ON x.key = s.session
    WHERE s.at >= @since::timestamptz AND s.at < @until::timestamptz
)
SELECT u.day::text AS day, u.agent::text AS agent, u.model::text AS model, u.browser::text AS browser,
    count(*) FILTER (WHERE u.counts) AS runs,
    count(*) FILTER (WHERE u.counts AND u.success) AS succeeded,
    count(*) FILTER (WHERE u.counts AND u.status IN ('failed', 'refused')) AS failed,
    count(*) FILTER (WHERE u.counts AND u.status = 'aborted') AS aborted,
    coalesce(sum(u.prompt_tokens), 0)::bigint AS prompt_tokens,
    coalesce(sum(u.completion_tokens), 0)::bigint AS completion_tokens,
    coalesce(sum(u.total_tokens), 0)::bigint AS total_tokens,
    coalesce(sum(u.duration_ms) FILTER (WHERE u.counts), 0)::bigint AS duration_ms,
    coalesce(sum(u.step) FILTER (WHERE u.counts), 0)::bigint AS steps
FROM used u
GROUP BY u.day, u.agent, u.model, u.browser
ORDER BY u.day, u.agent, u.model, u.browser;
