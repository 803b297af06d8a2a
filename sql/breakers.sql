-- name: EnsureBreaker :exec
INSERT INTO breakers (browser) VALUES (@browser) ON CONFLICT DO NOTHING;

-- name: LockBreaker :one
SELECT state FROM breakers WHERE browser = @browser FOR UPDATE;

-- name: GetBreaker :one
SELECT * FROM breakers WHERE browser = @browser;

-- name: ListBreakers :many
SELECT * FROM breakers ORDER BY browser;

-- name: SetBreaker :exec
UPDATE breakers SET state = @state, updated_at = now() WHERE browser = @browser;

-- name: ResetBreaker :execrows
UPDATE breakers SET state = '{}', reset_by = @reset_by, reset_at = now(), updated_at = now() WHERE browser = @browser;
