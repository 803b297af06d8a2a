-- +goose Up

-- Sessions number their events: last_seq is the newest event's number. It is
-- raised in the transaction that inserts the event, so the numbers have no
-- gaps and become visible in order.
CREATE TABLE sessions (
    key        text PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 512),
    last_seq   bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 60);

-- A run is a task and where it stands. Its executor is fenced: the execution
-- named by head_execution may write, those in retired_executions may not, and
-- one that is in neither takes over. branch counts the takeovers.
CREATE TABLE runs (
    id                 text PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 512),
    session            text NOT NULL REFERENCES sessions (key),
    task               text NOT NULL,
    browser            text NOT NULL,
    origin             json NOT NULL,
    asked              json NOT NULL, -- settings as the message had them
    settings           json,          -- settings in effect, once begun
    marker             text NOT NULL DEFAULT '',
    status             text NOT NULL CHECK (status IN ('queued', 'thinking', 'acting', 'waiting_confirm',
                           'browser_offline', 'cooling', 'done', 'failed', 'refused', 'aborted')),
    detail             text NOT NULL DEFAULT '',
    step               integer NOT NULL DEFAULT 0,
    head_execution     text NOT NULL DEFAULT '',
    retired_executions text[] NOT NULL DEFAULT '{}',
    branch             integer NOT NULL DEFAULT 0,
    settled            boolean NOT NULL DEFAULT true, -- nothing of other branches is left at or after the head's position
    success            boolean NOT NULL DEFAULT false,
    reason             text NOT NULL DEFAULT '',
    summary            text NOT NULL DEFAULT '',
    duration_ms        bigint NOT NULL DEFAULT 0,
    prompt_tokens      bigint NOT NULL DEFAULT 0,
    completion_tokens  bigint NOT NULL DEFAULT 0,
    total_tokens       bigint NOT NULL DEFAULT 0,
    models             jsonb NOT NULL DEFAULT '{}', -- usage per model
    accepted_at        timestamptz NOT NULL DEFAULT now(),
    started_at         timestamptz,
    ended_at           timestamptz,
    updated_at         timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 60);
CREATE INDEX runs_accepted ON runs (accepted_at DESC, id DESC);
CREATE INDEX runs_session ON runs (session, accepted_at DESC, id DESC);
CREATE INDEX runs_browser ON runs (browser, accepted_at DESC, id DESC);
-- No index holds what changes at every step, so that those updates stay
-- within the row's page.
CREATE INDEX runs_open ON runs (accepted_at DESC, id DESC) WHERE ended_at IS NULL;

-- Messages of a conversation: the task, the model's replies ("thought"), and
-- what people added. Rows of a branch that was rewound stay, marked.
CREATE TABLE messages (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id            text NOT NULL REFERENCES runs (id),
    branch            integer NOT NULL,
    step              integer NOT NULL CHECK (step >= 0),
    role              text NOT NULL CHECK (role IN ('task', 'instruction', 'thought')),
    key               text NOT NULL,
    author            text NOT NULL DEFAULT '',
    text              text NOT NULL,
    calls             json, -- of a thought
    call_ids          text[] NOT NULL DEFAULT '{}',
    model             text NOT NULL DEFAULT '',
    prompt_tokens     bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0,
    total_tokens      bigint NOT NULL DEFAULT 0,
    took_ms           bigint NOT NULL DEFAULT 0,
    attempt           integer NOT NULL DEFAULT 0,
    final             boolean NOT NULL DEFAULT false,
    gave_up           boolean NOT NULL DEFAULT false,
    nudge             text NOT NULL DEFAULT '', -- told the model after a thought of no use
    rewound           boolean NOT NULL DEFAULT false,
    at                timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX messages_key ON messages (run_id, key) WHERE NOT rewound;
CREATE INDEX messages_order ON messages (run_id, step, id) WHERE NOT rewound;

-- Steps: one row for each call of a reply and what came of it.
CREATE TABLE steps (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      text NOT NULL REFERENCES runs (id),
    branch      integer NOT NULL,
    step        integer NOT NULL CHECK (step >= 1),
    idx         integer NOT NULL CHECK (idx >= 0),
    action      text NOT NULL,
    call        json NOT NULL,
    outcome     text NOT NULL CHECK (outcome IN ('done', 'failed', 'unknown', 'confirm', 'limited', 'refused', 'skipped')),
    code        text NOT NULL DEFAULT '',
    observation text NOT NULL,
    image       bytea,
    mime        text NOT NULL DEFAULT '',
    page        json,
    browser     text NOT NULL DEFAULT '',
    duration_ms bigint NOT NULL DEFAULT 0,
    signature   text NOT NULL DEFAULT '',
    verdict     json,
    rewound     boolean NOT NULL DEFAULT false,
    at          timestamptz NOT NULL DEFAULT now()
);
-- Pictures are compressed already.
ALTER TABLE steps ALTER COLUMN image SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX steps_key ON steps (run_id, step, idx) WHERE NOT rewound;

-- Confirmations: what people were asked and said. The audit; nothing is ever
-- deleted from it.
CREATE TABLE confirmations (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    confirm_id text NOT NULL,
    run_id     text NOT NULL REFERENCES runs (id),
    branch     integer NOT NULL,
    step       integer NOT NULL,
    question   json NOT NULL, -- the whole question, subject included
    digest     text NOT NULL,
    asked_at   timestamptz NOT NULL,
    expires_at timestamptz,
    outcome    text NOT NULL DEFAULT 'open' CHECK (outcome IN ('open', 'approved', 'rejected', 'expired', 'void')),
    decided_branch integer,
    decided_at timestamptz,
    decided_by text NOT NULL DEFAULT '',
    note       text NOT NULL DEFAULT '',
    rewound    boolean NOT NULL DEFAULT false,
    CHECK ((outcome = 'open') = (decided_at IS NULL))
);
CREATE UNIQUE INDEX confirmations_key ON confirmations (confirm_id) WHERE NOT rewound;
CREATE INDEX confirmations_run ON confirmations (run_id, id);
CREATE INDEX confirmations_open ON confirmations (asked_at) WHERE outcome = 'open' AND NOT rewound;

-- Circuit breakers, one for each browser. state is package critic's.
CREATE TABLE breakers (
    browser    text PRIMARY KEY,
    state      json NOT NULL DEFAULT '{}',
    reset_by   text NOT NULL DEFAULT '',
    reset_at   timestamptz,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Events: what watchers of a session see.
CREATE TABLE events (
    session text NOT NULL REFERENCES sessions (key),
    seq     bigint NOT NULL,
    run_id  text NOT NULL,
    key     text NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('accepted', 'state', 'thought', 'step', 'confirm_required', 'confirmed', 'done')),
    data    json,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (session, seq)
);
CREATE UNIQUE INDEX events_key ON events (session, key);
CREATE INDEX events_run ON events (run_id, seq);

-- +goose StatementBegin
CREATE FUNCTION announce_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('sgclaw_events', NEW.session || ':' || NEW.seq);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER events_announce AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION announce_event();

-- +goose Down
DROP TABLE events, breakers, confirmations, steps, messages, runs, sessions;
DROP FUNCTION announce_event();
