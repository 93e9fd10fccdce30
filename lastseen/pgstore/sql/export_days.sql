-- The UTC days of which there may be changes.
SELECT to_date(right(child.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits
JOIN pg_class child ON child.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = 'status_changes'::regclass AND child.relname ~ '^status_changes_p[0-9]{8}$'
UNION
SELECT (at AT TIME ZONE 'UTC')::date FROM status_changes_default
ORDER BY day
