-- +goose Up

-- What people set for a session, and where its history begins: what was said
-- before since is not shown to the model any more (a reset). A deleted
-- session is left out of lists until somebody speaks in it again.
ALTER TABLE sessions
    ADD COLUMN agent      text NOT NULL DEFAULT '',
    ADD COLUMN settings   json NOT NULL DEFAULT '{}', -- record.SessionSettings
    ADD COLUMN since      timestamptz NOT NULL DEFAULT '0001-01-01 00:00:00+00',
    ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now(), -- not with each event, see AppendEvent
    ADD COLUMN deleted_at timestamptz;
UPDATE sessions s SET updated_at = coalesce((SELECT max(coalesce(r.ended_at, r.accepted_at)) FROM runs r WHERE r.session = s.key), s.created_at);
CREATE INDEX sessions_updated ON sessions (updated_at DESC, key DESC);

-- What others said before a message in the same chat: agent.Aside, untrusted.
ALTER TABLE runs ADD COLUMN aside json NOT NULL DEFAULT '[]';

-- Summaries carry on what a session's history is too long to show. Each
-- covers all runs and entries up to a place in it, and the summaries before
-- it. A run that is rewound and ends anew takes a later place.
CREATE TABLE summaries (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session           text NOT NULL REFERENCES sessions (key),
    upto              timestamptz NOT NULL, -- ended_at or added_at of the last thing covered
    upto_id           text NOT NULL,        -- its run or entry id
    text              text NOT NULL,
    model             text NOT NULL DEFAULT '',
    prompt_tokens     bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0,
    total_tokens      bigint NOT NULL DEFAULT 0,
    at                timestamptz NOT NULL DEFAULT now(),
    UNIQUE (session, upto, upto_id)
);
CREATE INDEX summaries_at ON summaries (at);

-- The context of a run: what it is shown of its session's past, fixed when
-- it begins, so that every step of it begins with the same words.
CREATE TABLE contexts (
    run_id text PRIMARY KEY REFERENCES runs (id),
    body   json NOT NULL, -- record.Context
    at     timestamptz NOT NULL DEFAULT now()
);

-- Entries of a session's history that no run made: injected or imported. An
-- imported one says by at when it was made; its place in the history is where
-- it was added.
CREATE TABLE entries (
    session  text NOT NULL REFERENCES sessions (key),
    id       text NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 512),
    role     text NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'note')),
    label    text NOT NULL DEFAULT '',
    text     text NOT NULL,
    data     json, -- calls of an assistant's, the call of a tool's: record.Entry
    author   text NOT NULL DEFAULT '',
    at       timestamptz NOT NULL,
    added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (session, id)
);
CREATE INDEX entries_order ON entries (session, added_at, id);

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
CREATE INDEX runs_past ON runs (session, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_waiting ON runs (session, accepted_at) WHERE ended_at IS NULL;

-- +goose Down
DROP INDEX runs_ended, runs_past, runs_waiting;
DELETE FROM events WHERE kind IN ('entry', 'session');
ALTER TABLE events DROP CONSTRAINT events_kind_check;
ALTER TABLE events ADD CONSTRAINT events_kind_check
    CHECK (kind IN ('accepted', 'state', 'thought', 'step', 'confirm_required', 'confirmed', 'done'));
ALTER TABLE runs DROP COLUMN aside;
DROP TABLE presence, audit, tokens, entries, contexts, summaries;
ALTER TABLE sessions DROP COLUMN agent, DROP COLUMN settings, DROP COLUMN since, DROP COLUMN updated_at, DROP COLUMN deleted_at;
