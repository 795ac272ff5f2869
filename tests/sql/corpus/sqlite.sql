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
SELECT rowid AS n, a FROM few
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
-- odd, and valid
SELECT rowid FROM few
SELECT rowid AS r, a FROM few WHERE rowid > 1
SELECT few.oid AS r, a FROM few
SELECT _rowid_ AS r FROM few ORDER BY _rowid_ DESC
SELECT max(rowid) AS m FROM few
SELECT a FROM few WHERE rowid IN (SELECT rowid FROM few WHERE a > 1)
SELECT t.id, few.rowid AS r FROM t LEFT JOIN few ON few.rowid = t.id
SELECT count(rowid) AS n FROM few
SELECT a, row_number() OVER (ORDER BY rowid) AS r FROM few
SELECT id FROM t WHERE a IN (SELECT a FROM few UNION SELECT 3)
SELECT id FROM t WHERE (SELECT a FROM few WHERE few.a = t.a)
SELECT (SELECT a, 1) = (1, 1) AS y FROM t
SELECT id FROM t WHERE (a, b) = (SELECT a, b FROM t WHERE id = 1)
SELECT id FROM t WHERE (a, b) > (SELECT 1, 'a')
SELECT id FROM t WHERE a BETWEEN (SELECT min(a) FROM few) AND (SELECT max(a) FROM few)
SELECT id FROM t WHERE a IS b
SELECT id FROM t WHERE a IS NOT b
SELECT id FROM t WHERE a NOTNULL AND b IS NOT NULL
SELECT id, a IS NULL, b NOTNULL FROM t
SELECT id, -(-a), +(-a), ~~a, - - a FROM t
SELECT id, NOT a, NOT NOT a, a = 1 = 1 FROM t
SELECT id, a < 2 < 1 FROM t
SELECT id, 'a' 'b' FROM t
SELECT id AS "a""b" FROM t
SELECT id, 1 AS [x y], 2 AS `z` FROM t
SELECT id, x'', X'ABcd' FROM t
SELECT id, 9223372036854775807, -9223372036854775808, 9223372036854775808 FROM t
SELECT id, 1e400, -1e400, 1e-400 FROM t
SELECT id, 0xFFFFFFFFFFFFFFFF AS n FROM t
SELECT id, 'null', "NULL" AS q FROM t
SELECT id, b COLLATE nocase AS b FROM t ORDER BY b COLLATE "rtrim"
SELECT id FROM t ORDER BY a COLLATE BINARY ASC NULLS LAST, b COLLATE RTRIM DESC
SELECT id FROM t ORDER BY (SELECT count(*) FROM u WHERE u.t_id = t.id) DESC, id
SELECT id, a FROM t ORDER BY 2 DESC, 1
SELECT id FROM t ORDER BY -id LIMIT 2
SELECT id FROM t ORDER BY id LIMIT '2'
SELECT id FROM t ORDER BY id LIMIT 2.0
SELECT id FROM t ORDER BY id LIMIT 0
SELECT id FROM t ORDER BY id LIMIT -5
SELECT id FROM t ORDER BY id LIMIT 2 OFFSET -1
SELECT id FROM t ORDER BY id LIMIT (2)
SELECT id FROM t ORDER BY id LIMIT CAST('3' AS INTEGER)
SELECT id FROM t ORDER BY id LIMIT 9223372036854775807
SELECT id FROM t ORDER BY id LIMIT max(1, 2) OFFSET abs(-1)
SELECT id FROM t LIMIT 100
SELECT id FROM t UNION ALL SELECT id FROM u LIMIT 50
SELECT id AS n FROM t EXCEPT SELECT a FROM few UNION ALL SELECT 7 INTERSECT SELECT id FROM u
SELECT id FROM t UNION SELECT 'x' ORDER BY 1
SELECT b FROM t UNION SELECT b FROM t ORDER BY b COLLATE NOCASE
VALUES (1), (2), (3)
VALUES (1, 'a') UNION SELECT id, b FROM t
SELECT * FROM (VALUES (1, 2) UNION ALL VALUES (3, 4)) AS v
SELECT v.column1, v.column2 FROM (VALUES (1, 2)) v JOIN t ON t.id = v.column1
WITH v(p, q) AS (VALUES (1, 2), (3, 4)) SELECT p + q AS s FROM v JOIN t ON t.id = p
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 4) SELECT x FROM c ORDER BY x DESC
WITH RECURSIVE c(x, y) AS (SELECT id, a FROM t UNION SELECT x + 10, y FROM c WHERE x < 20 ORDER BY 1) SELECT x, y FROM c
WITH t AS (SELECT 1 AS id, 2 AS a) SELECT id, a FROM t
WITH t AS (SELECT * FROM main.t WHERE a > 1) SELECT id FROM t
WITH a AS (WITH b AS (SELECT id FROM t) SELECT id FROM b) SELECT id FROM a
WITH RECURSIVE sub(n) AS (SELECT count(*) FROM t) SELECT n FROM sub
WITH x AS NOT MATERIALIZED (SELECT id FROM t), y AS MATERIALIZED (SELECT id FROM x) SELECT count(*) AS n FROM y
WITH unused AS (SELECT 1) SELECT id FROM t
SELECT id FROM t WHERE EXISTS (WITH x AS (SELECT t.id AS i) SELECT 1 FROM x WHERE i > 1)
SELECT (WITH x AS (SELECT max(a) AS m FROM t) SELECT m FROM x) AS m
SELECT t.id FROM t JOIN u
SELECT t.id, u.x FROM t JOIN u WHERE t.id = u.t_id
SELECT t.id, u.x FROM t, u ON t.id = u.t_id
SELECT t.id, u.x, few.a FROM t LEFT JOIN u ON u.t_id = t.id LEFT JOIN few ON few.a = t.a
SELECT t.id, u.x FROM t NATURAL LEFT OUTER JOIN u
SELECT t.id, u.x FROM t NATURAL INNER JOIN u
SELECT t.id, u.x FROM t NATURAL CROSS JOIN u
SELECT t.id, u.x FROM u NATURAL FULL OUTER JOIN t
SELECT t.id, u.x FROM t LEFT NATURAL JOIN u
SELECT t.id, u.x FROM t OUTER LEFT JOIN u ON t.id = u.t_id
SELECT id, x FROM t RIGHT OUTER JOIN u USING (id)
SELECT id, x FROM t FULL JOIN u USING (id)
SELECT t.id AS i, u.id AS j, few.a FROM t JOIN u USING (id) CROSS JOIN few
SELECT t.id FROM (t JOIN u USING (id)) JOIN few ON few.a = t.a
SELECT x.id FROM (t) AS x
SELECT x.id FROM ((t)) x
SELECT id FROM (t CROSS JOIN few)
SELECT q.id FROM (SELECT * FROM t, few WHERE t.a = few.a) q
SELECT id FROM t AS "from"
SELECT "from".id FROM t "from"
SELECT t.id FROM t t
SELECT main.t.id FROM main.t
SELECT "main"."t"."id" FROM "main"."t"
SELECT 't'.id FROM t
SELECT id FROM 't'
SELECT T.ID, A FROM T
SELECT id FROM t WHERE "a" = 1 AND [b] = 'one' AND `c` > 0
SELECT id FROM t AS x INDEXED BY t_a WHERE a > 0
SELECT x.id FROM t x NOT INDEXED
SELECT a, count(*) FROM t GROUP BY a
SELECT a, b, count(*) FROM t GROUP BY a, b HAVING b > 'a'
SELECT a FROM t GROUP BY a HAVING a
SELECT a + 0 AS a FROM t GROUP BY a
SELECT sum(a) FROM t GROUP BY 'const'
SELECT sum(a) FROM t GROUP BY NULL
SELECT group_concat(b, a) FROM t
SELECT count(DISTINCT a) FILTER (WHERE b IS NOT NULL) AS n FROM t
SELECT sum(a) FILTER (WHERE a > 1) AS s, max(b) FILTER (WHERE 0) AS m FROM t
SELECT min(a), max(a), b FROM t
SELECT DISTINCT * FROM few
SELECT ALL * FROM few
SELECT count(*) FILTER (WHERE a = 1) * 1.0 / count(*) AS share FROM t
SELECT id, count(*) OVER (PARTITION BY a) AS n FROM t ORDER BY n, id
SELECT id, sum(a) OVER (ORDER BY id RANGE CURRENT ROW) AS s FROM t
SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS s FROM t
SELECT id, group_concat(b) OVER (ORDER BY id GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE NO OTHERS) AS s FROM t
SELECT id, lag(b, 2) OVER win AS l FROM t WINDOW win AS (ORDER BY id), other AS (PARTITION BY a)
SELECT id, sum(count(*)) OVER () AS s FROM t GROUP BY id
SELECT id, row_number() OVER (ORDER BY a, id) FROM t WHERE a IN (1, 2) ORDER BY 2 LIMIT 1
SELECT id, last_value(b) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM t
SELECT avg(a) FILTER (WHERE a > 0) OVER (PARTITION BY b COLLATE NOCASE) AS v FROM t
SELECT CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id) THEN 'y' ELSE 'n' END AS e FROM t
SELECT CASE a WHEN 1 THEN NULL END IS NULL AS e FROM t
SELECT CAST(b AS BLOB) AS x, CAST(c AS INT) AS y, CAST(a AS "DECIMAL(10,2)") AS z, CAST(a AS) AS w FROM t
SELECT CAST(a AS VARCHAR(10)) AS x, CAST(a AS UNSIGNED BIG INT) AS y, CAST(a AS DOUBLE PRECISION) AS z FROM t
SELECT id FROM t WHERE b LIKE 'T%' ESCAPE 'x'
SELECT id FROM t WHERE b LIKE '%' || 'o' || '%'
SELECT id FROM t WHERE NOT b LIKE 'o%' OR b GLOB '[Tt]*'
SELECT id, b -> '$' AS x FROM (SELECT id, j AS b FROM t)
SELECT id, j ->> '$.x' AS x, j -> 'list' -> 0 AS y FROM t
SELECT t.id, e.key, e.value, e.type, e.fullkey FROM t, json_each(j) e
SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM json_each(t.j, '$.list') WHERE value = 1)
SELECT value FROM t, json_tree(t.j, '$.list') WHERE type = 'integer'
SELECT t.id, (SELECT group_concat(value) FROM json_each(t.j, '$.list')) AS l FROM t
SELECT id, strftime('%d/%m/%Y', '2024-01-01', '+1 day', 'start of month', 'weekday 0') AS s FROM t
SELECT id, datetime('2024-01-01 12:00', 'utc') AS s FROM t
SELECT id, datetime('2024-01-01 12:00', 'localtime') AS s FROM t
SELECT id, date('2024-01-01', 'subsec') AS s FROM t
SELECT id, likely(a) AS l, unlikely(a) AS u FROM t
SELECT id, printf('%,d %q %Q %w %5.2f %c %x', a, b, b, b, c, b, a) AS p FROM t
SELECT id, trim(b, ' o'), soundex(b), char(), char(9731) FROM t
SELECT id, round(c), round(c, -1), ceil(c), floor(c), trunc(c), mod(c, 2), pi(), log(10, c), log2(a) FROM t
SELECT id, sign(c), acos(0.5), degrees(c), pow(c, 2), sqrt(c), exp(1), ln(c) FROM t
SELECT id, instr(d, x'01') AS i, hex(d) AS h, length(d) AS l, substr(d, -1) AS s FROM t
SELECT id, "t"."b" || 'x' AS y FROM t WHERE "b" || 'x' = 'onex'
SELECT id FROM t WHERE b = "no such"
SELECT id FROM t WHERE ((((a = 1))))
SELECT id FROM t WHERE a = 1 OR a = 2 AND b = 'x' OR NOT c > 1
SELECT id FROM t WHERE TRUE
SELECT id FROM t WHERE 0
SELECT id FROM t WHERE 'abc'
SELECT id FROM t WHERE NULL
SELECT id FROM t WHERE a NOT IN (1, NULL)
SELECT id FROM t WHERE NULL IN ()
SELECT id FROM t WHERE a IN (b, c, 2)
SELECT id FROM t WHERE 2 IN (a, id)
SELECT id FROM t WHERE a IN ((1), (2))
SELECT id FROM t WHERE (a, b) NOT IN (SELECT id, x FROM u)
SELECT id FROM t WHERE a IN (SELECT t_id FROM u WHERE u.id = t.id)
SELECT id FROM t WHERE id IN (SELECT id FROM v)
SELECT * FROM v ORDER BY twice DESC LIMIT 1
SELECT v.* , t.b FROM v JOIN t USING (id)
SELECT id FROM t -- end
SELECT id FROM t ; -- after
SELECT id FROM t WHERE b IN ('one', 'two') IS NOT FALSE
SELECT id FROM t WHERE a COLLATE NOCASE IN (1, 2)
SELECT id FROM t WHERE b IN ('ONE' COLLATE NOCASE)
SELECT id FROM t WHERE a << 1 | 1 & 3 = 3
SELECT id, a -> '$' AS x FROM t WHERE a IS NOT NULL
SELECT DISTINCT b COLLATE NOCASE AS b FROM t ORDER BY 1
SELECT id, abs(a) FROM t GROUP BY id HAVING max(a) > 1 ORDER BY max(c)
SELECT 1 WHERE 1
SELECT 1 AS x WHERE 0
SELECT 1 AS x ORDER BY x LIMIT 1
SELECT 1 AS x UNION ALL SELECT 2
SELECT count(*) AS n
SELECT max(1, 2) AS m
SELECT * FROM (SELECT 1 AS x)
SELECT few.a AS x, f2.a AS y FROM few, few f2
SELECT id FROM t WHERE a = (SELECT a FROM few ORDER BY a DESC LIMIT 1 OFFSET 0)
SELECT id, (SELECT x FROM u WHERE u.t_id = t.id LIMIT 1) AS x FROM t
SELECT (SELECT 1 UNION SELECT 2) AS x FROM t
SELECT id FROM t WHERE a > (SELECT a FROM few) ORDER BY (SELECT 1)
SELECT id FROM t GROUP BY id ORDER BY count(*) DESC, id LIMIT 3
SELECT total(c), sum(c), avg(c), count(c) FROM t WHERE 0
SELECT abc.* FROM (SELECT id AS "x y", a FROM t) abc
SELECT "x y" FROM (SELECT id AS "x y" FROM t)
WITH u AS (SELECT 99 AS id), q AS (SELECT id FROM main.u) SELECT id FROM q
WITH u AS (SELECT 99 AS id) SELECT main.u.id FROM main.u
WITH u AS (SELECT 99 AS id, 'z' AS x) SELECT a.id, b.x FROM main.u a LEFT JOIN u b ON b.id = a.id
WITH u AS (SELECT id FROM t) SELECT id FROM u WHERE id IN (SELECT id FROM main.u)
WITH v AS (SELECT id FROM main.v) SELECT id FROM v
SELECT rowid AS r, a FROM few
SELECT id FROM t WHERE id IN (SELECT rowid FROM few)
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
