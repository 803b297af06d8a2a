-- +goose Up

-- Watchers are told what a person adds to a run under way.
ALTER TABLE events DROP CONSTRAINT events_kind_check;
ALTER TABLE events ADD CONSTRAINT events_kind_check
    CHECK (kind IN ('accepted', 'state', 'thought', 'step', 'confirm_required', 'confirmed', 'instructed', 'done', 'entry', 'session'));

-- +goose Down

DELETE FROM events WHERE kind = 'instructed';
ALTER TABLE events DROP CONSTRAINT events_kind_check;
ALTER TABLE events ADD CONSTRAINT events_kind_check
    CHECK (kind IN ('accepted', 'state', 'thought', 'step', 'confirm_required', 'confirmed', 'done', 'entry', 'session'));
