"""The recording on PostgreSQL: its types, its forms of queries, streamed and small transactions, failing rows, DDL."""

from __future__ import annotations

import random
from pathlib import Path

from tests.recorded.scenario import Query, Recording, Statement, expel, expire, plain, release
from tests.support.databases import Place
from tests.support.postgres import VERSIONS, Postgres

TRANSACTIONS = 10
SCHEMA = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'merry')",
    "CREATE TABLE authors (id int PRIMARY KEY, name text, code char(3), mood mood)",
    'CREATE TABLE books (id bigint PRIMARY KEY, author int, title varchar(20) COLLATE "C", price float8, pages int, '
    "worth numeric, sold bool, day date)",
    "CREATE TABLE notes (author int, line text)",
    "CREATE TABLE tagged (id int PRIMARY KEY, tags text[], pages int[], data jsonb, at timestamptz, ref uuid)",
    "CREATE TABLE wide (id int PRIMARY KEY, body text, amount int)",
    "CREATE TABLE many (id int PRIMARY KEY, k int, v numeric, t text)",
    "ALTER TABLE notes REPLICA IDENTITY FULL",
    "ALTER TABLE wide ALTER COLUMN body SET STORAGE EXTERNAL",
)
ONE_TABLE: tuple[Query, ...] = (
    ("SELECT * FROM authors", ()),
    ("SELECT * FROM books WHERE author = $1 ORDER BY id", (1,)),
    ("SELECT * FROM books WHERE author = $1 ORDER BY id", (2,)),
    ("SELECT id, price, pages FROM books ORDER BY price DESC NULLS LAST, id LIMIT 4 OFFSET 1", ()),
    ("SELECT id, worth * 2 AS twice, upper(title) AS t FROM books WHERE worth > 1 OR title IS NULL", ()),
    ("SELECT id, pages FROM books WHERE pages BETWEEN $1 AND $2", (1, 2)),
    ("SELECT id FROM books WHERE pages BETWEEN $1 AND $2", (2, 3)),
    ("SELECT id, title FROM books WHERE title IN ('a', 'ab') OR id = ANY (ARRAY[1, 2]::bigint[])", ()),
    ("SELECT author, line FROM notes", ()),
    ('SELECT line FROM notes WHERE author = $1 ORDER BY line COLLATE "C"', (1,)),
    ("SELECT id, tags[1] AS first, data->>'k' AS k, at, ref FROM tagged WHERE tags @> ARRAY['a'] OR id < 4", ()),
    ("SELECT id, to_char(day, 'YYYY-MM') AS month, CASE WHEN sold THEN 'x' ELSE 'y' END AS s FROM books", ()),
    ("SELECT id, length(body) AS n, amount FROM wide ORDER BY amount, id LIMIT 6", ()),
)
RELATIONAL: tuple[Query, ...] = (
    ("SELECT b.id, a.name, a.mood FROM books b JOIN authors a ON a.id = b.author", ()),
    ("SELECT a.id, b.id AS book, b.worth FROM authors a LEFT JOIN books b ON b.author = a.id ORDER BY 1, 2", ()),
    ("SELECT a.id, n.line FROM authors a FULL JOIN notes n ON n.author = a.id", ()),
    ("SELECT x.id, y.id AS other FROM books x JOIN books y ON y.author = x.author AND y.pages > x.pages", ()),
    ("SELECT author, count(*) AS n, sum(worth) AS w, avg(pages) AS p, max(day) AS d FROM books GROUP BY author", ()),
    ("SELECT author, string_agg(title, ',' ORDER BY pages DESC, id) AS all FROM books GROUP BY author", ()),
    ("SELECT count(*) AS n, sum(price) AS s, count(DISTINCT title) AS t FROM books", ()),
    ("SELECT author, array_agg(pages ORDER BY id) AS p FROM books WHERE author = $1 GROUP BY author", (1,)),
    ("SELECT DISTINCT sold, pages FROM books", ()),
    ("SELECT author FROM books UNION SELECT author FROM notes", ()),
    ("SELECT author FROM notes EXCEPT ALL SELECT author FROM books", ()),
    ("SELECT author FROM notes INTERSECT SELECT author FROM books ORDER BY 1", ()),
    ("SELECT id, name FROM authors a WHERE EXISTS (SELECT 1 FROM books b WHERE b.author = a.id AND b.sold)", ()),
    ("SELECT id FROM books WHERE author NOT IN (SELECT author FROM notes WHERE author IS NOT NULL)", ()),
    ("SELECT id, (SELECT count(*) FROM books b WHERE b.author = a.id) AS n FROM authors a", ()),
    (
        "SELECT a.name, sum(b.worth) AS w FROM authors a JOIN books b ON b.author = a.id GROUP BY a.name "
        "ORDER BY w DESC NULLS LAST, a.name LIMIT 2",
        (),
    ),
    (
        "WITH t AS (SELECT author, count(*) AS n FROM notes GROUP BY 1) "
        "SELECT b.id, t.n FROM books b JOIN t ON t.author = b.author",
        (),
    ),
)
SELECTIVE: tuple[Query, ...] = (
    ("SELECT a.id, quote_ident(a.name) AS q, a.code FROM authors a WHERE quote_literal(a.name) <> '''Bob'''", ()),
    ("SELECT a.id, b.id AS book, to_hex(b.pages) AS h FROM authors a LEFT JOIN books b ON b.author = a.id", ()),
)
REQUERIED: tuple[Query, ...] = (
    ("SELECT id, rank() OVER (ORDER BY price DESC NULLS LAST, id) AS place FROM books ORDER BY place LIMIT 5", ()),
)
FAILING: tuple[Query, ...] = (
    ("SELECT id, 10 / amount AS q FROM wide WHERE id > $1", (0,)),
    ("SELECT id, 10 / amount AS q FROM wide WHERE id > $1", (2,)),
    ("SELECT w.id, a.id AS author FROM wide w LEFT JOIN authors a ON a.id = w.id AND w.amount + 1 > a.id", ()),
    ("SELECT max(10 / amount) AS m FROM wide", ()),
)
MANY: tuple[Query, ...] = (
    ("SELECT k, count(*) AS n, sum(v) AS s, max(t) AS m FROM many GROUP BY k", ()),
    ("SELECT id, v FROM many WHERE k <> 2 ORDER BY v DESC, id LIMIT 5 OFFSET 2", ()),
    ("SELECT id, v * 2 AS w, upper(t) AS t FROM many WHERE id = $1", (77,)),
    ("SELECT a.id, count(*) AS c FROM authors a JOIN many m ON m.k = a.id AND m.v > 5 GROUP BY a.id", ()),
)
_INSERT_MANY = (
    "INSERT INTO many SELECT i, i % 5, (i * 7919 % 10007) / 8.0, 't' || i % 9 FROM generate_series(1, 5000) i"
)


