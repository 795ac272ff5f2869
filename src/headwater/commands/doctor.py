"""`headwater doctor`: prints what a database needs, what it has, and what fixes the difference."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from headwater.commands.terminal import err
from headwater.sources import open_doctor
from headwater.sources.doctor import AppliedFix, DoctorScope, Finding, Severity, apply_fixes, is_well

_NAME_WIDTH = 26  # names up to here stay in one piece
_COLOURS = {Severity.FINE: "green", Severity.NOTE: "yellow", Severity.BAD: "bold red"}


def run(args: argparse.Namespace) -> int:
    doctor = open_doctor(args.url, DoctorScope(args.role, tuple(args.table)))
    try:
        for applied in apply_fixes(doctor) if args.fix else ():
            err.print(_outcome(applied), soft_wrap=True)
        findings = doctor.examine()
    finally:
        doctor.close()
    if args.json:
        for finding in findings:
            print(json.dumps({**asdict(finding), "state": finding.state.value}))
    else:
        Console(highlight=False).print(_examined(findings))
    return 0 if is_well(findings) else 1


def _outcome(applied: AppliedFix) -> Text:
    finding, refused = applied.finding, applied.refused
    if refused is not None:
        return Text.assemble(("refused", "bold red"), f": {finding.fix}\n  {refused}")
    return Text.assemble(("done", "green"), f": {finding.fix}", f"; then {finding.then}" if finding.then else "")


def _examined(findings: Sequence[Finding]) -> RichTable:
    table = RichTable(show_lines=True)
    longest = max(len(word) for one in findings for word in one.subject.split())
    for title in ("", "what", "needed", "found", "fix"):
        table.add_column(title, overflow="fold", min_width=min(longest, _NAME_WIDTH) if title == "what" else None)
    for one in findings:
        state = Text(one.state.value, _COLOURS[one.state])
        table.add_row(state, Text(one.subject), Text(one.needed), Text(one.found), Text(_advice(one)))
    return table


def _advice(finding: Finding) -> str:
    """The statement as it can be copied, then what else there is to do."""
    by_hand = "(by hand)" if finding.fix and finding.by_hand else ""
    return "\n".join(
        part for part in (finding.fix and f"{finding.fix};".replace(";;", ";"), finding.then, by_hand) if part
    )
