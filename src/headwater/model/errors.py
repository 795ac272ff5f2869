"""Every error a user may meet. A message says what was expected, what was found and what to do."""

from __future__ import annotations


class HeadwaterError(Exception):
    """The root of all errors raised on purpose.

    `code` is stable and travels on the wire; `hint` says what to do next.
    """

    code = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class SqlError(HeadwaterError):
    """The SQL is wrong: it would fail in the database too. `at` is the offending span of `sql`, in characters."""

    code = "sql_error"

    def __init__(
        self, message: str, *, sql: str = "", at: tuple[int, int] | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.sql = sql
        self.at = at

    def __str__(self) -> str:
        shown = underline(self.sql, self.at) if self.at is not None else ""
        return "\n".join(part for part in (self.message, shown, f"hint: {self.hint}" if self.hint else "") if part)


class UnsupportedQuery(SqlError):
    """The SQL is right, but we cannot keep it current."""

    code = "unsupported_query"


class SourceError(HeadwaterError):
    """The database could not be read, or does not allow what was asked."""

    code = "source_error"


class LogError(HeadwaterError):
    """The event log is damaged, fenced or owned by another process."""

    code = "log_error"


class Corrupt(LogError):
    """A record that was once durable can no longer be read."""

    code = "log_corrupt"


class Fenced(LogError):
    """A newer writer has taken over; this one must stop."""

    code = "fenced"


class ProtocolError(HeadwaterError):
    """The peer sent something outside the protocol."""

    code = "protocol_error"


class PermissionDenied(HeadwaterError):
    """The caller may not read this."""

    code = "permission_denied"


class LimitExceeded(HeadwaterError):
    """A named limit was reached. `retry_after_ms`: where waiting helps, how long to wait before asking again."""

    code = "limit_exceeded"

    def __init__(self, message: str, *, hint: str | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_ms = retry_after_ms


class OverBudget(LimitExceeded):
    """A query needs more pairs of rows or more memory at once than any one query may use."""


class Poisoned(HeadwaterError):
    """The engine failed at what it was given: because of a bug in Headwater or, where `over_budget`, because it was too
    much. `name` is the table, relation or template it was stepping, `after` the last log offset before the records it
    failed at. `certain`: it would fail at them however they are cut into steps."""

    code = "poisoned"

    def __init__(self, name: str, cause: Exception, after: int = -1) -> None:
        self.over_budget = isinstance(cause, OverBudget)
        super().__init__(str(cause) if self.over_budget else f"{type(cause).__name__}: {cause}")
        self.name, self.after, self.certain = name, after, False


class Resync(HeadwaterError):
    """An emission does not follow from the state it was applied to; a fresh result is needed."""

    code = "resync"


class Drift(HeadwaterError):
    """The maintained rows differ from the query run from scratch."""

    code = "drift"


def underline(sql: str, at: tuple[int, int]) -> str:
    """The line of `sql` that holds the span, with a line of carets beneath it."""
    start, end = at
    first = sql.rfind("\n", 0, start) + 1
    last = sql.find("\n", start)
    line = sql[first : last if last >= 0 else len(sql)]
    width = max(1, min(end, first + len(line)) - start)
    return f"  {line}\n  {' ' * (start - first)}{'^' * width}"
