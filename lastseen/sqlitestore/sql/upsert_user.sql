-- The update of one user. since and hidden stay if the batch does not determine them (?10, ?11); last
-- seen and last active never go back (store.Update.Onto). An imported row has version 0: the first
-- change replaces it.
INSERT INTO user_presence
    (user_id, state, since, last_seen_at, last_active_at, device_kinds, visibility, version, hidden, override)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?12)
ON CONFLICT (user_id) DO UPDATE SET
    state          = excluded.state,
    since          = CASE WHEN ?10 OR version = 0 THEN excluded.since ELSE since END,
    last_seen_at   = CASE WHEN version = 0 THEN excluded.last_seen_at
                          ELSE nullif(max(coalesce(last_seen_at, 0), coalesce(excluded.last_seen_at, 0)), 0) END,
    last_active_at = nullif(max(coalesce(last_active_at, 0), coalesce(excluded.last_active_at, 0)), 0),
    device_kinds   = excluded.device_kinds,
    visibility     = excluded.visibility,
    version        = excluded.version,
    hidden         = CASE WHEN ?11 OR hidden = 0 THEN excluded.hidden ELSE hidden END,
    override       = excluded.override
WHERE version < excluded.version
