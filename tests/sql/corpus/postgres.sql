-- Valid SELECTs of PostgreSQL, one a line. A line `-- refused: words` says why the next one cannot be live.

-- expressions and literals
SELECT 1 AS one
SELECT 1 AS one FROM t
SELECT 0.5 AS half, 1e3 AS big, .5 AS small, 'it''s' AS quote, NULL AS nothing FROM few
SELECT E'a\nb' AS escaped, $$dollar 'quoted'$$ AS dollars, $tag$a $$ b$tag$ AS tagged, U&'d\0061ta' AS unicode FROM few
SELECT U&'d!0061t!+000061' UESCAPE '!' AS unicode FROM few
SELECT B'101' AS bits, X'1F' AS hex FROM few
SELECT TRUE AS yes, FALSE AS no FROM few
SELECT id, a + 1 AS n, a - 1 AS m, a * 2 AS p, a / 2 AS q, a % 2 AS r, a ^ 2 AS s FROM t
SELECT id, a & 1 AS x, a | 4 AS y, a # 1 AS z, ~a AS w, a << 2 AS v, a >> 1 AS u FROM t
SELECT id, |/ c AS root, @ (-a) AS size, - a AS minus FROM t
SELECT id, b || '-' || a AS joined FROM t
SELECT id FROM t WHERE a <> 1 AND a != 3
SELECT id FROM t WHERE a IS DISTINCT FROM 1
SELECT id FROM t WHERE a IS NOT DISTINCT FROM 1
SELECT id FROM t WHERE b ISNULL
SELECT id FROM t WHERE b NOTNULL
SELECT id FROM t WHERE a BETWEEN 1 AND 3
SELECT id FROM t WHERE a BETWEEN SYMMETRIC 3 AND 1
SELECT id FROM t WHERE a NOT BETWEEN 1 AND 2
SELECT id FROM t WHERE a IN (1, 2)
SELECT id FROM t WHERE a NOT IN (SELECT a FROM few)
SELECT id FROM t WHERE a = ANY (ARRAY[1, 2])
SELECT id FROM t WHERE a = ANY ('{1,2}'::int[])
SELECT id FROM t WHERE a = SOME (SELECT a FROM few)
SELECT id FROM t WHERE a > ALL (SELECT a FROM few)
SELECT id FROM t WHERE (id, a) = (1, 1)
SELECT id FROM t WHERE ROW(id, a) < ROW(2, 3)
SELECT id FROM t WHERE (id, a) IN (SELECT t_id, id FROM u)
SELECT id FROM t WHERE (id, a) IN (VALUES (1, 1), (2, 2))
SELECT id FROM t WHERE (a, b) IS NOT NULL
SELECT id FROM t WHERE EXISTS (SELECT FROM u WHERE t_id = t.id)
SELECT id, (SELECT count(*) FROM u WHERE t_id = t.id) AS n FROM t
SELECT id, ARRAY(SELECT u.id FROM u WHERE t_id = t.id ORDER BY u.id) AS ids FROM t
SELECT id, CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END AS word FROM t
SELECT id, CASE WHEN a > 1 THEN a END AS some FROM t
SELECT id, CAST(a AS text) AS x, a::text AS y, text 'word' AS z, int4 '7' AS w FROM t
SELECT id, a::numeric(10, 2) AS x, b::varchar(2) AS y, float8(a) AS z FROM t
SELECT id FROM t WHERE b LIKE 'o%'
SELECT id FROM t WHERE b ILIKE 'O%'
SELECT id FROM t WHERE b NOT LIKE 'o\%' ESCAPE '\'
SELECT id FROM t WHERE b SIMILAR TO '(o|t)%'
SELECT id FROM t WHERE b ~ '^o' OR b ~* '^T'
SELECT id FROM t WHERE b !~ '^o' AND b !~* '^x'
SELECT id FROM t WHERE b ^@ 'o'
SELECT id FROM t WHERE b ~~ 'o%'
SELECT id FROM t WHERE b COLLATE "C" < 'p'
SELECT id FROM t ORDER BY b COLLATE "C" DESC NULLS LAST, id
SELECT id, substring(b from 1 for 2) AS x, substring(b for 2) AS y, substring(b from 2) AS z FROM t
SELECT id, substring(b from '^.') AS x, substring(b similar 't#"w#"%' escape '#') AS y FROM t
SELECT id, position('o' in b) AS x, overlay(b placing 'XX' from 2 for 1) AS y FROM t
SELECT id, trim(both 'o' from b) AS x, trim(leading from b) AS y, trim(b, 'e') AS z FROM t
SELECT id, extract(year from at) AS x, extract(epoch from day) AS y, date_part('month', at) AS z FROM t
SELECT id, at AT TIME ZONE 'UTC' AS x, timezone('UTC', at) AS y FROM t
SELECT id, at + interval '1 day 2 hours' AS x, at - interval '1' month AS y FROM t
SELECT id, date_trunc('month', at) AS x, day + 1 AS y, make_date(2024, 2, 29) AS z FROM t
SELECT id FROM t WHERE (day, interval '1 day') OVERLAPS (date '2024-01-01', date '2024-12-31')
SELECT id, coalesce(b, 'none') AS x, nullif(a, 1) AS y, greatest(a, 2) AS z, least(a, 2) AS w FROM t
SELECT id, concat(b, a) AS x, concat_ws('-', b, a) AS y, format('%s-%I', b, 'x') AS z FROM t
SELECT id, left(b, 1) AS x, right(b, 1) AS y, lpad(b, 5, '*') AS z, repeat(b, 2) AS w, reverse(b) AS v FROM t
SELECT id, upper(b) AS x, initcap(b) AS y, md5(b) AS z, ascii(b) AS w, chr(65) AS v FROM t
SELECT id, round(n, 1) AS x, ceil(c) AS y, floor(c) AS z, trunc(c) AS w, mod(a, 2) AS v, power(a, 2) AS u FROM t
SELECT id, split_part(b, 'o', 1) AS x, translate(b, 'o', '0') AS y, regexp_replace(b, 'o', '0', 'g') AS z FROM t
SELECT id, to_char(n, '990.99') AS x, to_char(at, 'YYYY-MM-DD') AS y FROM t
SELECT id, num_nulls(a, b) AS x, width_bucket(a, 0, 10, 5) AS y FROM t
SELECT id, encode(d, 'hex') AS x, length(d) AS y FROM t
SELECT id FROM t WHERE a IS NOT NULL IS TRUE
SELECT id FROM t WHERE (a > 1) IS NOT UNKNOWN
-- names and comments
SELECT t.id, public.t.a FROM public.t
SELECT "id", "t"."a" FROM "t"
SELECT id the_id FROM t the_t
SELECT id AS "select", a AS "a ""quoted"" name" FROM t
SELECT renamed.q FROM t AS renamed (q)
SELECT größe, "naïve" FROM maße
SELECT U&"\0069d" FROM t
SELECT /* outer /* inner */ still */ id FROM t
SELECT id FROM t -- a comment
SELECT id FROM t;
SELECT ALL id FROM t
SELECT t.* FROM t
SELECT *, a + 1 AS more FROM t
SELECT id FROM ONLY t
SELECT id FROM t *
TABLE u
(SELECT id FROM t)
-- order and limit
SELECT id FROM t ORDER BY 1 DESC
SELECT id, a AS n FROM t ORDER BY n, id
SELECT id FROM t ORDER BY a USING >, id
SELECT id FROM t ORDER BY a DESC NULLS FIRST, id ASC NULLS LAST
SELECT id FROM t ORDER BY id LIMIT 2
SELECT id FROM t ORDER BY id LIMIT 2 OFFSET 1
SELECT id FROM t ORDER BY id OFFSET 1 LIMIT 2
SELECT id FROM t ORDER BY id LIMIT ALL
SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS ONLY
SELECT id FROM t ORDER BY id OFFSET 1 ROW FETCH NEXT ROW ONLY
SELECT id FROM t ORDER BY a FETCH FIRST 2 ROWS WITH TIES
SELECT id FROM t ORDER BY id LIMIT (SELECT count(*) FROM few)
-- joins
SELECT t.id, u.x FROM t, u WHERE t.id = u.t_id
SELECT t.id, u.x FROM t JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t LEFT OUTER JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t RIGHT JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t FULL JOIN u ON t.id = u.t_id
SELECT t.id, u.x FROM t CROSS JOIN u
SELECT id, b, x FROM t NATURAL JOIN u
SELECT id, x FROM t JOIN u USING (id)
SELECT id, x FROM t FULL JOIN u USING (id)
SELECT j.id FROM t JOIN u USING (id) AS j
SELECT t.id, v.x FROM t JOIN (u AS v JOIN few ON few.a = v.id) ON t.id = v.t_id
SELECT t.id, s.n FROM t, LATERAL (SELECT count(*) AS n FROM u WHERE u.t_id = t.id) AS s
SELECT t.id, s.x FROM t LEFT JOIN LATERAL (SELECT x FROM u WHERE u.t_id = t.id ORDER BY x LIMIT 1) s ON true
SELECT one.id, two.id AS other FROM t one JOIN t two ON one.a < two.a
SELECT id FROM (SELECT id, a FROM t WHERE a > 1) AS s
SELECT s.w FROM (VALUES (1, 'a'), (2, 'b')) AS s (n, w) JOIN few ON few.a = s.n
VALUES ((SELECT count(*) FROM t), 2), (3, 4)
SELECT t.id, tag FROM t, unnest(t.tags) AS tag
SELECT t.id, tag, place FROM t CROSS JOIN unnest(t.tags) WITH ORDINALITY AS s (tag, place)
SELECT s FROM generate_series(1, (SELECT max(a) FROM few)) AS s
SELECT t.id, s FROM t, generate_series(1, t.a) AS s
SELECT s.q, s.r FROM few, ROWS FROM (generate_series(1, 2), generate_series(1, few.a)) AS s (q, r)
-- refused: different rows every time
SELECT id FROM t TABLESAMPLE BERNOULLI (50)
-- groups
SELECT a, count(*) AS n FROM t GROUP BY a
SELECT count(ALL a) AS n FROM t
SELECT count(DISTINCT a) AS n, sum(DISTINCT a) AS s FROM t
SELECT sum(a) AS s, avg(a) AS v, min(b) AS x, max(b) AS y FROM t
SELECT a, array_agg(id ORDER BY id DESC) AS ids, string_agg(b, ', ' ORDER BY id) AS words FROM t GROUP BY a
SELECT count(*) FILTER (WHERE a > 1) AS n FROM t
SELECT a, count(*) AS n FROM t GROUP BY a HAVING count(*) > 1
SELECT a % 2 AS parity, count(*) AS n FROM t GROUP BY 1 ORDER BY 2, 1
SELECT a, b, count(*) AS n FROM t GROUP BY GROUPING SETS ((a), (b), ())
SELECT a, b, count(*) AS n, grouping(a, b) AS g FROM t GROUP BY ROLLUP (a, b)
SELECT a, b, count(*) AS n FROM t GROUP BY CUBE (a, b)
SELECT a, b, count(*) AS n FROM t GROUP BY DISTINCT ROLLUP (a), ROLLUP (b)
SELECT t.id, t.b, count(u.id) AS n FROM t LEFT JOIN u ON u.t_id = t.id GROUP BY t.id
SELECT DISTINCT a FROM t
SELECT DISTINCT ON (a) a, id FROM t ORDER BY a, id DESC
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) AS middle, mode() WITHIN GROUP (ORDER BY a) AS most FROM t
SELECT stddev(a) AS s, variance(a) AS v, corr(a, c) AS k, regr_count(a, c) AS r FROM t
SELECT bool_and(a > 0) AS x, bool_or(a > 2) AS y, every(a > 1) AS z, bit_or(a) AS w FROM t
SELECT json_agg(a ORDER BY id) AS x, jsonb_object_agg(id, a) AS y FROM t
SELECT sum(a) AS s FROM t HAVING sum(a) > 0
-- windows
SELECT id, row_number() OVER (ORDER BY id) AS n FROM t
SELECT id, rank() OVER (ORDER BY a) AS r, dense_rank() OVER (ORDER BY a) AS d FROM t
SELECT id, sum(a) OVER (PARTITION BY b ORDER BY id) AS s FROM t
SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t
SELECT id, sum(a) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS s FROM t
SELECT id, lag(a, 1, 0) OVER w AS l, lead(a) OVER w AS m FROM t WINDOW w AS (ORDER BY id)
SELECT id, first_value(b) OVER (w ROWS UNBOUNDED PRECEDING) AS f FROM t WINDOW w AS (PARTITION BY a ORDER BY id)
SELECT id, ntile(2) OVER (ORDER BY id) AS n, nth_value(a, 2) OVER (ORDER BY id) AS v FROM t
SELECT id, count(*) FILTER (WHERE a > 1) OVER () AS n FROM t
SELECT id, percent_rank() OVER (ORDER BY a) AS p, cume_dist() OVER (ORDER BY a) AS c FROM t
-- sets
SELECT id FROM t UNION SELECT id FROM u
SELECT id FROM t UNION ALL SELECT id FROM u
SELECT id FROM t INTERSECT SELECT t_id FROM u
SELECT id FROM t EXCEPT ALL SELECT t_id FROM u
(SELECT id FROM t ORDER BY id LIMIT 1) UNION ALL (SELECT id FROM u ORDER BY id LIMIT 1)
SELECT id FROM t UNION SELECT id FROM u ORDER BY id DESC LIMIT 3
SELECT id FROM t UNION VALUES (99)
SELECT id FROM t UNION TABLE few
-- with
WITH one AS (SELECT id, a FROM t) SELECT id FROM one WHERE a = 1
WITH one(n) AS (SELECT id FROM t), two(m) AS (SELECT n FROM one WHERE n > 1) SELECT m FROM two
WITH one AS MATERIALIZED (SELECT id FROM t) SELECT id FROM one
WITH one AS NOT MATERIALIZED (SELECT id FROM t) SELECT id FROM one
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT x FROM n JOIN few ON a = x
WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 3) SEARCH DEPTH FIRST BY x SET o SELECT x FROM n, few ORDER BY o
WITH RECURSIVE w(id) AS (SELECT id FROM t WHERE a = 1 UNION SELECT u.id FROM u JOIN w ON w.id = u.t_id) SELECT id FROM w
-- json, arrays, ranges, text search
SELECT id, j -> 'x' AS x, j ->> 'x' AS y, j #> '{list,0}' AS z, j #>> '{list,0}' AS w FROM t
SELECT id FROM t WHERE j ? 'x'
SELECT id FROM t WHERE j ?| ARRAY['x', 'y'] OR j ?& ARRAY['list']
SELECT id FROM t WHERE j @> '{"x": 1}' OR j @? '$.list[*] ? (@ > 2)' OR j @@ '$.x == 1'
SELECT id, jsonb_path_query_first(j, '$.list[0]') AS x, jsonb_typeof(j) AS y, jsonb_array_length(j -> 'list') AS z FROM t WHERE j ? 'list'
SELECT t.id, e.key FROM t, jsonb_each(t.j) AS e
SELECT t.id, e.value FROM t CROSS JOIN LATERAL jsonb_array_elements(t.j -> 'list') AS e
SELECT r.x FROM t, jsonb_to_record(t.j) AS r (x text)
SELECT id, j - 'x' AS x, j || '{"y": 1}' AS y, j['x'] AS z FROM t
SELECT id, tags[1] AS x, tags[1:2] AS y, tags || 'z'::text AS z, array_length(tags, 1) AS w, cardinality(tags) AS v FROM t
SELECT id, ARRAY[a, 2] AS x, ARRAY[[1, 2], [3, 4]] AS y, '{1,2}'::int[] AS z FROM t
SELECT id FROM t WHERE tags @> ARRAY['a'] AND tags && ARRAY['a', 'b']
SELECT id FROM t WHERE int4range(1, 3) @> a
SELECT id, int4range(1, a, '[]') AS r FROM t
SELECT id FROM t WHERE to_tsvector('simple', b) @@ to_tsquery('simple', 'one | two')
SELECT id, ROW(a, b) AS r FROM t
SELECT id, (SELECT s.a FROM (SELECT t.a, t.b) AS s) AS r FROM t
-- odd, and valid
SELECT 1
SELECT 1 AS one, 'x' AS two
SELECT 1 AS x UNION ALL SELECT 2
VALUES (1), (2)
VALUES (1, 'a') ORDER BY 1 DESC
SELECT * FROM (VALUES (1, 'a')) AS v(n, w)
SELECT unnest(ARRAY[1, 2]) AS u
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT sum(x) AS s FROM n
SELECT id, (a, b) AS r FROM t
SELECT ROW(id, a) = ROW(1, 1) AS same FROM t
SELECT t FROM t
SELECT t AS whole, id FROM t
SELECT u.*::text AS x FROM u
SELECT (u).x FROM u
SELECT (u).* FROM u
SELECT row_to_json(u) AS j FROM u
SELECT to_jsonb(u) - 'x' AS j FROM u
SELECT json_agg(u) AS j FROM u
SELECT jsonb_agg(u ORDER BY u.id) AS j FROM u
SELECT array_agg(u ORDER BY u) AS j FROM u
SELECT count(u) AS n, count(u.*) AS m FROM u
SELECT DISTINCT u FROM u
SELECT u IS NULL AS n FROM u
SELECT id FROM u WHERE u IS NOT NULL
SELECT id FROM u WHERE u = ROW(1, 1, 'a')::u
SELECT id FROM t WHERE t.* IS DISTINCT FROM NULL
SELECT FROM t
SELECT id, pg_typeof(a) AS ty FROM t
SELECT id, pg_typeof(a)::text AS ty FROM t
SELECT id, pg_size_pretty(a::bigint) AS ty FROM t
SELECT id, pg_input_is_valid(b, 'integer') AS ty FROM t
SELECT id, pg_collation_for(b) AS ty FROM t
SELECT id, format_type(23, NULL) AS ty FROM t
SELECT id, 'int4'::regtype AS ty FROM t
SELECT id, 't'::regclass AS ty FROM t
SELECT id, a AS "int", b AS "Select" FROM t
SELECT id, a AS value, b name FROM t
SELECT id AS "ünï" FROM t
SELECT "t"."id" AS "a.b" FROM "public"."t" AS "t"
SELECT id FROM t AS x(id, q) WHERE q = 1
SELECT x.q FROM t x(p, q)
SELECT * FROM u AS x(p)
SELECT DISTINCT ON (a) id, a FROM t ORDER BY a, id
SELECT DISTINCT ON (a, b) a, b, id FROM t ORDER BY a, b, id DESC
SELECT DISTINCT ON (a % 2) id FROM t ORDER BY a % 2, id
SELECT a FROM t GROUP BY DISTINCT a
SELECT a FROM t GROUP BY ALL a
SELECT a, count(*) FROM t GROUP BY (a)
SELECT a, b, count(*) FROM t GROUP BY (a, b)
SELECT count(*) AS n FROM t GROUP BY ()
SELECT a, grouping(a) AS g, count(*) AS n FROM t GROUP BY GROUPING SETS (a, ())
SELECT a, b, sum(c) AS s FROM t GROUP BY a, CUBE(b), ROLLUP(a)
SELECT a, count(*) AS n FROM t GROUP BY ROLLUP(a) HAVING grouping(a) = 0 OR count(*) > 1 ORDER BY a NULLS FIRST
SELECT sum(a) FILTER (WHERE b LIKE 't%') AS s, array_agg(DISTINCT a ORDER BY a DESC) AS g FROM t
SELECT string_agg(DISTINCT b, ',' ORDER BY b) AS s FROM t
SELECT percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY c) AS p FROM t
SELECT rank(2) WITHIN GROUP (ORDER BY a) AS r, cume_dist(2) WITHIN GROUP (ORDER BY a) AS c FROM t
SELECT json_object_agg(id, b) AS o, jsonb_object_agg(b, a) FILTER (WHERE b IS NOT NULL) AS p FROM t
SELECT t.id, x.v FROM t, JSON_TABLE(t.j, '$.list[*]' COLUMNS (v int PATH '$')) x
SELECT id, JSON_VALUE(j, '$.x') AS v, JSON_QUERY(j, '$.list') AS q, JSON_EXISTS(j, '$.x') AS e FROM t
SELECT id, JSON_OBJECT('a': a, 'b' VALUE b ABSENT ON NULL) AS o, JSON_ARRAY(a, b NULL ON NULL) AS r FROM t
SELECT id, JSON_OBJECTAGG(b: a) AS o FROM t WHERE b IS NOT NULL GROUP BY id
SELECT JSON_ARRAYAGG(a ORDER BY id) AS r FROM t
SELECT id, j IS JSON OBJECT AS o, b IS JSON AS p FROM t
SELECT id, JSON_SCALAR(a) AS s, JSON_SERIALIZE(j RETURNING text) AS z FROM t
SELECT id, j['list'][0] AS v, j -> 'list' -> 0 AS w FROM t
SELECT id FROM t WHERE a = ANY (SELECT a FROM few)
SELECT id FROM t WHERE a = ANY (ARRAY(SELECT a FROM few))
SELECT id FROM t WHERE (a, id) = ANY (SELECT a, a FROM few)
SELECT id FROM t WHERE b LIKE ANY (ARRAY['o%', 't%'])
SELECT id FROM t WHERE a <> ALL (ARRAY[1, 2])
SELECT id FROM t WHERE a NOT IN (1, NULL)
SELECT id FROM t WHERE NOT a = 1 IS TRUE
SELECT id FROM t WHERE a IS DISTINCT FROM NULL
SELECT id FROM t WHERE b IS NFC NORMALIZED
SELECT id, normalize(b, NFKC) AS n FROM t
SELECT id, a OPERATOR(pg_catalog.+) 1 AS n FROM t
SELECT id, b || NULL AS n, NULL::int AS m FROM t
SELECT id, +a AS p, -a AS m, - - a AS q FROM t
SELECT id, a::int::text::varchar(1) AS s FROM t
SELECT id, CAST(a AS double precision) AS s, a::decimal(5) AS d, a::"char" AS e FROM t
SELECT id, bigint '1' AS s, date '2024-01-01' AS d, interval '1' day AS i, interval '1 2:03' day to minute AS k FROM t
SELECT id, timestamp with time zone '2024-01-01 00:00+01' AS s, time '12:00' AS q FROM t
SELECT id, 1_000 AS n, 0x1F AS h, 0o17 AS o, 0b11 AS b2 FROM t
SELECT id, $x$it's$x$ AS s, E'\u0041' AS u FROM t
SELECT id, extract(dow FROM at) AS d, extract(isoyear from day) AS e, at::date AS f FROM t
SELECT id, at AT LOCAL AS l FROM t
SELECT id, at - '2020-01-01'::timestamptz AS d, age(at, '2020-01-01') AS g FROM t
SELECT id, justify_days(interval '40 days') AS j, make_interval(days => a) AS k FROM t
SELECT id, lpad(b, 5) AS l, overlay(b PLACING 'x' FROM 1) AS o, btrim(b) AS r FROM t
SELECT id, regexp_match(b, '(o)(.)') AS m, regexp_count(b, 'o') AS n, regexp_substr(b, 'o.') AS s FROM t
SELECT id, (regexp_match(b, '(o)(.)'))[1] AS m FROM t
SELECT id, regexp_matches(b, 'o', 'g') AS m FROM t
SELECT id, regexp_split_to_table(b, 'o') AS m FROM t
SELECT id, unnest(tags) AS tag, generate_series(1, 2) AS g FROM t
SELECT id, string_to_array(b, 'o') AS s, array_to_string(tags, ',', '-') AS q FROM t
SELECT id, tags[2:] AS s, tags[:1] AS q, array_position(tags, 'a') AS p, array_remove(tags, 'a') AS r FROM t
SELECT id, ARRAY[]::int[] AS e, '{}'::text[] || tags AS q FROM t
SELECT id, concat(VARIADIC ARRAY['a', b]) AS c FROM t
SELECT id, make_date(year => 2024, month => 1, day => 2) AS d FROM t
SELECT id, format('%1$s %2$L', b, a) AS f FROM t
SELECT id, COALESCE(b, 'x') COLLATE "C" AS c FROM t ORDER BY 2
SELECT id FROM t ORDER BY b COLLATE "POSIX" USING ~<~
SELECT id FROM t ORDER BY a USING <, id DESC
SELECT id FROM t ORDER BY a NULLS FIRST, id OFFSET 1 FETCH NEXT 2 ROWS ONLY
SELECT id FROM t ORDER BY id LIMIT NULL OFFSET NULL
SELECT id FROM t ORDER BY id LIMIT 1 + 1 OFFSET 2 - 1
SELECT id FROM t ORDER BY id FETCH FIRST (1 + 1) ROWS ONLY
SELECT id FROM t ORDER BY a FETCH FIRST 1 ROW WITH TIES
SELECT id FROM t ORDER BY (SELECT count(*) FROM u WHERE u.t_id = t.id), id
SELECT t.id FROM t CROSS JOIN few
SELECT t.id, few.a FROM t INNER JOIN few ON t.a = few.a
SELECT t.id, x.* FROM t JOIN LATERAL (SELECT u.x FROM u WHERE u.t_id = t.id) x ON true
SELECT t.id, x FROM t LEFT JOIN LATERAL unnest(t.tags) x ON true
SELECT t.id, f.n FROM t, LATERAL ROWS FROM (generate_series(1, t.a)) WITH ORDINALITY AS f(v, n)
SELECT id, x FROM t NATURAL FULL JOIN u
SELECT id, x FROM (t JOIN u USING (id)) AS j
SELECT j.id AS i FROM t JOIN u USING (id) AS j
SELECT id, x FROM (t LEFT JOIN u USING (id)) RIGHT JOIN few ON few.a = t.a
SELECT * FROM ONLY (u)
SELECT t.id FROM public.t, public.u WHERE t.id = u.id
SELECT s.id FROM (TABLE u) AS s
SELECT s.id FROM (SELECT id FROM t)  s
SELECT id FROM (SELECT id FROM t)
((SELECT id FROM t))
(SELECT id FROM t) ORDER BY id LIMIT 1
(SELECT id FROM t LIMIT 10) UNION (SELECT id FROM u) EXCEPT (SELECT 1)
SELECT id FROM t INTERSECT ALL SELECT id FROM u
SELECT id FROM t EXCEPT DISTINCT SELECT id FROM u
SELECT id FROM t UNION DISTINCT SELECT id FROM u ORDER BY 1 FETCH FIRST ROW ONLY
SELECT id, b FROM t UNION ALL SELECT id, x FROM u UNION ALL VALUES (100, 'v')
TABLE t
TABLE ONLY u
TABLE u ORDER BY id LIMIT 1
WITH x AS (TABLE u) TABLE x
WITH x(i) AS (SELECT id FROM t) SELECT i FROM x UNION SELECT i + 100 FROM x
WITH RECURSIVE r(i, p) AS (SELECT id, ARRAY[id] FROM t WHERE a = 1 UNION ALL SELECT i + 1, p || i FROM r WHERE i < 5) SELECT * FROM r
WITH RECURSIVE r(i) AS (SELECT id FROM t UNION SELECT i / 2 FROM r WHERE i > 0) CYCLE i SET c USING p SELECT i, c FROM r
WITH RECURSIVE r(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM r WHERE i < 3) SEARCH BREADTH FIRST BY i SET o SELECT i FROM r, few
WITH x AS MATERIALIZED (SELECT count(*) AS n FROM t) SELECT n FROM x
SELECT (WITH x AS (SELECT max(a) AS m FROM t) SELECT m FROM x) AS m FROM few
SELECT id, count(*) OVER w AS c, sum(a) OVER (w ORDER BY id ROWS 1 PRECEDING) AS s FROM t WINDOW w AS (PARTITION BY a)
SELECT id, sum(a) OVER (ORDER BY at RANGE BETWEEN '1 year' PRECEDING AND CURRENT ROW) AS s FROM t
SELECT id, sum(a) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) AS s FROM t
SELECT id, rank() OVER (ORDER BY sum(c) DESC) AS r FROM t GROUP BY id
SELECT id FROM t WHERE CASE WHEN a > 0 THEN true ELSE false END
SELECT id, CASE WHEN a = 1 THEN 'x' WHEN a = 2 THEN NULL END AS c FROM t
SELECT id, a BETWEEN SYMMETRIC 3 AND 1 AS s, a NOT BETWEEN ASYMMETRIC 1 AND 2 AS q FROM t
SELECT id, GREATEST(a, 1, NULL) AS g, LEAST(a, c) AS l, NULLIF(b, 'x') AS n FROM t
SELECT id, num_nonnulls(a, b, c) AS n, a IN (1, 2) AS i FROM t
SELECT id, int4range(a, 5) * int4range(2, 9) AS r, a <@ int4range(1, 3) AS s FROM t
SELECT id, int4multirange(int4range(1, 2), int4range(4, 5)) AS r FROM t
SELECT range_agg(int4range(a, a + 2)) AS r FROM t
SELECT id, point(a, c) AS p, point(a, c) <-> point '(0,0)' AS d, box '((0,0),(1,1))' AS b2 FROM t
SELECT id, inet '10.0.0.1/8' AS i, host(inet '10.0.0.1') AS h, '08:00:2b:01:02:03'::macaddr AS m FROM t
SELECT id, to_tsvector('english', b) AS v, ts_rank(to_tsvector('english', b), to_tsquery('one')) AS r FROM t
SELECT id, b::bytea AS y, convert_to(b, 'UTF8') AS c, sha256(b::bytea) AS s, encode(d, 'base64') AS e FROM t
SELECT id, a::bit(4) AS y, B'1010' & a::bit(4) AS z FROM t
SELECT id, a::money AS y, '12.3'::money + a::money AS z FROM t
SELECT id, to_number(b, '9') AS y FROM t WHERE false
SELECT * FROM v ORDER BY twice LIMIT 1
SELECT id, sum(a) sum FROM t GROUP BY 1 HAVING true
SELECT lower(b) lower, upper(b) FROM t
SELECT id, count(*) FROM t GROUP BY id HAVING bool_and(a > 0)
SELECT a, any_value(b) AS x FROM t WHERE id = 1 GROUP BY a
SELECT stddev_pop(c) AS x, regr_slope(c, a) AS y, covar_samp(c, a) AS z FROM t
SELECT id, mod(a, 2), div(a::numeric, 2), gcd(a, 4), lcm(a, 4), factorial(3) FROM t
SELECT id, width_bucket(c, ARRAY[1.0, 2.0]::float8[]) AS x, trunc(n, 1) AS y, scale(n) AS z FROM t
SELECT id FROM t -- end
SELECT id FROM t; -- after
  SELECT id FROM t ;;
