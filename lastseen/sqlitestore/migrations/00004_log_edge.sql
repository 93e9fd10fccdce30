-- minimum compatible schema: 1
-- +goose Up

-- Where the log of changes begins: what happened before was dropped because it was older
-- than the audit retention. There is no row while nothing was ever dropped.
CREATE TABLE log_edge (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    dropped_before INTEGER NOT NULL
) STRICT;

-- What a program of schema 3 has dropped is not known: it is all older than the oldest
-- change that is left.
INSERT INTO log_edge (one, dropped_before)
SELECT 1, coalesce((SELECT min(at) FROM status_changes), CAST(strftime('%s', 'now') AS INTEGER) * 1000)
WHERE EXISTS (SELECT 1 FROM user_presence);

-- +goose Down

DROP TABLE log_edge;
