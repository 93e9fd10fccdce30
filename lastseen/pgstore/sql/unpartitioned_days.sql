-- The days of the rows that had to go into the default partition.
SELECT DISTINCT (at AT TIME ZONE 'UTC')::date FROM status_changes_default ORDER BY 1
