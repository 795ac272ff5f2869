"""`./dev docs`: makes the lists in docs/sql.md anew."""

from __future__ import annotations

from tests.docs.lists import filled
from tests.docs.pages import ROOT


def main() -> None:
    page = ROOT / "docs" / "sql.md"
    page.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
