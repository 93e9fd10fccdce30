-- The way for a batch of which something is in the log already; COPY is faster,
-- but knows no ON CONFLICT.
INSERT INTO status_changes
    (user_id, at, version, device_id, last_seen_at, last_active_at, from_state, to_state, cause, visibility, device_kinds,
     event_id, policy_id, left_out, override)
SELECT user_id, at, version, device_id, last_seen_at, last_active_at, from_state::presence_state, to_state::presence_state,
       cause::presence_cause, visibility::presence_visibility, device_kinds, event_id, policy_id, left_out, override
FROM unnest($1::bigint[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::timestamptz[], $7::text[],
            $8::text[], $9::text[], $10::text[], $11::smallint[], $12::text[], $13::text[], $14::bigint[], $15::text[])
     AS batch (user_id, at, version, device_id, last_seen_at, last_active_at, from_state, to_state, cause, visibility,
               device_kinds, event_id, policy_id, left_out, override)
ON CONFLICT DO NOTHING
