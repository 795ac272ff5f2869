"""The project's pages as data: blocks of code, headings, links. It reads Markdown as far as our pages need it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^\s*```(\w*)\s*$")
_MARKER = re.compile(r"^\s*<!-- runs: (.+) -->$")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `markers` are what an HTML comment `<!-- runs: … -->` above it says about running it."""

    page: Path
    line: int
    language: str
    code: str
    markers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    text: str
    blocks: tuple[Block, ...]

    @property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return re.sub(r"^ *```.*?^ *```", "", self.text, flags=re.DOTALL | re.MULTILINE)

    @property
    def anchors(self) -> set[str]:
        return {_anchor(title) for title in re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)}

    @property
    def links(self) -> list[str]:
        return [one or other for one, other in _LINK.findall(self.prose)]

    def section(self, title: str) -> str:
        """The text from a heading up to the next one of the same rank or a higher one."""
        found = re.search(rf"^(#+) {re.escape(title)}$", self.text, re.MULTILINE)
        assert found is not None, f"{self.path.name} has no heading {title!r}"
        rest = self.text[found.end() :]
        end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
        return rest[: end.start()] if end else rest


@cache
def pages() -> tuple[Page, ...]:
    paths = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return tuple(_read(path) for path in [*paths, *sorted((ROOT / "docs").rglob("*.md"))])


def page(name: str) -> Page:
    return next(one for one in pages() if one.path.name == name)


def blocks(*languages: str) -> list[Block]:
    return [block for one in pages() for block in one.blocks if block.language in languages]


def code_words(text: str) -> set[str]:
    """Every word that stands in code: between backticks, or in a fenced block."""
    spans = re.findall(r"^ *```.*?^ *```|`[^`\n]+`", text, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"-{0,2}[A-Za-z_/][\w/-]*", " ".join(spans)))


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row, headers and rules left out."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if not all(set(cell) <= set("-: ") for cell in row)]


def _read(path: Path) -> Page:
    text = path.read_text()
    return Page(path, text, tuple(_blocks(path, text.splitlines())))


def _blocks(path: Path, lines: list[str]) -> list[Block]:
    found: list[Block] = []
    start, language = 0, ""
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence and not start:
            start, language = number, fence[1]
        elif fence:
            code = dedent("\n".join(lines[start : number - 1]))
            found.append(Block(path, start, language, code, _markers(lines, start)))
            start = 0
    assert not start, f"{path.name}:{start}: a block without an end"
    return found


def _markers(lines: list[str], start: int) -> tuple[str, ...]:
    above = lines[start - 2] if start > 1 else ""
    said = _MARKER.match(above)
    return tuple(said[1].split(", ")) if said else ()


def _anchor(title: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
