-- Delete in a warehouse whom Stillhere has erased. The table changes has the rows of "stillhere replay", which are
-- appended each night. Those with the cause erased name the users. Run it after each load, in one transaction with
-- it. It is the same in Postgres and DuckDB, and may run twice. With --ids text compare tenant and name in place of
-- user_id.

-- Copies of the user in other tables, up to the erasure:
DELETE FROM sessions USING changes AS erasure
WHERE erasure.cause = 'erased' AND sessions.user_id = erasure.user_id AND sessions.ended_at <= erasure.changed_at;

-- The changes themselves. The user may have come back since: newer versions stay.
DELETE FROM changes USING changes AS erasure
WHERE erasure.cause = 'erased' AND changes.user_id = erasure.user_id AND changes.version < erasure.version;
