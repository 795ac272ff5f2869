"""Names in double quotes, as standard SQL quotes them."""

from __future__ import annotations


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
