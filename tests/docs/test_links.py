"""Links between the pages lead somewhere, and no page names a place that only its writer has."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, Page, pages

_ELSEWHERE = re.compile(
    r"\.\./shared|\bissues? (?:show|#?\d)|/(?:root|home|work|tmp|Users)/"
    r"|pythonhosted|pypi\.org|docker\.io|registry\.(?!py)",
    re.IGNORECASE,
)
ALL = [pytest.param(one, id=one.path.name) for one in pages()]


@pytest.mark.parametrize("page", ALL)
def test_links_lead_to_files_and_headings(page: Page) -> None:
    for link in page.links:
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        assert target.exists() and target.is_relative_to(ROOT), f"{page.path.name} links to {link}"
        if anchor:
            other = next(one for one in pages() if one.path == target)
            assert anchor in other.anchors, f"{page.path.name} links to {link}; there is {sorted(other.anchors)}"


@pytest.mark.parametrize("page", ALL)
def test_no_page_names_a_place_of_its_writer(page: Page) -> None:
    found = _ELSEWHERE.search(page.text)
    assert found is None, f"{page.path.name}: {found and found[0]}"


@pytest.mark.parametrize("page", ALL)
def test_every_page_can_be_reached_from_the_readme(page: Page) -> None:
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            here = next(one for one in pages() if one.path == path)
            targets = [(path.parent / link.partition("#")[0]).resolve() for link in here.links if "://" not in link]
            waiting += [target for target in targets if target.suffix == ".md"]
    assert page.path in seen


def test_source_files_named_in_the_pages_exist() -> None:
    for page in pages():
        for name in re.findall(r"`((?:src|tests|bench|docs)/[\w./-]+\.(?:py|js|md|txt|json|html))", page.text):
            assert (ROOT / name).exists(), f"{page.path.name} names {name}"
        for name in re.findall(r"`((?:\w+/)+\w+\.py)\b", page.text):
            roots = (ROOT, ROOT / "src/headwater", ROOT / "tests")
            assert any((root / name).exists() for root in roots), f"{page.path.name} names {name}"
