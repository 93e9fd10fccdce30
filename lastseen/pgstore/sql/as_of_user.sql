-- What was in force at $1 of the user $2, with the columns of export_changes.sql: by the
-- last change until then, where that is older than the retention by the next one, and
-- without one by user_presence.
(SELECT user_id, at, version, 0::bigint, last_seen_at, last_active_at, to_state, to_state, 'unspecified'::presence_cause, visibility,
        device_kinds, ''::text, ''::text, left_out
 FROM status_changes
 WHERE user_id = $2 AND at <= $1
 ORDER BY at DESC, version DESC
 LIMIT 1)
UNION ALL
(SELECT user_id, $1, 0, 0, NULL, NULL, from_state, from_state, 'unspecified',
        CASE WHEN cause <> 'visibility' THEN visibility WHEN visibility = 'nobody' THEN 'everyone' ELSE 'nobody' END, 0::smallint, '', '', 0
 FROM (SELECT * FROM status_changes WHERE user_id = $2 AND at > $1 ORDER BY at, version LIMIT 1) AS next
 WHERE from_state <> 'offline' AND NOT EXISTS (SELECT FROM status_changes WHERE user_id = $2 AND at <= $1))
UNION ALL
(SELECT user_id, since, version, 0, last_seen_at, last_active_at, state, state, 'unspecified', visibility, device_kinds, '', '', 0
 FROM user_presence
 WHERE user_id = $2 AND since <= $1 AND NOT EXISTS (SELECT FROM status_changes WHERE user_id = $2))
