-- The updates of a batch, one per user, ordered by user. since and hidden stay if the batch does not
-- determine them; last seen and last active never go back (store.Update.Onto; greatest ignores NULL).
-- An imported row has version 0: the first change replaces it.
-- Reading them before the row is locked is safe: only the transaction that has locked a partition's row
-- of sink_offsets writes the partition's users, and this one has.
-- bits: 1 the user hides, 2 the batch determines since, 4 the batch determines hidden; then five bits of
-- state (1 offline, 2 away, 3 online) and the device kinds (bitsOf).
INSERT INTO user_presence AS known
    (user_id, state, since, last_seen_at, last_active_at, device_kinds, visibility, version, hidden, override)
SELECT user_id, (ARRAY['offline', 'away', 'online']::presence_state[])[bits >> 3 & 31],
       CASE WHEN bits & 2 <> 0 THEN since
            ELSE coalesce((SELECT old.since FROM user_presence old WHERE old.user_id = batch.user_id AND old.version <> 0), since) END,
       last_seen_at, last_active_at, bits >> 8,
       CASE WHEN bits & 1 = 0 THEN 'everyone'::presence_visibility ELSE 'nobody' END, version,
       CASE WHEN bits & 4 <> 0 THEN hidden
            ELSE coalesce((SELECT nullif(old.hidden, 0) FROM user_presence old WHERE old.user_id = batch.user_id), hidden) END,
       override
FROM unnest($1::bigint[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::bigint[],
            $8::text[])
     AS batch (user_id, bits, since, last_seen_at, last_active_at, version, hidden, override)
ON CONFLICT (user_id) DO UPDATE SET
    state          = excluded.state,
    since          = excluded.since,
    last_seen_at   = CASE WHEN known.version = 0 THEN excluded.last_seen_at
                          ELSE greatest(known.last_seen_at, excluded.last_seen_at) END,
    last_active_at = greatest(known.last_active_at, excluded.last_active_at),
    device_kinds   = excluded.device_kinds,
    visibility     = excluded.visibility,
    version        = excluded.version,
    hidden         = excluded.hidden,
    override       = excluded.override
WHERE known.version < excluded.version
