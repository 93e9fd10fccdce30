SELECT user_id, state::text, since, last_seen_at, last_active_at, device_kinds, visibility::text, version, hidden
FROM user_presence
WHERE user_id = ANY ($1)
