-- minimum compatible schema: 1
-- +goose Up

CREATE TABLE log_edge (
    one            BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    dropped_before TIMESTAMPTZ(3) NOT NULL
);

COMMENT ON TABLE log_edge IS 'Where status_changes begins: what happened before was dropped because it was older than the audit retention. No row while nothing was ever dropped.';

-- What a program of schema 3 has dropped is not known: it is all older than the oldest day
-- that is left.
INSERT INTO log_edge (dropped_before)
SELECT coalesce((SELECT min(to_date(right(child.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC'
                 FROM pg_inherits
                 JOIN pg_class child ON child.oid = pg_inherits.inhrelid
                 WHERE pg_inherits.inhparent = 'status_changes'::regclass AND child.relname ~ '^status_changes_p[0-9]{8}$'),
                now())
WHERE EXISTS (SELECT FROM user_presence);

-- +goose Down

DROP TABLE log_edge;
