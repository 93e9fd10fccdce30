-- minimum compatible schema: 1
-- +goose Up

-- Times are Unix milliseconds UTC, NULL for never; words are those of the API.
CREATE TABLE user_presence (
    user_id        INTEGER PRIMARY KEY,
    state          TEXT NOT NULL,
    since          INTEGER NOT NULL,
    last_seen_at   INTEGER,
    last_active_at INTEGER,
    device_kinds   INTEGER NOT NULL, -- bits: 2 mobile, 4 desktop, 8 web, 16 bot, 32 other, and 256 times that of those in use
    visibility     TEXT NOT NULL,
    version        INTEGER NOT NULL,
    hidden         INTEGER NOT NULL, -- version of the change by which the user hid, 0 while visible
    -- What the user asks to be shown as, in JSON; NULL: nothing. state is what others see; of the rest they may know
    -- that "state" is dnd. "last_seen" is what they learn of last_seen_at, "audience" the version of the newest change of
    -- denied_viewers.
    override       TEXT
) STRICT;

-- The viewers to whom a user looks hidden, each with the version of the change that added it. Viewer 0 is nobody: the
-- version of that row is the one as of which the list is complete. While user_presence has a later audience, the user
-- is shown to nobody.
CREATE TABLE denied_viewers (
    user_id   INTEGER NOT NULL,
    viewer_id INTEGER NOT NULL,
    since     INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    PRIMARY KEY (user_id, viewer_id)
) STRICT, WITHOUT ROWID;

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
    -- How many changes of the user since the row before were not published, because there were too many in a
    -- short time.
    left_out       INTEGER NOT NULL DEFAULT 0,
    override       TEXT, -- from the change on, as in user_presence
    PRIMARY KEY (user_id, at, version)
) STRICT, WITHOUT ROWID;

-- For dropping by age.
CREATE INDEX status_changes_by_time ON status_changes (at);

-- topic_id is the Kafka topic that next_offset is of, as kafka-topics --describe prints it. To have the sink go on from
-- another offset, set next_offset, and topic_id to NULL.
CREATE TABLE sink_offsets (
    partition   INTEGER PRIMARY KEY,
    next_offset INTEGER NOT NULL,
    topic_id    TEXT,
    -- The latest time of a record before next_offset, Unix milliseconds, and the greatest log epoch of a version that
    -- was written; 0: not known.
    latest_ms   INTEGER NOT NULL DEFAULT 0,
    log_epoch   INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Where the log of changes begins: what happened before was dropped because it was older
-- than the audit retention. There is no row while nothing was ever dropped.
CREATE TABLE log_edge (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    dropped_before INTEGER NOT NULL
) STRICT;

-- Users who were erased, and by which version: older changes are not written again. Rows are
-- dropped at "until", when no topic has such changes any more.
CREATE TABLE erased_users (
    user_id   INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    until     INTEGER NOT NULL
) STRICT;
CREATE INDEX erased_users_by_version ON erased_users (partition, version);

-- What users are called in pipelines with --ids text. The empty tenant is the default one.
CREATE TABLE names (
    user_id  INTEGER PRIMARY KEY,
    tenant   TEXT NOT NULL,
    name     TEXT NOT NULL
) STRICT;

-- Finds the users of a tenant.
CREATE INDEX names_by_tenant ON names (tenant, user_id);

-- Where status_changes begins for users of tenants that keep fewer days than the audit retention: what
-- happened before is not shown, and is deleted in small steps. Everything from before cleaned_before was
-- deleted once.
CREATE TABLE tenant_edges (
    tenant         TEXT PRIMARY KEY,
    dropped_before INTEGER NOT NULL,
    cleaned_before INTEGER NOT NULL DEFAULT 0
) STRICT;