SELECT id FROM t /* a /* b */ c */ WHERE a = 1 -- z
SELECT id FROM t WHERE EXISTS (SELECT FROM u WHERE u.t_id = t.id) AND NOT EXISTS (TABLE few LIMIT 0)
SELECT EXISTS (SELECT 1 FROM t) AS e
SELECT (SELECT max(a) FROM t) AS m
SELECT ARRAY(SELECT id FROM t ORDER BY id) AS m
SELECT (SELECT u FROM u WHERE id = 1) AS m
SELECT jsonb_build_object('n', (SELECT count(*) FROM t)) AS m
SELECT id, (SELECT ROW(t.a, t.b)) AS m FROM t
SELECT id, (SELECT s FROM (SELECT t.a, t.b) s) AS m FROM t
SELECT s FROM (SELECT a, b FROM t) s
SELECT x FROM unnest(ARRAY[1, 2], ARRAY['a', 'b']) AS x
SELECT jsonb_each(j) AS e FROM t
SELECT json_each_text('{"a": 1}') AS e FROM few
SELECT * FROM jsonb_to_recordset('[{"a": 1}]') AS x(a int)
SELECT NULL AS n FROM t
SELECT NULL FROM t
WITH u AS (SELECT 99 AS id), q AS (SELECT id FROM public.u) SELECT id FROM q
WITH u AS (SELECT 99 AS id) SELECT public.u.id FROM public.u
WITH u AS (SELECT 99 AS id, 'z' AS x) SELECT a.id, b.x FROM public.u a LEFT JOIN u b ON b.id = a.id
WITH u AS (SELECT id FROM t) SELECT id FROM u WHERE id IN (SELECT id FROM public.u)
WITH t AS (SELECT * FROM public.t WHERE a > 1) SELECT id FROM t
WITH v AS (SELECT id FROM public.v) SELECT id FROM v
-- views
SELECT * FROM v
SELECT v.id, u.x FROM v JOIN u ON u.t_id = v.id
-- clocks and chance
-- refused: random
SELECT id, random() AS r FROM t
-- refused: now
SELECT id, now() AS n FROM t
-- refused: changes without
SELECT id, CURRENT_TIMESTAMP AS n FROM t
-- refused: changes without
SELECT 'now'::timestamptz AS n
-- refused: two columns
SELECT id, a AS id FROM t
