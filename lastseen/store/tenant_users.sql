-- Hidden users count neither as online nor as away.
SELECT names.tenant,
       count(*),
       count(*) FILTER (WHERE user_presence.state = 'online' AND user_presence.hidden = 0),
       count(*) FILTER (WHERE user_presence.state = 'away' AND user_presence.hidden = 0),
       0
FROM names
LEFT JOIN user_presence ON user_presence.user_id = names.user_id
GROUP BY names.tenant
ORDER BY names.tenant;
