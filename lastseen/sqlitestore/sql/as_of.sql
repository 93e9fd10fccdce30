-- What was in force at ?1 of every user, or of the user ?2 unless that is 0, with
-- the columns of export_changes.sql.
SELECT user_id, at, version, 0, coalesce(last_seen_at, 0), coalesce(last_active_at, 0), to_state, to_state, 'unspecified', visibility,
       device_kinds, '', ''
FROM (SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY at DESC, version DESC) AS place
      FROM status_changes
      WHERE at <= ?1 AND (?2 = 0 OR user_id = ?2))
WHERE place = 1
