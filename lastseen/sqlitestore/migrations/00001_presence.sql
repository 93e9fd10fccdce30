-- minimum compatible schema: 1
-- +goose Up

-- Times are Unix milliseconds UTC, NULL for never; words are those of the API.
CREATE TABLE user_presence (
    user_id        INTEGER PRIMARY KEY,
    state          TEXT NOT NULL,
    since          INTEGER NOT NULL,
    last_seen_at   INTEGER,
    last_active_at INTEGER,
    device_kinds   INTEGER NOT NULL, -- bits: 2 mobile, 4 desktop, 8 web, 16 bot, 32 other
    visibility     TEXT NOT NULL,
    version        INTEGER NOT NULL,
    hidden         INTEGER NOT NULL  -- version of the change by which the user hid, 0 while visible
) STRICT;

-- user_id, at and version determine event_id (it is a hash of user and version,
-- with at as its time), so the primary key makes rows unique by event id and is
-- the index of a user's history as well.
CREATE TABLE status_changes (
    user_id        INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    event_id       TEXT NOT NULL,
    from_state     TEXT NOT NULL,
    to_state       TEXT NOT NULL,
    cause          TEXT NOT NULL,
    visibility     TEXT NOT NULL,
    device_id      INTEGER,
    device_kinds   INTEGER NOT NULL,
    last_seen_at   INTEGER,
    last_active_at INTEGER,
    policy_id      TEXT NOT NULL,
    PRIMARY KEY (user_id, at, version)
) STRICT, WITHOUT ROWID;

-- For dropping by age.
CREATE INDEX status_changes_by_time ON status_changes (at);

CREATE TABLE sink_offsets (
    partition   INTEGER PRIMARY KEY,
    next_offset INTEGER NOT NULL
) STRICT;

-- +goose Down

DROP TABLE sink_offsets;
DROP TABLE status_changes;
DROP TABLE user_presence;
