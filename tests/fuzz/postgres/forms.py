"""PostgreSQL's expressions by the kind of their result: a grammar as a table.

In braces stand the kinds of what goes in; `=int` is a constant, `?int` a subquery as a value, `in int` and `exists`
subqueries to be looked into; `same text` is one column in both places.
"""

from __future__ import annotations

import re
from functools import cache

HOLE = re.compile(r"\{([^}]+)\}")
VALUES: dict[str, tuple[str, ...]] = {
    "int": (
        *("{int} + {=int}", "{int} - {int}", "{int} * 2", "{int} % 3", "{int} / 2", "-{int}", "abs({int})"),
        *("coalesce({int}, {=int})", "nullif({int}, {=int})", "greatest({int}, {int})", "least({int}, {=int})"),
        *("length({text})", "strpos({text}, {=text})", "octet_length({text})", "ascii({text})", "mod({int}, 2)"),
        *("CASE WHEN {bool} THEN {int} ELSE {=int} END", "{int}::int8", "{bool}::int", "{float}::int"),
        *("{date} - {date}", "extract(year FROM {date})::int", "{?int}", "{?int}", "{int}::text::int"),
    ),
    "float": (
        *("{float} + {float}", "{float} * 2", "{float} / 4", "-{float}", "abs({float})", "floor({float})"),
        *("coalesce({float}, {=float})", "{int}::float8", "round({float})", "CASE WHEN {bool} THEN {float} END"),
        *("greatest({float}, {float})", "{?float}"),
    ),
    "numeric": (
        *("{numeric} + {numeric}", "{numeric} * 2", "{numeric} - {int}", "-{numeric}", "abs({numeric})"),
        *("round({numeric}, 1)", "{int}::numeric", "coalesce({numeric}, {=numeric})", "{numeric} / 4", "{?numeric}"),
        *("{numeric}::numeric(6,1)", "trunc({numeric})", "ceil({numeric})", "{numeric} % 2"),
    ),
    "text": (
        *("lower({text})", "upper({text})", "{text} || 'x'", "{text} || {text}", "left({text}, 1)", "trim({text})"),
        *("substr({text}, 2)", "replace({text}, 'a', 'b')", "coalesce({text}, {=text})", "{int}::text"),
        *(
            "reverse({text})",
            "concat({text}, {int})",
            "CASE WHEN {bool} THEN {text} ELSE {=text} END",
            "{numeric}::text",
        ),
        *('{tongue} COLLATE "C"', "{bool}::text", "lpad({text}, 3, '*')", "{date}::text", "{uuid}::text", "{?text}"),
        *("nullif({text}, {=text})", "split_part({text}, 'b', 1)", "md5({text})"),
    ),
    "tongue": ("coalesce({tongue}, {=tongue})", "CASE WHEN {bool} THEN {tongue} END", "{?tongue}"),
    "date": (
        *("{date} + 1", "{date} - {int}", "coalesce({date}, {=date})", "{moment}::date", "{?date}"),
        *("greatest({date}, {=date})", "date_trunc('month', {date}::timestamp)::date"),
    ),
    "moment": (
        *("{moment} + interval '1 day'", "{moment} - interval '1 month'", "date_trunc('month', {moment})"),
        *("{date}::timestamp", "coalesce({moment}, {=moment})", "{instant} AT TIME ZONE 'UTC'", "{?moment}"),
    ),
    "instant": (
        *("{instant} + interval '1 hour'", "date_trunc('day', {instant}, 'Europe/Lisbon')", "{?instant}"),
        *("coalesce({instant}, {=instant})", "{moment} AT TIME ZONE 'Europe/Lisbon'"),
    ),
    "uuid": ("coalesce({uuid}, {=uuid})", "CASE WHEN {bool} THEN {uuid} END", "{?uuid}"),
    "bool": ("NOT {bool}", "coalesce({bool}, false)", "{bool} AND {bool}", "{bool} OR {bool}", "{exists}"),
}
_ORDERED = ("int", "float", "numeric", "text", "date", "moment", "instant", "uuid")
_COMPARED = tuple(
    form.replace("#", kind)
    for kind in (*_ORDERED, "int", "int", "text")
    for form in ("{#} = {#}", "{#} = {=#}", "{#} <> {=#}", "{#} < {=#}", "{#} >= {#}", "{#} > {=#}", "{#} <= {=#}")
)
_LISTED = tuple(
    form.replace("#", kind)
    for kind in (*_ORDERED, "int", "text")
    for form in (
        *("{#} IN ({=#}, {=#})", "{#} NOT IN ({=#}, {=#})", "{#} BETWEEN {=#} AND {=#}", "{#} IS DISTINCT FROM {#}"),
        *("{#} IS NULL", "{#} IS NOT NULL", "{#} IS NOT DISTINCT FROM {=#}"),
    )
)
_OTHER = (
    *("{bool}", "{bool} IS TRUE", "{bool} IS NOT FALSE", "NOT {bool}", "{tongue} = {=tongue}", "{tongue} = {tongue}"),
    *("{text} LIKE 'a%'", "{text} ILIKE '%B'", "{text} NOT LIKE '_'", "starts_with({text}, 'a')"),
    *("{tongue} IN ({=tongue}, {=tongue})", "{tongue} LIKE 'a%'", "{int} < {float}", "{numeric} > {int}"),
)
_RARE = ("{text} ~ '^a'", "{tongue} < {=tongue}", "({int}, {int}) = ({=int}, {=int})", "{int} = ANY (ARRAY[1, 2])")
LOOKING = (
    *("EXISTS ({exists})", "NOT EXISTS ({exists})", "EXISTS ({exists})", "NOT EXISTS ({exists})"),
    *("{int} IN ({in int})", "{int} NOT IN ({in int})", "{text} IN ({in text})", "{text} NOT IN ({in text})"),
    *("{date} IN ({in date})", "{uuid} NOT IN ({in uuid})", "{numeric} IN ({in numeric})", "{?int} > {int}"),
    *("{int} = {?int}", "{text} = {?text}", "{int} = ANY ({in int})", "{tongue} IN ({in tongue})"),
)
CONDITIONS = (*_COMPARED, *_LISTED, *_OTHER * 2, *_RARE)
AGGREGATES: dict[str, tuple[str, ...]] = {
    "int": (
        *("count(*)", "count(*)", "count({int})", "count({text})", "count(DISTINCT {int})", "count(DISTINCT {text})"),
        *("sum({int})::int8", "min({int})", "max({int})", "sum(DISTINCT {int})::int8", "count({bool})"),
        *(
            "count({uuid})",
            "coalesce(sum({int}), 0)::int8",
            "count(*) + 1",
            "count(DISTINCT {date})",
            "count(DISTINCT {numeric})",
        ),
    ),
    "numeric": (
        *("avg({int})", "sum({numeric})", "avg({numeric})", "sum({int}::int8)", "min({numeric})", "max({numeric})"),
    ),
    "float": ("sum({float})", "avg({float})", "min({float})", "max({float})"),
    "text": ("min({text})", "max({text})", "string_agg({same text}, ',' ORDER BY {same text})", "max({text} || 'x')"),
    "date": ("min({date})", "max({date})"),
    "moment": ("max({moment})",),
    "instant": ("min({instant})",),
    "bool": ("bool_and({bool})", "bool_or({bool})", "count(*) > 1"),
}


@cache
def needed(form: str) -> frozenset[str]:
    """The kinds of columns without which it would be about constants."""
    return frozenset(hole.rpartition(" ")[2].lstrip("?=") for hole in HOLE.findall(form)) - {"exists"}
