"""Regular expressions of PostgreSQL that mean the same to Python, rewritten for it. Pure.

Only whether a text matches is asked, so which part of it does never matters. Read are letters, `.`, `^`, `$`, lists in
brackets, `|`, groups, and `*`, `+`, `?`, `{2,3}` behind a single character: what could take exponential time is not
read, nor what depends on a language. Of anything else it says nothing, and the source is asked.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<list>\[\^?[^\[\]\\^-](?:-[^\[\]\\^-])?(?:[^\[\]\\^-](?:-[^\[\]\\^-])?)*\])"
    r"|\\(?P<class>[dws])|\\(?P<escaped>[^\w\s])"
    r"|(?P<group>\((?!\?))|(?P<end>\))"
    r"|(?P<edge>[\^$|])"
    r"|(?P<many>[*+?]|\{\d{1,2}(?:,(?:\d{1,2})?)?\})"
    r"|(?P<one>[^\[\]\\(){}^$|*+?])",
    re.S,
)
_EDGES = {"^": r"\A", "$": r"\Z", "|": "|"}
_ENDLESS_MAX = 3  # of `*`, `+` and `{2,}`: each may try every place
CLASSES = re.compile(r"\\[dws]")
_SIMILAR = re.compile(r"(?P<list>\[[^\[\]\\]+\])|\\(?P<escaped>[^\w\s\"])|(?P<one>[^\\\[\]])", re.S)
_SIGNS = {"%": ".*", "_": ".", ".": r"\.", "^": r"\^", "$": r"\$"}


def translated(pattern: str) -> str | None:
    """As Python writes it, to be searched for with `re.DOTALL` and `re.ASCII`."""
    if pattern.startswith("***") or "(?" in pattern:
        return None
    out, place, repeatable = list[str](), 0, False
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        if found is None or (found["many"] and not repeatable):
            return None
        out.append(_piece(found))
        repeatable = bool(found["one"] or found["list"] or found["class"] or found["escaped"])
        place = found.end()
    whole = "".join(out)
    return whole if _is_sound(whole, pattern) else None


def spelled_out(similar: str) -> str | None:
    """The pattern of SIMILAR TO as a regular expression of PostgreSQL's; None where it is none that is known here."""
    out, place = list[str](), 0
    while place < len(similar):
        found = _SIMILAR.match(similar, place)
        if found is None:
            return None
        one = found["one"]
        out.append(found[0] if one is None else _SIGNS.get(one, one))
        place = found.end()
    return f"^({''.join(out)})$" if out else None


def _piece(found: re.Match[str]) -> str:
    if found["edge"]:
        return _EDGES[found["edge"]]
    if found["one"] or found["escaped"]:
        one = found["one"] or found["escaped"]
        return "." if found["one"] == "." else re.escape(one)
    return found[0]


def _is_sound(whole: str, pattern: str) -> bool:
    """Empty branches and bounds the wrong way round are PostgreSQL's to judge."""
    if len(re.findall(r"[*+]|,\}", pattern)) > _ENDLESS_MAX or re.search(r"^\||\|$|\|\||\(\||\|\)|\(\)", pattern):
        return False
    try:
        re.compile(whole)
    except (re.error, OverflowError):
        return False
    return True
