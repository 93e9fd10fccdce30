-- A page of a user's changes, newest first.
SELECT at, version, coalesce(device_id, 0), coalesce(last_seen_at, 0), coalesce(last_active_at, 0), from_state, to_state, cause,
       device_kinds, policy_id, left_out, coalesce(override, '')
FROM status_changes
WHERE user_id = ?1
  AND at >= ?2
  AND at < ?3
  AND (at, version) < (?4, ?5)
  AND visibility = 'everyone'
  AND NOT EXISTS (SELECT 1 FROM user_presence WHERE user_id = ?1 AND visibility = 'nobody')
ORDER BY at DESC, version DESC
LIMIT ?6
