-- All changes from ?1 to ?2, of one user unless ?3 is 0, in the order of a replay.
SELECT user_id, at, version, coalesce(device_id, 0), coalesce(last_seen_at, 0), coalesce(last_active_at, 0), from_state, to_state, cause,
       visibility, device_kinds, event_id, policy_id, left_out, coalesce(override, '')
FROM status_changes
WHERE at >= ?1 AND at < ?2 AND (?3 = 0 OR user_id = ?3)
ORDER BY at, user_id, version
