-- minimum compatible schema: 1
-- +goose Up

CREATE TYPE presence_state AS ENUM ('offline', 'away', 'online');
CREATE TYPE presence_visibility AS ENUM ('everyone', 'nobody');
-- "unspecified" is what an older program writes for a cause it does not know.
CREATE TYPE presence_cause AS ENUM ('unspecified', 'first_beat', 'active_again', 'idle', 'silent', 'bye', 'gateway_lost',
    'devices', 'visibility');

CREATE TABLE user_presence (
    user_id        BIGINT PRIMARY KEY,
    last_seen_at   TIMESTAMPTZ(3),
    last_active_at TIMESTAMPTZ(3),
    since          TIMESTAMPTZ(3) NOT NULL,
    version        BIGINT NOT NULL,
    hidden         BIGINT NOT NULL,
    state          presence_state NOT NULL,
    visibility     presence_visibility NOT NULL,
    device_kinds   SMALLINT NOT NULL
) WITH (fillfactor = 80); -- room for updates in place: every column but the key changes

COMMENT ON TABLE user_presence IS 'The newest known of every user ever seen. Answers for others must respect visibility.';
COMMENT ON COLUMN user_presence.hidden IS 'The version of the change by which the user hid; 0 while visible.';
COMMENT ON COLUMN user_presence.device_kinds IS 'Bits: 2 mobile, 4 desktop, 8 web, 16 bot, 32 other; see presence_device_kinds().';

-- user_id, at and version determine event_id (it is a hash of user and version,
-- with at as its time), so the primary key makes rows unique by event id and is
-- the index of a user's history as well.
CREATE TABLE status_changes (
    user_id        BIGINT NOT NULL,
    at             TIMESTAMPTZ(3) NOT NULL,
    version        BIGINT NOT NULL,
    device_id      BIGINT,
    last_seen_at   TIMESTAMPTZ(3),
    last_active_at TIMESTAMPTZ(3),
    from_state     presence_state NOT NULL,
    to_state       presence_state NOT NULL,
    cause          presence_cause NOT NULL,
    visibility     presence_visibility NOT NULL,
    device_kinds   SMALLINT NOT NULL,
    event_id       TEXT COLLATE "C" NOT NULL,
    policy_id      TEXT NOT NULL,
    PRIMARY KEY (user_id, at, version)
) PARTITION BY RANGE (at);

COMMENT ON TABLE status_changes IS 'The audit log: every published change, partitioned by UTC day.';

-- Catches what has no day of its own yet, so that a write never fails for want of one.
CREATE TABLE status_changes_default PARTITION OF status_changes DEFAULT;

CREATE TABLE sink_offsets (
    partition   INT PRIMARY KEY,
    next_offset BIGINT NOT NULL,
    written_at  TIMESTAMPTZ NOT NULL DEFAULT now()
) WITH (fillfactor = 50); -- one row per partition, updated all the time

COMMENT ON TABLE sink_offsets IS 'The next offset of presence.transitions to be written, moved in the same transaction as the rows.';

-- +goose StatementBegin
CREATE FUNCTION presence_device_kinds(kinds SMALLINT) RETURNS TEXT[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT coalesce(array_agg(word ORDER BY bit), '{}')
FROM (VALUES (1, 'mobile'), (2, 'desktop'), (3, 'web'), (4, 'bot'), (5, 'other')) AS known (bit, word)
WHERE kinds & (1 << bit) <> 0
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION presence_device_kinds(SMALLINT);
DROP TABLE sink_offsets;
DROP TABLE status_changes;
DROP TABLE user_presence;
DROP TYPE presence_cause;
DROP TYPE presence_visibility;
DROP TYPE presence_state;
