-- +goose Up

-- What people set for a session, and where its history begins: what was said
-- before since is not shown to the model any more (a reset). A deleted
-- session is left out of lists until somebody speaks in it again.
ALTER TABLE sessions
    ADD COLUMN agent      text NOT NULL DEFAULT '',
    ADD COLUMN settings   json NOT NULL DEFAULT '{}', -- record.SessionSettings
    ADD COLUMN since      timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN deleted_at timestamptz;
CREATE INDEX sessions_updated ON sessions (updated_at DESC, key DESC);

-- Summaries carry on what a session's history is too long to show. Each
-- covers all runs and entries up to a moment, and the summaries before it.
CREATE TABLE summaries (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session           text NOT NULL REFERENCES sessions (key),
    upto              timestamptz NOT NULL, -- accepted_at or at of the last thing covered
    upto_id           text NOT NULL,        -- its run or entry id
    text              text NOT NULL,
    model             text NOT NULL DEFAULT '',
    prompt_tokens     bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0,
    at                timestamptz NOT NULL DEFAULT now(),
    UNIQUE (session, upto_id)
);

-- The context of a run: what it is shown of its session's past, fixed when
-- it begins, so that every step of it begins with the same words.
CREATE TABLE contexts (
    run_id text PRIMARY KEY REFERENCES runs (id),
    body   json NOT NULL, -- record.Context
    at     timestamptz NOT NULL DEFAULT now()
);

-- Entries of a session's history that no run made: injected or imported.
CREATE TABLE entries (
    session text NOT NULL REFERENCES sessions (key),
    id      text NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 512),
    role    text NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'note')),
    label   text NOT NULL DEFAULT '',
    text    text NOT NULL,
    data    json, -- calls of an assistant's, the call of a tool's: record.Entry
    author  text NOT NULL DEFAULT '',
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (session, id)
);
CREATE INDEX entries_order ON entries (session, at, id);

-- Tokens of the gateway. The secret itself is not here.
CREATE TABLE tokens (
    id         text PRIMARY KEY,
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('viewer', 'user', 'approver', 'operator')),
    hash       bytea NOT NULL UNIQUE, -- SHA-256 of the secret, which is 32 random bytes
    created_by text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text NOT NULL DEFAULT '',
    used_at    timestamptz
);

-- Who did what: confirmations, aborts, rewinds, moves, changes of sessions
-- and tokens. Nothing is ever deleted from it.
CREATE TABLE audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    who     text NOT NULL,
    role    text NOT NULL DEFAULT '',
    via     text NOT NULL, -- "gateway" or "starter"
    verb    text NOT NULL,
    session text NOT NULL DEFAULT '',
    run_id  text NOT NULL DEFAULT '',
    detail  json NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_run ON audit (run_id, id) WHERE run_id <> '';

-- Who is connected to which gateway. Rows not renewed are of gateways that
-- died.
CREATE TABLE presence (
    instance  text NOT NULL, -- id of the gateway process
    conn      text NOT NULL, -- empty: the gateway itself
    body      json NOT NULL,
    since     timestamptz NOT NULL DEFAULT now(),
    seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (instance, conn)
);

ALTER TABLE events DROP CONSTRAINT events_kind_check;
ALTER TABLE events ADD CONSTRAINT events_kind_check
    CHECK (kind IN ('accepted', 'state', 'thought', 'step', 'confirm_required', 'confirmed', 'done', 'entry', 'session'));

CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- +goose Down
DROP INDEX runs_ended;
DELETE FROM events WHERE kind IN ('entry', 'session');
ALTER TABLE events DROP CONSTRAINT events_kind_check;
ALTER TABLE events ADD CONSTRAINT events_kind_check
    CHECK (kind IN ('accepted', 'state', 'thought', 'step', 'confirm_required', 'confirmed', 'done'));
DROP TABLE presence, audit, tokens, entries, contexts, summaries;
ALTER TABLE sessions DROP COLUMN agent, DROP COLUMN settings, DROP COLUMN since, DROP COLUMN updated_at, DROP COLUMN deleted_at;
