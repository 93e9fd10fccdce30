-- A step of dropping by age: at most ?2 of the changes before ?1.
DELETE FROM status_changes
WHERE (user_id, at, version) IN (SELECT user_id, at, version FROM status_changes WHERE at < ?1 ORDER BY at LIMIT ?2)