def record(directory: Path) -> Path:
    """Its data directory."""
    server = Postgres(VERSIONS[-1])
    try:
        server.start()
        with server.database() as database:
            with server.connect(database) as db:
                for statement in SCHEMA:
                    db.execute(statement.encode())
            recording, pick = Recording(server.url(database), directory / "data"), random.Random(12)
            with recording.boot() as here:
                _first(recording, here, pick)
            with recording.boot(builds=True) as here:
                _second(recording, here, pick)
            return recording.data_dir
    finally:
        server.remove()


def _first(recording: Recording, here: Place, pick: random.Random) -> None:
    recording.write(here, *_random(pick, 20))
    queries = (*ONE_TABLE, *RELATIONAL)
    recording.write(here, *plain("INSERT INTO wide SELECT n, repeat('x', 300), n FROM generate_series(1, 5) n"))
    recording.subscribe(here, queries[::2])
    recording.subscribe(here, FAILING)
    for _ in range(TRANSACTIONS):
        recording.write(here, *_random(pick, pick.choice((1, 1, 2, 4))))
    recording.subscribe(here, queries[1::2])
    recording.subscribe(here, SELECTIVE, "selective")
    recording.subscribe(here, REQUERIED, "requery")
    recording.write(here, *plain("INSERT INTO wide SELECT n, repeat('y', 300), n FROM generate_series(6, 60) n"))
    recording.write(here, *plain("UPDATE wide SET amount = amount + 1 WHERE id < 40"))
    recording.write(
        here, *plain("UPDATE wide SET amount = 0 WHERE id = 1", "UPDATE wide SET amount = 2147483647 WHERE id = 2")
    )
    recording.write(here, *plain("UPDATE wide SET amount = 5 WHERE id < 3"))
    recording.write(here, *plain("UPDATE books SET id = id + 100 WHERE id < 4"))
    recording.write(here, *plain("DELETE FROM wide WHERE id > 5"))
    recording.subscribe(here, MANY)
    recording.write(here, *plain(_INSERT_MANY))
    recording.write(here, *plain("UPDATE many SET v = v + 1 WHERE id < 200", "DELETE FROM many WHERE id > 3000"))
    recording.unsubscribe(8)
    release(here)
    recording.write(here, *_random(pick, 2))


