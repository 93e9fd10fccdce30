-- What was in force at ?1 of every user, or of the user ?2 unless that is 0, with
-- the columns of export_changes.sql: by the last change until then, where that was
-- dropped by the next one, and without one by user_presence. ?3: changes were dropped,
-- all from before the millisecond after ?1. If not, the log begins with its first change.
WITH placed AS (
    SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY at DESC, version DESC) AS place
    FROM status_changes
    WHERE at <= ?1 AND (?2 = 0 OR user_id = ?2)
), later AS (
    SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY at, version) AS place
    FROM status_changes c
    WHERE at > ?1 AND (?2 = 0 OR user_id = ?2)
      AND (?3 OR EXISTS (SELECT 1 FROM status_changes WHERE at <= ?1))
      AND NOT EXISTS (SELECT 1 FROM status_changes b WHERE b.user_id = c.user_id AND b.at <= ?1)
)
SELECT user_id, at, version, 0, coalesce(last_seen_at, 0), coalesce(last_active_at, 0), to_state, to_state, 'unspecified', visibility,
       device_kinds, '', '', left_out, coalesce(override, '')
FROM placed
WHERE place = 1
UNION ALL
SELECT user_id, ?1, 0, 0, 0, 0, from_state, from_state, 'unspecified',
       CASE WHEN cause <> 'visibility' THEN visibility WHEN visibility = 'nobody' THEN 'everyone' ELSE 'nobody' END, 0, '', '', 0, ''
FROM later
WHERE place = 1 AND from_state <> 'offline'
UNION ALL
SELECT user_id, since, version, 0, coalesce(last_seen_at, 0), coalesce(last_active_at, 0), state, state, 'unspecified', visibility,
       device_kinds, '', '', 0, coalesce(override, '')
FROM user_presence p
WHERE since <= ?1 AND version > 0 AND (?2 = 0 OR user_id = ?2) AND NOT EXISTS (SELECT 1 FROM status_changes c WHERE c.user_id = p.user_id)
