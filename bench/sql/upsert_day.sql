-- The users of one day's changes moved on by one statement.
INSERT INTO user_presence AS known
    (user_id, state, since, last_seen_at, last_active_at, device_kinds, visibility, version, hidden)
SELECT DISTINCT ON (user_id) user_id, to_state, at, last_seen_at, last_active_at, device_kinds, visibility, version, 0
FROM status_changes
WHERE at >= '%s' AND at < '%s'
ORDER BY user_id, version DESC
ON CONFLICT (user_id) DO UPDATE SET
    state          = excluded.state,
    since          = excluded.since,
    last_seen_at   = excluded.last_seen_at,
    last_active_at = excluded.last_active_at,
    device_kinds   = excluded.device_kinds,
    visibility     = excluded.visibility,
    version        = excluded.version,
    hidden         = excluded.hidden
WHERE known.version < excluded.version
