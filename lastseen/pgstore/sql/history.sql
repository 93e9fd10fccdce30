-- A page of a user's changes, newest first, as store.scanChange reads them. "at < $3" repeats what
-- the pair says, so that the planner excludes days.
SELECT (extract(epoch FROM at) * 1000)::bigint, version, coalesce(device_id, 0),
       coalesce((extract(epoch FROM last_seen_at) * 1000)::bigint, 0), coalesce((extract(epoch FROM last_active_at) * 1000)::bigint, 0),
       from_state::text, to_state::text, cause::text, device_kinds, policy_id, left_out, coalesce(override, '')
FROM status_changes
WHERE user_id = $1
  AND at >= $2
  AND at < $3
  AND (at, version) < ($4, $5)
  AND visibility = 'everyone'
  AND NOT EXISTS (SELECT FROM user_presence WHERE user_id = $1 AND visibility = 'nobody')
ORDER BY at DESC, version DESC
LIMIT $6
