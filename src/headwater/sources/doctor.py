"""What a database needs before its queries can be live, what was found, and the statement that fixes it.

Values and one protocol. A doctor only reads; it changes the database only when told to apply a finding's fix, by that
statement and no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from headwater.model.errors import HeadwaterError


class Severity(Enum):
    """FINE: nothing to do. NOTE: it works, and here is what to know. BAD: something will be refused, or was lost."""

    FINE = "ok"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """`fix` is the exact statement, empty where there is none; `then` what is left to do after it.

    `by_hand`: the user must decide, or the fix touches data: shown, never applied for the user.
    """

    subject: str
    needed: str
    found: str
    state: Severity = Severity.FINE
    fix: str = ""
    then: str = ""
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class DoctorScope:
    """What to examine. `role`: the role that Headwater connects as, where the address has another; PostgreSQL only.

    `tables`: those that are to be live; all of them where none is named.
    """

    role: str | None = None
    tables: tuple[str, ...] = ()

    def asks(self, table: str) -> bool:
        return not self.tables or table in self.tables


EVERYTHING = DoctorScope()


@dataclass(frozen=True, slots=True)
class AppliedFix:
    """The outcome of a fix: `refused` is the database's reason, None where it was applied."""

    finding: Finding
    refused: str | None


class Doctor(Protocol):
    def examine(self) -> tuple[Finding, ...]:
        """All findings, in the order in which they matter. Changes nothing."""

    def apply_fix(self, finding: Finding) -> None:
        """Runs the finding's statement; raises with the database's message where it refuses."""

    def close(self) -> None: ...


def is_well(findings: Iterable[Finding]) -> bool:
    return all(finding.state is not Severity.BAD for finding in findings)


def apply_fixes(doctor: Doctor) -> tuple[AppliedFix, ...]:
    """Applies every fix that needs no decision. One that is refused does not stop the others."""
    fixable = [one for one in doctor.examine() if one.state is not Severity.FINE and one.fix and not one.by_hand]
    return tuple(AppliedFix(finding, _refusal(doctor, finding)) for finding in fixable)


def _refusal(doctor: Doctor, finding: Finding) -> str | None:
    try:
        doctor.apply_fix(finding)
    except HeadwaterError as error:
        return error.message
    return None
