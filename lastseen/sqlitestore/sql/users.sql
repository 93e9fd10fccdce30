SELECT user_id, state, since, coalesce(last_seen_at, 0), coalesce(last_active_at, 0), device_kinds, visibility, version, hidden,
       coalesce(override, '')
FROM user_presence
WHERE user_id IN (SELECT value FROM json_each(?1))
