"""What an origin needs before it can be live, what it has, and the statement that makes up for the difference.

Values and one protocol. A doctor looks; it changes the origin only when told to mend a finding, by the finding's own
statement and no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from headwater.model.errors import HeadwaterError


class State(Enum):
    """FINE: nothing to do. NOTE: it works, and here is what to know. BAD: something will be refused, or was lost."""

    FINE = "ok"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """`fix` is the exact statement, empty where there is none; `then` what is left to do after it.

    `by_hand`: a matter of taste, or of somebody else's data: shown, never applied for the user.
    """

    subject: str
    needed: str
    found: str
    state: State = State.FINE
    fix: str = ""
    then: str = ""
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """What is asked about. `role`: who Headwater connects as, where the address names another; of PostgreSQL.

    `tables`: those that are to be live; all of them where none is named.
    """

    role: str | None = None
    tables: tuple[str, ...] = ()

    def asks(self, table: str) -> bool:
        return not self.tables or table in self.tables


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of a statement: `refused` is the origin's reason, None where it was done."""

    finding: Finding
    refused: str | None


class Doctor(Protocol):
    def examine(self) -> tuple[Finding, ...]:
        """Everything that matters, in the order in which it matters. Changes nothing."""

    def mend(self, finding: Finding) -> None:
        """Runs the finding's statement; raises in the origin's words where it will not."""

    def close(self) -> None: ...


def is_well(findings: Iterable[Finding]) -> bool:
    return all(finding.state is not State.BAD for finding in findings)


def mend_all(doctor: Doctor) -> tuple[Mended, ...]:
    """Every fix that needs no thought. One that is refused does not keep the others."""
    mendable = [one for one in doctor.examine() if one.state is not State.FINE and one.fix and not one.by_hand]
    return tuple(Mended(finding, _refusal(doctor, finding)) for finding in mendable)


def _refusal(doctor: Doctor, finding: Finding) -> str | None:
    try:
        doctor.mend(finding)
    except HeadwaterError as error:
        return error.message
    return None
