-- minimum compatible schema: 1
-- +goose Up

CREATE TYPE presence_state AS ENUM ('offline', 'away', 'online');
CREATE TYPE presence_visibility AS ENUM ('everyone', 'nobody');
-- "unspecified" is what a program writes for a cause of a newer one.
CREATE TYPE presence_cause AS ENUM ('unspecified', 'first_beat', 'active_again', 'idle', 'silent', 'bye', 'gateway_lost',
    'devices', 'visibility', 'gateway_drained', 'device_evicted', 'erased', 'override_set', 'override_over',
    'last_seen', 'audience');

CREATE TABLE user_presence (
    user_id        BIGINT PRIMARY KEY,
    last_seen_at   TIMESTAMPTZ(3),
    last_active_at TIMESTAMPTZ(3),
    since          TIMESTAMPTZ(3) NOT NULL,
    version        BIGINT NOT NULL,
    hidden         BIGINT NOT NULL,
    state          presence_state NOT NULL,
    visibility     presence_visibility NOT NULL,
    device_kinds   SMALLINT NOT NULL,
    override       TEXT
) WITH (fillfactor = 80); -- room for updates in place: every column but the key changes

COMMENT ON TABLE user_presence IS 'The newest known of every user ever seen. Answers for others must respect visibility.';
COMMENT ON COLUMN user_presence.hidden IS 'The version of the change by which the user hid; 0 while visible.';
COMMENT ON COLUMN user_presence.device_kinds IS 'Bits: 2 mobile, 4 desktop, 8 web, 16 bot, 32 other, and 256 times that of those in use; see presence_device_kinds() and presence_active_kinds().';
COMMENT ON COLUMN user_presence.override IS 'What the user asks to be shown as, in JSON; NULL: nothing. state is what others see; of the rest they may know that it is dnd. last_seen is what they learn of last_seen_at. audience is the version of the newest change of denied_viewers.';

CREATE TABLE denied_viewers (
    user_id   BIGINT NOT NULL,
    viewer_id BIGINT NOT NULL,
    since     TIMESTAMPTZ(3) NOT NULL,
    version   BIGINT NOT NULL,
    PRIMARY KEY (user_id, viewer_id)
);

COMMENT ON TABLE denied_viewers IS 'The viewers to whom a user looks hidden. Viewer 0 is nobody: the version of that row is the one as of which the list is complete. While user_presence has a later audience, the user is shown to nobody.';
COMMENT ON COLUMN denied_viewers.version IS 'The version of the change that added the viewer.';

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
    left_out       BIGINT NOT NULL DEFAULT 0,
    override       TEXT,
    PRIMARY KEY (user_id, at, version)
) PARTITION BY RANGE (at);

COMMENT ON TABLE status_changes IS 'The audit log: every published change, partitioned by UTC day.';
COMMENT ON COLUMN status_changes.left_out IS 'How many changes of the user since the row before were not published, because there were too many in a short time.';
COMMENT ON COLUMN status_changes.override IS 'The override from the change on, as in user_presence.';

-- Catches what has no day of its own yet, so that a write never fails for want of one.
CREATE TABLE status_changes_default PARTITION OF status_changes DEFAULT;

CREATE TABLE sink_offsets (
    partition   INT PRIMARY KEY,
    next_offset BIGINT NOT NULL,
    written_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
    topic_id    TEXT COLLATE "C",
    latest_ms   BIGINT NOT NULL DEFAULT 0,
    log_epoch   BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 50); -- one row per partition, updated all the time

COMMENT ON TABLE sink_offsets IS 'The next offset of presence.transitions to be written, moved in the same transaction as the rows.';
COMMENT ON COLUMN sink_offsets.topic_id IS 'The Kafka topic that next_offset is of, as kafka-topics --describe prints it; NULL: not known. To have the sink go on from another offset, set next_offset, and topic_id to NULL.';
COMMENT ON COLUMN sink_offsets.latest_ms IS 'The latest time of a record before next_offset, Unix milliseconds; 0: not known. A later record there means that the log is another one, as after Kafka was restored from a copy.';
COMMENT ON COLUMN sink_offsets.log_epoch IS 'The greatest log epoch of a version that was written. After Kafka was restored, versions of a greater one are awaited.';

CREATE TABLE log_edge (
    one            BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    dropped_before TIMESTAMPTZ(3) NOT NULL
);

COMMENT ON TABLE log_edge IS 'Where status_changes begins: what happened before was dropped because it was older than the audit retention. No row while nothing was ever dropped.';

CREATE TABLE erased_users (
    user_id   BIGINT PRIMARY KEY,
    partition INT NOT NULL,
    version   BIGINT NOT NULL,
    until     TIMESTAMPTZ(3) NOT NULL
);
CREATE INDEX erased_users_by_version ON erased_users (partition, version);

COMMENT ON TABLE erased_users IS 'Users who were erased, and by which version: older changes are not written again. Rows are dropped at "until", when no topic has such changes any more.';

-- Pipelines with --ids int leave it empty.
CREATE TABLE names (
    user_id  BIGINT PRIMARY KEY,
    tenant   TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL
);

-- Finds the users of a tenant.
CREATE INDEX names_by_tenant ON names (tenant, user_id);

COMMENT ON TABLE names IS 'What users are called in pipelines with names. The empty tenant is the default one.';

CREATE TABLE tenant_edges (
    tenant         TEXT COLLATE "C" PRIMARY KEY,
    dropped_before TIMESTAMPTZ(3) NOT NULL,
    cleaned_before TIMESTAMPTZ(3)
);

COMMENT ON TABLE tenant_edges IS 'Where status_changes begins for users of tenants that keep fewer days than the audit retention: what happened before is not shown, and is deleted in small steps.';
COMMENT ON COLUMN tenant_edges.cleaned_before IS 'Everything from before was deleted once.';

-- +goose StatementBegin
CREATE FUNCTION presence_device_kinds(kinds SMALLINT) RETURNS TEXT[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT coalesce(array_agg(word ORDER BY bit), '{}')
FROM (VALUES (1, 'mobile'), (2, 'desktop'), (3, 'web'), (4, 'bot'), (5, 'other')) AS known (bit, word)
WHERE kinds & (1 << bit) <> 0
$$;
-- +goose StatementEnd

CREATE FUNCTION presence_active_kinds(kinds SMALLINT) RETURNS TEXT[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN presence_device_kinds((kinds >> 8)::smallint);
