-- The days that have a partition, by its name.
SELECT to_date(right(child.relname, 8), 'YYYYMMDD')
FROM pg_inherits
JOIN pg_class child ON child.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = 'status_changes'::regclass AND child.relname ~ '^status_changes_p[0-9]{8}$'
ORDER BY 1
