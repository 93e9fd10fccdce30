INSERT INTO status_changes
    (user_id, at, version, event_id, from_state, to_state, cause, visibility, device_id, device_kinds, last_seen_at,
     last_active_at, policy_id, left_out, override)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT DO NOTHING
