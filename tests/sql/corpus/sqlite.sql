-- Valid SELECTs of SQLite, one a line. A line `-- refused: words` says why the next one cannot be live.

-- expressions and literals
SELECT 1 AS one
SELECT 0x1F AS hex, 1e3 AS big, .5 AS half, 5. AS five, 'it''s' AS quote, x'00ff' AS bytes, NULL AS empty
SELECT TRUE AS yes, FALSE AS no, NOT TRUE AS neither
SELECT id, a + 1 AS n, a - 1 AS m, a * 2 AS p, a / 2 AS q, a % 2 AS r FROM t
SELECT id, a & 1 AS x, a | 4 AS y, a << 2 AS z, a >> 1 AS w, ~a AS v FROM t
SELECT id, b || '-' || a AS joined FROM t
SELECT id, -a AS minus, +a AS plus FROM t
SELECT id FROM t WHERE a == 1
SELECT id FROM t WHERE a <> 1 AND a != 3
SELECT id FROM t WHERE a IS 1
SELECT id FROM t WHERE a IS NOT 1
SELECT id FROM t WHERE a IS DISTINCT FROM 1
SELECT id FROM t WHERE a IS NOT DISTINCT FROM 1
SELECT id FROM t WHERE b ISNULL
SELECT id FROM t WHERE b NOTNULL
SELECT id FROM t WHERE b NOT NULL
SELECT id FROM t WHERE a BETWEEN 1 AND 3
SELECT id FROM t WHERE a NOT BETWEEN 1 AND 2
SELECT id FROM t WHERE a IN (1, 2)
SELECT id FROM t WHERE a NOT IN (1, 2)
SELECT id FROM t WHERE a IN ()
SELECT id FROM t WHERE a IN few
SELECT id FROM t WHERE a IN main.few
SELECT id FROM t WHERE a NOT IN few
SELECT id FROM t WHERE a IN "few"
SELECT id FROM t WHERE id IN (SELECT t_id FROM u)
SELECT id FROM t WHERE (id, a) IN (SELECT t_id, id FROM u)
SELECT id FROM t WHERE (id, a) = (1, 1)
SELECT id FROM t WHERE (id, a) < (2, 3)
SELECT id FROM t WHERE (id, a) IN (VALUES (1, 1), (2, 2))
SELECT id FROM t WHERE (a, b) IS NOT (1, 'one')
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t_id = t.id)
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE t_id = t.id)
SELECT id, (SELECT count(*) FROM u WHERE t_id = t.id) AS n FROM t
SELECT id, CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END AS word FROM t
SELECT id, CASE WHEN a > 1 THEN a END AS some FROM t
SELECT id, CAST(a AS TEXT) AS x, CAST(b AS INTEGER) AS y, CAST(a AS NUMERIC(10, 2)) AS z FROM t
SELECT id FROM t WHERE b LIKE 'o%'
SELECT id FROM t WHERE b NOT LIKE 'o%'
SELECT id FROM t WHERE b LIKE 'o\%' ESCAPE '\'
SELECT id FROM t WHERE b GLOB 't*'
SELECT id FROM t WHERE b NOT GLOB 't*'
SELECT id FROM t WHERE b COLLATE NOCASE = 'ONE'
SELECT id FROM t WHERE b COLLATE RTRIM = 'one  '
SELECT id FROM t ORDER BY b COLLATE NOCASE DESC NULLS LAST, id
SELECT id FROM t WHERE b = "one"
SELECT id, "no such column" AS text FROM t
SELECT id FROM t WHERE likelihood(a = 1, 0.5)
SELECT id, iif(a > 1, 'many', 'few') AS word FROM t
SELECT id, coalesce(b, 'none') AS x, ifnull(b, 'none') AS y, nullif(a, 1) AS z FROM t
SELECT id, substr(b, 1, 2) AS x, substring(b, 2) AS y, instr(b, 'o') AS z FROM t
SELECT id, printf('%05d', a) AS x, format('%s!', b) AS y FROM t
SELECT id, round(c, 1) AS x, abs(-a) AS y, sign(a) AS z FROM t
SELECT id, hex(b) AS x, quote(b) AS y, unicode(b) AS z, char(65, 66) AS w FROM t
SELECT id, min(a, 2) AS x, max(a, 2) AS y FROM t
SELECT id, trim(b) AS x, ltrim(b, 'o') AS y, rtrim(b, 'e') AS z, replace(b, 'o', '0') AS w FROM t
SELECT id, typeof(a) AS x, typeof(d) AS y, length(d) AS z, zeroblob(2) AS w FROM t
SELECT id, date(c, 'unixepoch') AS x, strftime('%Y', c, 'unixepoch') AS y FROM t
SELECT id FROM t WHERE a BETWEEN 1 AND 2 IS TRUE
SELECT id FROM t WHERE a IS NOT NULL IS NOT FALSE
-- names and comments
SELECT t.id, main.t.a FROM main.t
SELECT [id], `a`, "b" FROM [t]
SELECT x.[id] AS [the id] FROM `t` x
SELECT id AS 'quoted' FROM t
SELECT id the_id FROM t the_t
SELECT "a b", "select" FROM "odd name"
SELECT größe, "naïve" FROM maße
SELECT /* inside */ id FROM t /* behind */
SELECT id FROM t -- a comment
SELECT id FROM t;
SELECT ALL id FROM t
SELECT t.* FROM t
SELECT *, a + 1 AS more FROM t
SELECT id FROM t NOT INDEXED WHERE a = 1
SELECT id FROM t INDEXED BY t_a WHERE a = 1
SELECT _rowid_ AS n, oid AS m FROM t
-- refused: rowid
SELECT rowid AS n, a FROM few
-- refused: rowid
SELECT a FROM few ORDER BY rowid
-- order and limit
SELECT id FROM t ORDER BY 1 DESC
SELECT id, a AS n FROM t ORDER BY n, id
SELECT id FROM t ORDER BY a DESC NULLS FIRST, id ASC NULLS LAST
SELECT random_name.id FROM t AS random_name ORDER BY random_name.id LIMIT 2
SELECT id FROM t ORDER BY id LIMIT 2
SELECT id FROM t ORDER BY id LIMIT 2 OFFSET 1
SELECT id FROM t ORDER BY id LIMIT 1, 2
SELECT id FROM t ORDER BY id LIMIT -1 OFFSET 2
SELECT id FROM t ORDER BY id LIMIT 1 + 1
SELECT id FROM t ORDER BY id LIMIT (SELECT count(*) FROM few)
-- joins
SELECT t.id, u.x FROM t, u WHERE t.id = u.t_id
SELECT t.id, u.x FROM t JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t INNER JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t LEFT JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t LEFT OUTER JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t RIGHT JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t FULL OUTER JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t CROSS JOIN u
SELECT t.id, t.b, u.x FROM t NATURAL JOIN u
SELECT t.id AS one, u.id AS other FROM t NATURAL LEFT JOIN u
SELECT id, x FROM t JOIN u USING (id)
SELECT id, x FROM t LEFT JOIN u USING (id)
SELECT t.id, v.x FROM t JOIN (u AS v JOIN few ON few.a = v.id) ON t.id = v.t_id
SELECT t.id, s.n FROM t JOIN (SELECT t_id, count(*) AS n FROM u GROUP BY t_id) AS s ON s.t_id = t.id
SELECT one.id, two.id AS other FROM t one JOIN t two ON one.a < two.a
SELECT id FROM (t)
SELECT id FROM (SELECT id, a FROM t WHERE a > 1)
SELECT * FROM (VALUES (1, 'a'), (2, 'b'))
SELECT column1 AS n FROM (VALUES (1), (2))
VALUES (1, 2), (3, 4)
-- groups
SELECT a, count(*) AS n FROM t GROUP BY a
SELECT count(ALL a) AS n FROM t
SELECT count(DISTINCT a) AS n, sum(DISTINCT a) AS s FROM t
SELECT count() AS n FROM t
SELECT sum(a) AS s, total(a) AS t, avg(a) AS v, min(b) AS x, max(b) AS y FROM t
SELECT a, group_concat(b) AS words FROM t GROUP BY a
SELECT a, group_concat(b, '; ') AS words FROM t GROUP BY a
SELECT group_concat(DISTINCT b) AS words FROM t
SELECT count(*) FILTER (WHERE a > 1) AS n FROM t
SELECT a, count(*) AS n FROM t GROUP BY a HAVING count(*) > 1
SELECT a % 2 AS parity, count(*) AS n FROM t GROUP BY 1
SELECT a % 2 AS parity, count(*) AS n FROM t GROUP BY parity ORDER BY n
SELECT a, max(id) AS last, b FROM t GROUP BY a
SELECT DISTINCT a FROM t
SELECT DISTINCT a, b FROM t ORDER BY a, b LIMIT 2
SELECT sum(a) AS s FROM t HAVING sum(a) > 0
SELECT a, json_group_array(id) AS ids FROM t GROUP BY a
SELECT json_group_object(id, a) AS o FROM t
SELECT count(*) + 1 AS n FROM t WHERE a > (SELECT avg(a) FROM t)
-- windows
SELECT id, row_number() OVER () AS n FROM t
SELECT id, rank() OVER (ORDER BY a) AS r, dense_rank() OVER (ORDER BY a) AS d FROM t
SELECT id, sum(a) OVER (PARTITION BY b ORDER BY id) AS s FROM t
SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t
SELECT id, sum(a) OVER (ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS s FROM t
SELECT id, sum(a) OVER (ORDER BY a GROUPS 1 PRECEDING EXCLUDE TIES) AS s FROM t
SELECT id, lag(a, 1, 0) OVER w AS l, lead(a) OVER w AS m FROM t WINDOW w AS (ORDER BY id)
SELECT id, first_value(b) OVER (w ROWS UNBOUNDED PRECEDING) AS f FROM t WINDOW w AS (PARTITION BY a ORDER BY id)
SELECT id, ntile(2) OVER (ORDER BY id) AS n, nth_value(a, 2) OVER (ORDER BY id) AS v FROM t
SELECT id, count(*) FILTER (WHERE a > 1) OVER () AS n FROM t
SELECT id, percent_rank() OVER (ORDER BY a) AS p, cume_dist() OVER (ORDER BY a) AS c FROM t
-- sets
SELECT id FROM t UNION SELECT id FROM u
SELECT id FROM t UNION ALL SELECT id FROM u
SELECT id FROM t INTERSECT SELECT t_id FROM u
SELECT id FROM t EXCEPT SELECT t_id FROM u
SELECT id FROM t UNION SELECT id FROM u ORDER BY id DESC LIMIT 3
SELECT id FROM t UNION VALUES (99)
SELECT id AS n FROM t UNION ALL SELECT a FROM t UNION SELECT id FROM u
-- with
WITH one AS (SELECT id, a FROM t) SELECT id FROM one WHERE a = 1
WITH one(n) AS (SELECT id FROM t), two(m) AS (SELECT n FROM one WHERE n > 1) SELECT m FROM two
WITH one AS MATERIALIZED (SELECT id FROM t) SELECT id FROM one
WITH one AS NOT MATERIALIZED (SELECT id FROM t) SELECT id FROM one
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT x FROM n
WITH RECURSIVE n(x) AS (VALUES (1) UNION SELECT x + 1 FROM n LIMIT 5) SELECT x FROM n
WITH RECURSIVE walk(id) AS (SELECT id FROM t WHERE a = 1 UNION SELECT u.id FROM u JOIN walk ON walk.id = u.t_id) SELECT id FROM walk
SELECT id FROM t WHERE a IN (WITH one AS (SELECT 1 AS n) SELECT n FROM one)
-- json and table-valued functions
SELECT id, json_extract(j, '$.x') AS x FROM t
SELECT id, j -> 'x' AS x, j ->> 'x' AS y, j ->> '$.list[0]' AS z FROM t
SELECT t.id, e.value AS v FROM t, json_each(t.j, '$.list') AS e
SELECT t.id, e.key AS k FROM t JOIN json_tree(t.j) e WHERE e.atom IS NOT NULL
SELECT value AS v FROM json_each('[1, 2, 3]')
SELECT id, json_array(a, b) AS x, json_object('a', a) AS y, json_type(j) AS z, json_valid(j) AS w FROM t
SELECT id, json_set(j, '$.y', 1) AS x, json_remove(j, '$.x') AS y FROM t
SELECT id, json_array_length(j, '$.list') AS n FROM t
-- views
SELECT * FROM v
SELECT v.id, u.x FROM v JOIN u ON u.t_id = v.id
SELECT count(*) AS n FROM v
-- clocks and chance
-- refused: random
SELECT id, random() AS r FROM t
-- refused: random
SELECT id FROM t ORDER BY random()
-- refused: changes without
SELECT datetime('now') AS n
-- refused: changes without
SELECT id, CURRENT_TIMESTAMP AS n FROM t
-- refused: changes without
SELECT changes() AS n, id FROM t
-- refused: two columns
SELECT id, a AS id FROM t
-- refused: watched
SELECT name FROM sqlite_schema
