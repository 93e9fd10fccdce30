-- Last seen by another system, of a user without a version.
INSERT INTO user_presence
    (user_id, state, since, last_seen_at, last_active_at, device_kinds, visibility, version, hidden)
SELECT ?1, 'offline', ?2, ?2, NULL, 0, 'everyone', 0, 0
WHERE NOT EXISTS (SELECT 1 FROM erased_users WHERE user_id = ?1)
ON CONFLICT (user_id) DO UPDATE SET since = excluded.since, last_seen_at = excluded.last_seen_at
WHERE version = 0 AND last_seen_at < excluded.last_seen_at
