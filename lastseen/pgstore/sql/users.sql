-- Times in milliseconds, 0 for NULL, as store.scanCurrent reads them.
SELECT user_id, state::text, (extract(epoch FROM since) * 1000)::bigint, coalesce((extract(epoch FROM last_seen_at) * 1000)::bigint, 0),
       coalesce((extract(epoch FROM last_active_at) * 1000)::bigint, 0), device_kinds, visibility::text, version, hidden,
       coalesce(override, '')
FROM user_presence
WHERE user_id = ANY ($1)
