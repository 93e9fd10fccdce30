-- When the user $1 last showed again, after $2 and up to $3, in milliseconds; 0: it did not.
SELECT coalesce((extract(epoch FROM max(at)) * 1000)::bigint, 0)
FROM status_changes
WHERE user_id = $1 AND at > $2 AND at <= $3 AND cause = 'visibility' AND visibility = 'everyone'
