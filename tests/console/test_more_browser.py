"""Records, a life, the cluster's pages in a browser: hostile text stays text, no script fails, what is shown can be looked at."""

from __future__ import annotations

import os
import pathlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from oncelog.cli.output import printable
from tests.cli.world import Cli
from tests.console.conftest import Console

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = os.environ.get("ONCELOG_AXE", "")
SCREENSHOTS = os.environ.get("ONCELOG_SCREENSHOTS", "")
HOSTILE = "<img src=x onerror=alert(1)>"
PAGES = (
    *("records?topic=hostile&hidden=1&control=1", "history?id=order-api", "history", "decisions", "topics"),
    *("topics?topic=orders", "configs", "access", "quotas", "brokers"),
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(os.environ.get("ONCELOG_BROWSER") != "all", reason="make browser"),
]


def page_of(browser: Browser, console: Console, errors: list[str], **more: Any) -> Page:
    page = browser.new_page(reduced_motion="reduce", **more)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto(console.link)
    page.locator("#lanes[data-spans]").wait_for(timeout=30_000)
    return page


def write_hostile(night: Cli) -> None:
    night.create("hostile")
    night(
        "produce", "hostile", "-K", "\\t", stdin=f'{HOSTILE}\t{{"text": "{HOSTILE}", "n": 1}}\nplain\t{"long " * 2000}'
    )
    night.leave_open("hostile", f"held-{HOSTILE}")


def test_records_are_searched_and_hostile_ones_are_text(browser: Browser, console: Console, night: Cli) -> None:
    from playwright.sync_api import expect

    with ThreadPoolExecutor() as elsewhere:  # Playwright has this thread's loop
        elsewhere.submit(write_hostile, night).result()
    errors: list[str] = []
    page = page_of(browser, console, errors)
    page.get_by_role("link", name="Records").click()
    page.get_by_label("topic").fill("hostile")
    page.get_by_role("button", name="show").click()
    expect(page.locator("#progress")).to_contain_text("2 shown of")
    expect(page.get_by_role("cell", name=HOSTILE, exact=True)).to_be_visible()
    page.get_by_role("button", name="all of it").click()
    expect(page.locator("pre.all")).to_contain_text("long long")
    page.get_by_label("aborted and held back, too").check()
    page.get_by_label("JSON field").fill("n = 1")
    page.get_by_role("button", name="show").click()
    expect(page.locator("#progress")).to_contain_text("1 shown of")
    assert "where=n" in page.url, "the address keeps the search"
    page.get_by_label("JSON field").fill("")
    page.get_by_role("button", name="show").click()
    expect(page.locator(".seen.held-back").first).to_be_visible()
    page.locator("#form").select_option("hex")
    expect(page.locator("td pre").first).to_contain_text("3c 69 6d 67")
    page.get_by_role("link", name=f"held-{HOSTILE}").first.click()
    expect(page.locator("h1")).to_have_text(f"held-{HOSTILE} is Ongoing")
    expect(page.locator("svg.steps")).to_be_visible()
    expect(page.get_by_text("force-terminate").first).to_be_visible()
    assert page.locator("main img").count() == 0
    assert errors == []
    page.close()


@pytest.mark.skipif(not AXE, reason="make browser fetches axe-core with npm")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_violations_of_wcag_2_aa(browser: Browser, console: Console, scheme: Any) -> None:
    errors: list[str] = []
    page = page_of(browser, console, errors, color_scheme=scheme)
    for name in PAGES:
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{console.link.split('#')[0]}#/{name}")
            page.reload()
            page.locator("h1").wait_for()
            page.wait_for_timeout(1200)
            if SCREENSHOTS:
                page.screenshot(path=str(pathlib.Path(SCREENSHOTS) / f"{name.replace('?', '-')}-{scheme}-{width}.png"))
            page.evaluate(pathlib.Path(AXE).read_text())
            found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']})")
            assert [(each["id"], [n["html"] for n in each["nodes"]]) for each in found["violations"]] == [], name
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{name} scrolls sideways by {wide} px at {width}"
    assert errors == []
    page.close()


def test_a_plan_is_done_only_after_its_name(browser: Browser, night: Cli) -> None:
    from playwright.sync_api import expect

    name = f"stuck-{HOSTILE}-\u202e\n"  # turns its letters around, and cannot be typed: both are shown as escapes
    shown = printable(name)
    with ThreadPoolExecutor() as elsewhere:
        elsewhere.submit(night.create, "stuck").result()
        elsewhere.submit(night.leave_open, "stuck", name).result()
    errors: list[str] = []
    console = Console(night.bootstrap_servers, "--allow-writes")
    page = page_of(browser, console, errors)
    page.get_by_role("link", name="Open transactions").click()
    row = page.get_by_role("row").filter(has_text=shown)
    row.get_by_role("button", name="force-terminate …").click()
    expect(row.get_by_text("its records stay hidden for ever")).to_be_visible()
    row.get_by_role("textbox").fill("yes")
    row.get_by_role("button", name="do it").click()
    expect(row.get_by_text("not confirmed")).to_be_visible()
    row.get_by_role("textbox").fill(shown)
    row.get_by_role("button", name="do it").click()
    expect(row).to_have_count(0, timeout=15_000)
    assert errors == []
    page.close()
    console.stop()


def test_a_mistyped_topic_is_no_all_clear(browser: Browser, console: Console) -> None:
    from playwright.sync_api import expect

    errors: list[str] = []
    page = page_of(browser, console, errors)
    page.get_by_label("topics").fill("ordres")
    page.get_by_label("topics").press("Enter")
    expect(page.locator("#verdict")).to_have_text("Nothing is looked at", timeout=15_000)
    expect(page.get_by_text("topic ordres could not be read")).to_be_visible()
    expect(page.get_by_text("so nobody knows")).to_be_visible()
    assert errors == []
    page.close()


def test_an_address_that_is_mistyped_is_named(browser: Browser, console: Console) -> None:
    from playwright.sync_api import expect

    errors: list[str] = []
    page = page_of(browser, console, errors)
    page.evaluate("location.hash = '#/nope'")
    expect(page.locator("h1")).to_have_text("There is no page nope")
    expect(page.locator("[role=alert]")).to_contain_text("mistyped")
    assert page.locator("nav [aria-current]").count() == 0
    page.evaluate("location.hash = '#/configs?topic=nosuch'")
    expect(page.locator("#unknown")).to_have_text(
        "Not heeded, as this page knows no such part of an address: topic. It knows kind, name, all."
    )
    for each in PAGES:
        page.evaluate("each => { location.hash = `#/${each}` }", each)
        expect(page.locator("h1")).not_to_contain_text("no page")
        expect(page.locator("#unknown")).to_have_count(0)
    assert errors == []
    page.close()
