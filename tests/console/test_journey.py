"""The night of docs/tutorials/frozen-consumers.md, in a browser and by keyboard alone. More journeys: `make browser`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.conftest import Console

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


def test_who_holds_readers_back_is_found_by_keyboard(browser: Browser, console: Console) -> None:
    from playwright.sync_api import expect

    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(console.link)
    expect(page.locator("#lanes[data-spans]")).to_be_visible(timeout=30_000)
    assert "token" not in page.url, "it does not stay in the history"
    page.locator("#lanes").focus()
    page.keyboard.press("b")
    expect(page.locator("#detail")).to_contain_text("offset")
    for _ in range(3):
        if "ledger-7" in (page.locator("#detail").text_content() or ""):
            break
        page.keyboard.press("b")
    expect(page.locator("#detail")).to_contain_text("payments-0: ledger-7")
    expect(page.locator("#detail")).to_contain_text("two-phase", timeout=15_000)
    assert "at=payments-0" in page.url, "the address keeps what was chosen"
    rectangle = next(each for each in page.evaluate("window.__lanes") if each["name"] == "ledger-7")
    assert (rectangle["kind"], rectangle["lane"]) == ("prepared", "payments-0")
    assert rectangle["w"] >= 2.5
    # Whoever begins a transaction chooses its name: it is text.
    page.locator("#as-table").press("Enter")
    expect(page.get_by_role("cell", name="<img src=x onerror=alert(1)>")).to_be_visible()
    assert page.locator("td img").count() == 0
    page.get_by_role("link", name="In doubt").press("Enter")
    expect(page.get_by_role("cell", name="5:0").or_(page.get_by_text("ledger-7").first)).to_be_visible()
    expect(page.locator("code").first).to_contain_text("transactions complete --transactional-id ledger-7")
    assert errors == []
    page.close()
    assert console.stop() == 130
