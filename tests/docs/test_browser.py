"""The page of a few lines in the README, in a real browser, beside a real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from headwater.demo.shop_file import create_shop
from tests.docs.pages import blocks
from tests.support.processes import served


@pytest.mark.browser
@pytest.mark.parametrize("snippet", [pytest.param(one.code, id=one.name) for one in blocks("html")])
def test_a_page_of_a_few_lines_shows_rows(snippet: str, chromium: Browser, tmp_path: Path) -> None:
    shop = create_shop(tmp_path / "shop.db")
    with served(shop, tmp_path / "data", runner="inline") as server:
        page = chromium.new_page(bypass_csp=True)  # the page is yours; so is its policy
        page.goto(f"http://127.0.0.1:{server.port}/health")  # any page of the server's origin
        page.set_content(snippet)
        page.locator("#orders li").nth(4).wait_for()
        assert page.locator("#orders li").count() == 5
        page.close()
