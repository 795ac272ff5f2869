"""The limits of a client's message: sizes of ids, SQL and parameters. It counts bytes, and interprets none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headwater.model.errors import LimitExceeded
from headwater.model.limits import Limits
from headwater.protocol.messages import Ack, Message, Subscribe, Unsubscribe


def excess(message: Message, size: int, limits: Limits) -> LimitExceeded | None:
    """What is too much in a message of `size` bytes; None where nothing is. What fits whole is not measured again."""
    if isinstance(message, Subscribe | Unsubscribe | Ack) and _is_longer(message.id, size, limits.id_bytes_max):
        return LimitExceeded(f"the id is too long: at most {limits.id_bytes_max} bytes")
    return _of_subscribe(message, size, limits) if isinstance(message, Subscribe) else None


def byte_size(text: bytes | str) -> int:
    return len(text) if isinstance(text, bytes) else len(text.encode(errors="surrogatepass"))


def _of_subscribe(subscribe: Subscribe, size: int, limits: Limits) -> LimitExceeded | None:
    params = subscribe.params
    if _is_longer(subscribe.sql, size, limits.sql_bytes_max):
        return LimitExceeded(f"the SQL is too long: at most {limits.sql_bytes_max} bytes")
    if len(params) > limits.params_max:
        return LimitExceeded(f"too many parameters: {len(params)}, at most {limits.params_max}")
    if size > limits.params_bytes_max and len(msgspec.json.encode(params)) > limits.params_bytes_max:
        return LimitExceeded(f"the parameters are too large: at most {limits.params_bytes_max} bytes")
    if isinstance(params, dict) and any(_is_longer(name, size, limits.id_bytes_max) for name in params):
        return LimitExceeded(f"a parameter name is too long: at most {limits.id_bytes_max} bytes")
    if any(_is_deeper(value, limits.params_depth_max) for value in _inside(params)):
        return LimitExceeded(f"parameters are nested too deeply: at most {limits.params_depth_max} levels")
    return None


def _is_longer(text: str, size: int, bytes_max: int) -> bool:
    return size > bytes_max and byte_size(text) > bytes_max


def _is_deeper(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    return depth == 0 or any(_is_deeper(each, depth - 1) for each in _inside(value))


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
