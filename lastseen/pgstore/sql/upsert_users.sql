-- The updates of a batch, one per user, ordered by user. since and hidden stay if the batch does not
-- determine them; last seen and last active never go back (store.Update.Onto; greatest ignores NULL).
-- An imported row has version 0: the first change replaces it.
-- Reading them before the row is locked is safe: only the transaction that has locked a partition's row
-- of sink_offsets writes the partition's users, and this one has.
INSERT INTO user_presence AS known
    (user_id, state, since, last_seen_at, last_active_at, device_kinds, visibility, version, hidden)
SELECT user_id, state::presence_state,
       CASE WHEN since_known THEN since
            ELSE coalesce((SELECT old.since FROM user_presence old WHERE old.user_id = batch.user_id AND old.version <> 0), since) END,
       last_seen_at, last_active_at, device_kinds, visibility::presence_visibility, version,
       CASE WHEN hidden_known THEN hidden
            ELSE coalesce((SELECT nullif(old.hidden, 0) FROM user_presence old WHERE old.user_id = batch.user_id), hidden) END
FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::smallint[], $7::text[],
            $8::bigint[], $9::bigint[], $10::bool[], $11::bool[])
     AS batch (user_id, state, since, last_seen_at, last_active_at, device_kinds, visibility, version, hidden, since_known,
               hidden_known)
ON CONFLICT (user_id) DO UPDATE SET
    state          = excluded.state,
    since          = excluded.since,
    last_seen_at   = CASE WHEN known.version = 0 THEN excluded.last_seen_at
                          ELSE greatest(known.last_seen_at, excluded.last_seen_at) END,
    last_active_at = greatest(known.last_active_at, excluded.last_active_at),
    device_kinds   = excluded.device_kinds,
    visibility     = excluded.visibility,
    version        = excluded.version,
    hidden         = excluded.hidden
WHERE known.version < excluded.version
