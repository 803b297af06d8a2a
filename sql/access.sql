-- name: InsertToken :exec
INSERT INTO tokens (id, name, role, hash, created_by, created_at, expires_at)
VALUES (@id, @name, @role, @hash, @created_by, @created_at, @expires_at);

-- name: ListTokens :many
SELECT * FROM tokens ORDER BY created_at, id;

-- name: TokenByHash :one
SELECT * FROM tokens WHERE hash = @hash;

-- RevokeToken leaves the first revocation as it is.
-- name: RevokeToken :execrows
UPDATE tokens SET revoked_at = coalesce(revoked_at, now()),
    revoked_by = CASE WHEN revoked_at IS NULL THEN @revoked_by ELSE revoked_by END
WHERE id = @id;

-- TouchToken writes at most once a minute.
-- name: TouchToken :exec
UPDATE tokens SET used_at = now() WHERE id = @id AND (used_at IS NULL OR used_at < now() - interval '1 minute');

-- name: InsertAudit :exec
INSERT INTO audit (who, role, via, verb, session, run_id, detail)
VALUES (@who, @role, @via, @verb, @session, @run_id, @detail);

-- name: ListAudit :many
SELECT * FROM audit
WHERE (sqlc.narg('run_id')::text IS NULL OR run_id = sqlc.narg('run_id'))
  AND (sqlc.narg('session')::text IS NULL OR session = sqlc.narg('session'))
  AND (sqlc.narg('who')::text IS NULL OR who = sqlc.narg('who'))
  AND (sqlc.narg('before')::bigint IS NULL OR id < sqlc.narg('before'))
ORDER BY id DESC
LIMIT @max_rows;

-- Beat renews the rows of a gateway.
-- name: Beat :exec
INSERT INTO presence (instance, conn, body)
SELECT @instance, c.conn, c.body
FROM json_to_recordset(@conns::json) AS c (conn text, body json)
ON CONFLICT (instance, conn) DO UPDATE SET body = excluded.body, seen_at = now();

-- name: Gone :exec
DELETE FROM presence WHERE instance = @instance AND conn <> ALL(@conns::text[]);

-- ForgetPresence drops the rows of gateways that died. Several may do so at
-- once.
-- name: ForgetPresence :exec
DELETE FROM presence WHERE ctid IN (
    SELECT p.ctid FROM presence p WHERE p.seen_at < now() - interval '1 hour' FOR UPDATE SKIP LOCKED);

-- name: ListPresence :many
SELECT * FROM presence WHERE seen_at >= now() - make_interval(secs => @fresh::float8) ORDER BY since, instance, conn;
