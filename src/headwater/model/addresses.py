"""The address of a database, as it may be shown."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(?<=:)(//[^/?#@:]*:)[^/]*(?=@)|([?&](?:ssl)?password=)[^&]*")


def shown(url: str) -> str:
    """The address as it may be seen by anyone: without its password."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}…", url)
