"""Who may talk to a gateway: the names it answers to, and the web pages that may use it. It looks at headers only.

A browser sends any website's requests to loopback. Two headers tell them apart. `Host` is the name that was asked for:
a website whose name was rebound to 127.0.0.1 gives itself away there. `Origin` (or `Sec-Fetch-Site`, where a request
has no Origin) is the page that asks: one of another origin is refused unless it was allowed. Programs send no Origin.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headwater.model.errors import HeadwaterError

MISDIRECTED, FORBIDDEN = 421, 403  # HTTP status codes
_OWN_SITE = ("same-origin", "none")  # of Sec-Fetch-Site; "none": typed by the user, or a bookmark


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """`hosts` beside the loopback names; `origins` beside the gateway's own."""

    hosts: frozenset[str] = field(default_factory=frozenset)
    origins: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> Allowed:
        return cls(frozenset(map(_as_host, hosts)), frozenset(map(_as_origin, origins)))

    def refusal(self, headers: Mapping[str, str], *, to_page: bool = False) -> Refusal | None:
        """None where the request may pass. `to_page`: what is asked for is the page itself, which any link may open."""
        host = headers.get("host", "")
        if not self._has_host(host):
            return Refusal(
                MISDIRECTED,
                f"this gateway does not answer to the host {_shown(host)}",
                "use 127.0.0.1 or localhost, or start it with --allow-host NAME",
            )
        origin = headers.get("origin")
        if origin is not None:
            return None if self.is_own(origin, host) or origin in self.origins else _foreign(f"origin {_shown(origin)}")
        if to_page or headers.get("sec-fetch-site", "none") in _OWN_SITE:
            return None
        return _foreign("another website")

    def is_own(self, origin: str, host: str) -> bool:
        """Scheme aside: a proxy in front may speak TLS. The browser writes name and port the same way in both."""
        scheme, _, authority = origin.partition("://")
        return scheme in ("http", "https") and authority.lower() == host.lower()

    def _has_host(self, host: str) -> bool:
        name = _name(host)
        return name == "localhost" or name in self.hosts or is_loopback(name)


def is_loopback(name: str) -> bool:
    """Whether it is an address of this machine for itself; a name is not, whatever it resolves to today."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """Without the port; of an IPv6 address without its brackets. Ports may differ where one is forwarded."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _as_host(text: str) -> str:
    if not text or "/" in text or "*" in text:
        raise HeadwaterError(
            f"expected the name or address of a host, found {text!r}", hint="for example --allow-host live.example.org"
        )
    return _name(text)


def _as_origin(text: str) -> str:
    parts = urlsplit(text)
    if text == "null" or parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise HeadwaterError(
            f"expected an origin as scheme://host or scheme://host:port, found {text!r}",
            hint="for example --allow-origin https://app.example.org",
        )
    default = {"http": ":80", "https": ":443"}[parts.scheme]
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(default)}"


def _foreign(who: str) -> Refusal:
    return Refusal(
        FORBIDDEN,
        f"{who} may not use this gateway",
        "pages of the gateway's own origin may; start it with --allow-origin ORIGIN to let in others",
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
