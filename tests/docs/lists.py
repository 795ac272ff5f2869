"""The lists of docs/sql.md, made from the code: which operators, casts, functions and aggregates we compute ourselves.

Functions come from the tables that the binder reads. For operators, casts and aggregates the binder itself is asked,
once for each type or pair of types. Nothing here is known by heart but the names that are tried.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from textwrap import fill

from psycopg import postgres

from headwater.dialects.bind import bind
from headwater.dialects.postgres.bind import signatures as postgres_functions
from headwater.dialects.postgres.syntax import expressions as postgres_grammar
from headwater.dialects.postgres.types.kinds import TITLES
from headwater.dialects.sqlite import functions
from headwater.dialects.sqlite.syntax import expressions as grammar
from headwater.model.errors import SqlError
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.sources.postgres.server.value_types import BUILT_IN

_WIDTH = 120
_STIFF = "\0"  # a blank at which no line is broken
_MARKED = re.compile(r"(<!-- list: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SHORT = {"bpchar": "char"}  # what a user would write, where it is not the short name that PostgreSQL itself has
_TYPES = (
    *("int2", "int4", "int8", "numeric", "float4", "float8", "bool", "text", "varchar", "bpchar", "date", "time"),
    *("timestamp", "timestamptz", "interval", "uuid", "bytea", "json", "jsonb", "inet", "_int4", "_text"),
)
_AGGREGATES = (
    *("count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every"),
    *("string_agg", "array_agg", "stddev", "variance"),
)
_FORMS = {"string_agg": "string_agg({a}, ',')"}
_PREDICATES = {
    "IS NULL": "{a} IS NULL",
    "IS TRUE": "{a} IS TRUE",
    "IS DISTINCT FROM": "{a} IS DISTINCT FROM {b}",
    "IN (…)": "{a} IN ({b}, {b})",
    "BETWEEN": "{a} BETWEEN {b} AND {b}",
    "LIKE 'constant'": "{a} LIKE 'a%'",
    "LIKE": "{a} LIKE {b}",
    "ILIKE 'constant'": "{a} ILIKE 'a%'",
    "ILIKE": "{a} ILIKE {b}",
    "GLOB": "{a} GLOB {b}",
    "COLLATE": "{a} COLLATE {collation}",
    "CASE": "CASE WHEN {a} IS NULL THEN {b} ELSE {a} END",
    "-> 'constant'": "{a} -> 'a'",
    "->> 'constant'": "{a} ->> 'a'",
    "#> 'constant'": "{a} #> '{{a,b}}'",
    "#>> 'constant'": "{a} #>> '{{a,b}}'",
    "? 'constant'": "{a} ? 'a'",
    "SIMILAR TO 'constant'": "{a} SIMILAR TO 'a%'",
    "~ 'constant'": "{a} ~ '^a'",
    "~* 'constant'": "{a} ~* '^a'",
    "NOT": "NOT {a}",
    "- before": "- {a}",
    "~ before": "~ {a}",
}
_OTHERS = (
    *("~", "~*", "!~", "!~*", "^", "&", "|", "#", "<<", ">>", "@>", "<@", "&&", "?", "#>", "#>>", "->", "->>"),
    "AT TIME ZONE",
)


def filled(page: str) -> str:
    """The page with every list made anew."""
    return _MARKED.sub(lambda found: f"{found[1]}{LISTS[found[2]]()}\n{found[3]}", page)


# SQLite


def sqlite_operators() -> str:
    table = Table("t", tuple(Column(name, Type.TEXT, "TEXT") for name in ("a", "b")))
    signs = {sign: f"{{a}} {sign} {{b}}" for sign in grammar.BINARY}
    forms = {**signs, **_PREDICATES, "CAST": "CAST({a} AS INTEGER)"}
    forms = {name: form for name, form in forms.items() if not name.endswith("'constant'")}
    known = [name for name, form in forms.items() if _bound(table, form.format(a="a", b="b", collation="NOCASE"))]
    return _paragraph(_code(known))


def sqlite_functions() -> str:
    return _paragraph(_code(sorted(function.name for function in functions.KNOWN)))


def sqlite_aggregates() -> str:
    table = Table("t", (Column("id", Type.INTEGER, "INTEGER"), Column("a", Type.INTEGER, "INTEGER")), ("id",))
    return _paragraph(_code(name for name in sorted(functions.AGGREGATES) if _bound(table, f"{name}(a)")))


# PostgreSQL


def postgres_operators() -> str:
    signs = dict.fromkeys(sign for sign in (*postgres_grammar.BINARY, *_OTHERS) if sign not in ("AND", "OR", "!="))
    told = [(sign, _pairs(f"{{a}} {sign} {{b}}")) for sign in signs]
    told += [(title, _each(form)) for title, form in _PREDICATES.items()]
    return _table(("operator", "of"), _gathered(told))


def postgres_casts() -> str:
    told = [(name, _code(other for other in _TITLES if _casts(name, other))) for name in _TITLES]
    return _table(("from", "to"), _gathered(told))


def postgres_functions_() -> str:
    rows = [(_code([name]), _signatures(forms)) for name, forms in sorted(postgres_functions.FUNCTIONS.items())]
    rows += [(_code([name]), _each(f"{name}({{a}}, {{b}})")) for name in sorted(postgres_functions.SPECIAL)]
    return _table(("function", "takes → gives"), rows)


def _signatures(forms: Iterable[postgres_functions.Signature]) -> str:
    told = (f"`{', '.join(map(_told, form.takes)) or '()'} → {_told(form.gives)}`" for form in forms)
    return ", ".join(dict.fromkeys(told))


def _told(kind: str) -> str:
    return TITLES.get(kind, kind).replace("text!", 'text COLLATE "C"')


def postgres_aggregates() -> str:
    return _table(
        ("aggregate", "of"), _gathered([(name, _each(_FORMS.get(name, f"{name}({{a}})"))) for name in _AGGREGATES])
    )


def _typed() -> Iterator[tuple[str, Column]]:
    """Every type that is tried, by the name that its users have for it."""
    for name in _TYPES:
        info = postgres.types[name.removeprefix("_")]
        array = name.startswith("_")
        title = TITLES.get(info.name) or _SHORT.get(info.name, info.name)
        declared = f"{info.regtype}[]" if array else info.regtype
        type = BUILT_IN.type_of(info.array_oid if array else info.oid)
        yield f"{title}[]" if array else title, Column("", type, declared, "C")


_TITLES = dict(_typed())
_SIDES = (replace(column, name=f"{title} {side}") for title, column in _TITLES.items() for side in "ab")
_POSTGRES = Table("t", (Column("id", Type.INTEGER, "integer"), *_SIDES), ("id",), dialect="postgres")


def _casts(name: str, other: str) -> bool:
    return name != other and _bound(_POSTGRES, f'CAST("{name} a" AS {other})')


def _asked(form: str, one: str, other: str) -> bool:
    return _bound(_POSTGRES, form.format(a=f't."{one} a"', b=f't."{other} b"', collation='"C"'))


def _each(form: str) -> str:
    """The types that go with their like."""
    return _listed([title for title in _TITLES if _asked(form, title, title)])


def _pairs(form: str) -> str:
    """Types on the left, with those that may stand on the right of them."""
    sides: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for title in _TITLES:
        others = tuple(other for other in _TITLES if _asked(form, title, other))
        if others:
            sides[others].append(title)
    return "; ".join(_sides(left, list(right)) for right, left in sides.items())


def _sides(left: list[str], right: list[str]) -> str:
    other = "each other" if left == right and len(left) > 1 else "itself" if left == right else _listed(right)
    return f"{_listed(left)} with {other}"


def _listed(titles: list[str]) -> str:
    return "every type" if len(titles) == len(_TITLES) else _code(titles)


def _gathered(told: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """One row for all of which the same is told, none where nothing is."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, text in told:
        if text:
            names[text].append(name)
    for text, alike in names.items():
        yield _code(alike), text


# Both


def _bound(table: Table, expression: str) -> bool:
    try:
        bind(f"SELECT {expression} AS x FROM t", {"t": table}, ())
    except SqlError:
        return False
    return True


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name.replace('|', chr(92) + '|')}`" for name in names)


def _paragraph(text: str) -> str:
    """Code is never broken in two."""
    joined = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", _STIFF).replace("\\|", "|"), text)
    return fill(joined, _WIDTH, break_long_words=False, break_on_hyphens=False).replace(_STIFF, " ")


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {left} | {right} |" for left, right in rows]
    return "\n".join([f"| {head[0]} | {head[1]} |", "|---|---|", *lines])


LISTS: Mapping[str, Callable[[], str]] = {
    "sqlite operators": sqlite_operators,
    "sqlite functions": sqlite_functions,
    "sqlite aggregates": sqlite_aggregates,
    "postgres operators": postgres_operators,
    "postgres casts": postgres_casts,
    "postgres functions": postgres_functions_,
    "postgres aggregates": postgres_aggregates,
}