def _second(recording: Recording, here: Place, pick: random.Random) -> None:
    queries = (*ONE_TABLE, *RELATIONAL)
    recording.subscribe(here, queries[:10:2])
    recording.write(here, *_random(pick, 2))
    expire(here)
    recording.subscribe(here, (*queries[1::3], *MANY))
    recording.subscribe(here, SELECTIVE[:1], "selective")
    for _ in range(TRANSACTIONS // 2):
        recording.write(here, *_random(pick, pick.choice((1, 2, 4))))
    recording.write(here, *plain("ALTER TABLE authors ADD COLUMN extra text DEFAULT 'none'"))
    recording.write(here, *plain("UPDATE authors SET extra = 'some' WHERE id = 1"))
    recording.write(here, *plain("TRUNCATE notes"))
    recording.write(here, *_random(pick, 3))
    recording.write(here, *plain("ALTER TABLE books ALTER COLUMN pages TYPE bigint"))
    recording.write(here, *_random(pick, 1))
    recording.write(here, *plain("DROP TABLE tagged"))
    recording.write(here, *plain("DELETE FROM authors"))
    expel(here)


def _random(pick: random.Random, count: int) -> list[Statement]:
    return [pick.choice((_author, _book, _book, _note, _tagged, _gone))(pick) for _ in range(count)]


def _author(pick: random.Random) -> Statement:
    row = (
        pick.randrange(4),
        pick.choice(["Ada", "Bob", "Cy", None]),
        pick.choice(["x", "yz", None]),
        pick.choice(["sad", "ok", "merry", None]),
    )
    sql = (
        "INSERT INTO authors VALUES ($1, $2, $3, $4::mood) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name, mood = excluded.mood"
    )
    return sql, row


def _book(pick: random.Random) -> Statement:
    row = (
        pick.randrange(12),
        pick.choice([0, 1, 2, None]),
        pick.choice(["a", "b", "ab", "", "é", None]),
        pick.choice(["0", "-0", "1.5", "NaN", None]),
        pick.choice([1, 2, 3, None]),
        pick.choice(["1", "1.0", "1.00", "2.5", "12345678901234567890.5", None]),
        pick.choice([True, False, None]),
        pick.choice(["2024-02-29", "infinity", None]),
    )
    sql = (
        "INSERT INTO books VALUES ($1, $2, $3, $4::text::float8, $5, $6::text::numeric, $7, $8::text::date) "
        "ON CONFLICT (id) DO UPDATE SET author = excluded.author, title = excluded.title, price = excluded.price, "
        "pages = excluded.pages, worth = excluded.worth, sold = excluded.sold, day = excluded.day"
    )
    return sql, row


def _note(pick: random.Random) -> Statement:
    return "INSERT INTO notes VALUES ($1, $2)", (pick.randrange(3), pick.choice(["p", "q", None]))


def _tagged(pick: random.Random) -> Statement:
    row = (
        pick.randrange(8),
        pick.choice(["{}", "{a}", "{b,NULL}", "{a,é,b}", None]),
        pick.choice(["{}", "{1,2}", "{2,NULL}", "{{1,2},{3,3}}", None]),
        pick.choice(['{"k": 1}', '{"k": "v", "l": [1, null]}', "[]", None]),
        pick.choice(["2024-02-29 12:00:00+01", "-infinity", None]),
        pick.choice(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None]),
    )
    sql = (
        "INSERT INTO tagged VALUES ($1, $2::text::text[], $3::text::int[], $4::text::jsonb, $5::text::timestamptz, "
        "$6::text::uuid) ON CONFLICT (id) DO UPDATE SET tags = excluded.tags, pages = excluded.pages, "
        "data = excluded.data, at = excluded.at"
    )
    return sql, row


def _gone(pick: random.Random) -> Statement:
    return pick.choice(
        [
            ("DELETE FROM books WHERE id = $1", (pick.randrange(12),)),
            ("DELETE FROM notes WHERE author = $1", (pick.randrange(3),)),
            ("UPDATE books SET pages = pages + 1 WHERE author = $1", (pick.randrange(3),)),
            ("UPDATE notes SET line = 'r' WHERE author = $1", (pick.randrange(3),)),
        ]
    )
