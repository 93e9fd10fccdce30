-- The changes of one user of at most a day, in the order of a replay.
SELECT user_id, at, version, coalesce(device_id, 0), last_seen_at, last_active_at, from_state, to_state, cause, visibility, device_kinds,
       event_id, policy_id, left_out, override
FROM status_changes
WHERE user_id = $3 AND at >= $1 AND at < $2
ORDER BY at, version
