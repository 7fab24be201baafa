SELECT name, COUNT(*) AS instances, SUM(dur) AS total_ns, MIN(dur), MAX(dur), AVG(dur)
FROM slice WHERE category = 'kernel' GROUP BY name ORDER BY total_ns DESC
