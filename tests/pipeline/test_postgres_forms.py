"""Live queries on PostgreSQL in the forms that its users write: collected values, arrays, patterns. Followed, right.

Rows come, change and go at random; after each round every query is held against the source's own answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.followed import check_followed, database_with
from tests.support.fuzz import MULTIPLIER
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_SCHEMA = (
    "CREATE TABLE authors (id int PRIMARY KEY, name text, code char(3))",
    'CREATE TABLE books (id bigint PRIMARY KEY, author int, title varchar(20) COLLATE "C", price float8, pages int, '
    "worth numeric, sold bool, day date)",
    "CREATE TABLE notes (author int, line text)",
    "CREATE TABLE tagged (id int PRIMARY KEY, tags text[], pages int[], days date[])",
    "ALTER TABLE notes REPLICA IDENTITY FULL",
)
_COLLECTED = (
    "SELECT author, string_agg(title, ', ' ORDER BY pages DESC) AS all FROM books GROUP BY author",
    "SELECT author, string_agg(title, '' ORDER BY price NULLS FIRST, 1, title DESC) AS all FROM books GROUP BY author",
    "SELECT author, string_agg(title, '; ') FILTER (WHERE sold) AS sold, count(*) AS n FROM books GROUP BY author",
    "SELECT string_agg(DISTINCT title, ',' ORDER BY title DESC) AS titles FROM books",
    "SELECT sold, string_agg(DISTINCT title COLLATE \"C\", ',') AS titles FROM books GROUP BY sold",
    "SELECT a.name, string_agg(b.title, '/') AS all FROM authors a LEFT JOIN books b ON b.author = a.id GROUP BY a.id",
    "SELECT string_agg(code, title) AS codes FROM authors a JOIN books b ON b.author = a.id WHERE title = 'a'",
    "SELECT name, (SELECT string_agg(title, ' ' ORDER BY day) FROM books b WHERE b.author = a.id) AS t FROM authors a",
    "SELECT t.titles FROM (SELECT author, string_agg(title, ',') AS titles FROM books GROUP BY author) t "
    "WHERE t.titles LIKE '%a%'",
    "SELECT author, string_agg(line, '|' ORDER BY line COLLATE \"C\") AS lines FROM notes GROUP BY author",
    "SELECT author, string_agg(line, '|') AS lines FROM notes GROUP BY author HAVING count(*) > 1",
    "SELECT author, array_agg(pages ORDER BY id DESC) AS pages, array_agg(price) AS prices FROM books GROUP BY author",
    "SELECT array_agg(DISTINCT pages ORDER BY pages DESC NULLS LAST) AS p, array_agg(DISTINCT sold) AS s FROM books",
    "SELECT sold, array_agg(worth) AS w, array_agg(day) AS days, array_agg(title) AS titles FROM books GROUP BY sold",
    "SELECT author, bool_and(sold) AS a, bool_or(sold) FILTER (WHERE pages > 1) AS b, every(pages > 1) AS c FROM books "
    "GROUP BY author",
    "SELECT count(DISTINCT title) AS n, sum(DISTINCT pages) AS s, avg(DISTINCT pages) AS a FROM books WHERE author = 2",
)
_ARRAYS = (
    "SELECT id, tags[1] AS first, pages[2] + 1 AS next FROM tagged WHERE 'a' = ANY (tags)",
    "SELECT id FROM tagged WHERE tags @> ARRAY['a'] AND NOT pages && '{3}' ORDER BY cardinality(pages), id LIMIT 3",
    "SELECT b.id, t.id AS tagged FROM books b JOIN tagged t ON b.title = ANY (t.tags)",
    "SELECT b.id, t.id AS tagged FROM books b LEFT JOIN tagged t ON t.pages[1] = b.pages AND b.day = ANY (t.days)",
    "SELECT tags, count(*) AS n FROM tagged GROUP BY tags",
    "SELECT DISTINCT pages FROM tagged WHERE array_length(pages, 1) > 0",
    "SELECT a.id, b.id AS other FROM tagged a JOIN tagged b ON b.tags = a.tags AND b.id > a.id",
    "SELECT pages FROM tagged UNION SELECT array_agg(pages) FROM books GROUP BY author",
    "SELECT id, array_to_string(tags, '/') AS path, EXISTS (SELECT 1 FROM books b WHERE b.pages = ANY (t.pages)) AS e "
    "FROM tagged t",
    "SELECT id FROM tagged WHERE pages IN ('{1,2}', '{}') OR days[1] > '2024-01-01'",
    "SELECT t.pages[1] AS one FROM (SELECT author, array_agg(pages ORDER BY id) AS pages FROM books GROUP BY author) t",
)
_WRITTEN = (
    "SELECT b.id, a.name FROM books b JOIN authors a ON b.title LIKE '%' || a.name COLLATE \"C\" || '%'",
    "SELECT id FROM books WHERE title SIMILAR TO '(a|é)%' OR title NOT LIKE title || '_'",
    "SELECT to_char(day, 'YYYY-MM') AS month, string_agg(title, ',') AS titles FROM books GROUP BY 1",
    "SELECT id, to_char(day, 'FMDay, DD Mon') AS day FROM books WHERE to_char(day, 'Q') = '1'",
)
_QUERIES = (*_COLLECTED, *_ARRAYS, *_WRITTEN)


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    with database_with(servers[request.param], _SCHEMA) as url:
        yield url


def test_each_is_followed_and_right(url: str, tmp_path: Path) -> None:
    check_followed(url, tmp_path, _QUERIES, _write, seed=7, rounds=3 * MULTIPLIER)


def _write(db: psycopg.Connection[tuple[object, ...]], chance: random.Random) -> None:
    for _ in range(chance.randrange(4, 16)):
        db.execute(
            "INSERT INTO authors VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET name = excluded.name",
            (chance.randrange(4), chance.choice(["Ada", "Bob", None]), chance.choice(["x", "yz", None])),
        )
        db.execute(
            "INSERT INTO books VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET "
            "author = excluded.author, title = excluded.title, price = excluded.price, pages = excluded.pages, "
            "worth = excluded.worth, sold = excluded.sold, day = excluded.day",
            (
                chance.randrange(12),
                chance.choice([0, 1, 2, None]),
                chance.choice(["a", "b", "ab", "", "é", None]),
                chance.choice(["0", "-0", "1.5", "NaN", None]),
                chance.choice([1, 2, 3, None]),
                chance.choice(["1", "1.0", "1.00", "2.5", None]),
                chance.choice([True, False, None]),
                chance.choice(["2024-02-29", "infinity", None]),
            ),
        )
        db.execute("INSERT INTO notes VALUES (%s, %s)", (chance.randrange(3), chance.choice(["p", "q", None])))
        db.execute(
            "INSERT INTO tagged VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET tags = excluded.tags, "
            "pages = excluded.pages",
            (
                chance.randrange(8),
                chance.choice([[], ["a"], ["b", None], ["a", "é", "b"], None]),
                chance.choice([[], [1, 2], [2, None], [[1, 2], [3, 3]], None]),
                chance.choice(["{2024-02-29}", "{infinity,NULL}", None]),
            ),
        )
    db.execute("DELETE FROM books WHERE id = %s", (chance.randrange(12),))
    db.execute("DELETE FROM notes WHERE author = %s", (chance.randrange(6),))
    db.execute("UPDATE books SET pages = pages + 1 WHERE author = %s", (chance.randrange(3),))
