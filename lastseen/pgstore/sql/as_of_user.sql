-- What was in force at $1 of the user $2, with the columns of export_changes.sql.
SELECT user_id, at, version, 0::bigint, last_seen_at, last_active_at, to_state, to_state, 'unspecified'::presence_cause, visibility,
       device_kinds, ''::text, ''::text
FROM status_changes
WHERE user_id = $2 AND at <= $1
ORDER BY at DESC, version DESC
LIMIT 1
