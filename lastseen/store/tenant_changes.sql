-- tenant_users.sql, with the changes in the log.
SELECT names.tenant,
       count(*),
       count(*) FILTER (WHERE user_presence.state = 'online' AND user_presence.hidden = 0),
       count(*) FILTER (WHERE user_presence.state = 'away' AND user_presence.hidden = 0),
       CAST(coalesce(sum(changes.n), 0) AS BIGINT)
FROM names
LEFT JOIN user_presence ON user_presence.user_id = names.user_id
LEFT JOIN (SELECT user_id, count(*) AS n FROM status_changes GROUP BY user_id) AS changes ON changes.user_id = names.user_id
GROUP BY names.tenant
ORDER BY names.tenant;
