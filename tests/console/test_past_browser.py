"""Lanes of a time that is over, and lanes by offset, in a browser (`make browser`)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from oncelog import Producer
from tests.cli.world import Cli
from tests.console.conftest import Console

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(os.environ.get("ONCELOG_BROWSER") != "all", reason="make browser"),
]
TOPIC = "frozen"


async def _freeze(servers: str, at_ms: int) -> None:
    """As if at `at_ms` somebody had begun, and others had committed behind it."""
    async with (
        Producer(bootstrap_servers=servers, transactional_id="slow-load") as slow,
        Producer(bootstrap_servers=servers, transactional_id="victim") as victim,
    ):
        for producer, late_ms in ((slow, 0), (victim, 5_000)):
            producer.begin_transaction()
            await producer.send(TOPIC, b"x", partition=0, timestamp_ms=at_ms + late_ms)
            await producer.flush()
        await victim.commit_transaction()
        await slow.abort_transaction()


@pytest.fixture(scope="module")
def frozen_s(night: Cli) -> int:
    """When it began: an hour ago."""
    begin_s = int(time.time()) - 3600

    def write() -> None:
        night.create(TOPIC)
        asyncio.run(_freeze(night.bootstrap_servers, begin_s * 1000))

    with ThreadPoolExecutor() as elsewhere:  # Playwright has this thread's loop
        elsewhere.submit(write).result()
    return begin_s


@pytest.fixture
def page(browser: Browser, console: Console) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(console.link)
    page.locator("#lanes[data-spans]").wait_for(timeout=30_000)
    yield page
    assert errors == []
    page.close()


def spans(page: Page) -> dict[str, Any]:
    return {each["name"]: each for each in page.evaluate("window.__lanes") if each["lane"] == f"{TOPIC}-0"}


def test_somebody_looks_at_when_readers_froze(page: Page, frozen_s: int) -> None:
    from playwright.sync_api import expect

    page.get_by_label("topics").fill(TOPIC)
    page.get_by_label("topics").press("Enter")
    moment = time.strftime("%H:%M:%S", time.gmtime(frozen_s + 30))
    page.get_by_label("time", exact=True).fill("half past")
    page.get_by_label("time", exact=True).press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("say a time as 03:12")
    page.get_by_label("time", exact=True).fill(moment)
    page.get_by_label("time", exact=True).press("Enter")
    expect(page.locator("#verdict")).to_contain_text(
        f"{moment} UTC: stopped: 1 of 1 partition, oldest by slow-load for 30s", timeout=15_000
    )
    expect(page.get_by_role("alert")).to_have_count(0)
    assert f"time={time.strftime('%Y-%m-%d', time.gmtime(frozen_s + 30))}T" in page.url, "the address keeps the time"
    expect(page.get_by_label("Who holds readers back")).to_contain_text("held readers of frozen-0 back from ")
    page.locator("#lanes").focus()
    page.keyboard.press("b")
    expect(page.locator("#detail")).to_contain_text("slow-load")
    expect(page.locator("#detail")).to_contain_text("aborted")
    before = spans(page)["slow-load"]["x"]
    page.keyboard.press("l")
    expect(page.locator("#verdict")).to_contain_text("for 1m08s")
    page.wait_for_timeout(500)
    assert spans(page)["slow-load"]["x"] < before, "it has gone to the left"
    for _ in range(3):
        page.keyboard.press("e")
    expect(page.locator("#verdict")).to_contain_text("nobody is stopped")
    page.keyboard.press("0")
    expect(page.locator("#verdict")).to_have_text("Nobody is stopped: 1 partition looked at", timeout=15_000)
    assert "time=" not in page.url
    page.goto(f"{page.url.split('#')[0]}#/lanes?topic={TOPIC}&time=-59m")
    expect(page.locator("#verdict")).to_contain_text("UTC: stopped", timeout=15_000)
    assert "time=-59m" not in page.url, "whoever is sent the address sees the same time"


def test_what_is_being_typed_stays_when_new_data_comes(page: Page) -> None:
    """Each second's answer took it away."""
    page.get_by_label("topics").type("ord")
    page.get_by_label("time", exact=True).type("03:")
    page.wait_for_timeout(2500)
    assert page.get_by_label("topics").input_value() == "ord"
    assert page.get_by_label("time", exact=True).input_value() == "03:"


def test_places_are_those_of_offsets_where_times_are_not_true(page: Page, frozen_s: int, night: Cli) -> None:
    from playwright.sync_api import expect

    async def late() -> None:
        async with Producer(bootstrap_servers=night.bootstrap_servers) as producer:
            await producer.send(TOPIC, b"x", partition=0, timestamp_ms=frozen_s * 1000)

    page.get_by_label("topics").fill(TOPIC)
    page.get_by_label("topics").press("Enter")
    expect(page.locator("#verdict")).to_have_text("Nobody is stopped: 1 partition looked at", timeout=15_000)
    with ThreadPoolExecutor() as elsewhere:
        elsewhere.submit(asyncio.run, late()).result()
    expect(page.locator("#clocks")).to_contain_text("say a time 1h00m before they came", timeout=15_000)
    page.get_by_role("button", name="show by offset").click()
    expect(page.locator("#by-offset")).to_have_attribute("aria-pressed", "true")
    assert "axis=offset" in page.url
    expect(page.locator("#clocks")).to_have_count(0)
    page.get_by_label("time", exact=True).fill(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(frozen_s + 30)))
    page.get_by_label("time", exact=True).press("Enter")
    expect(page.locator("#verdict")).to_contain_text("UTC: stopped", timeout=15_000)
    found = spans(page)
    slow, victim = found["slow-load"], found["victim"]
    # Offsets 0 and 1; the markers lie behind the window. By time they are five seconds apart.
    assert victim["x"] - slow["x"] == pytest.approx(victim["w"], rel=0.05)
    assert slow["w"] == pytest.approx(2 * victim["w"], rel=0.05)
    page.locator("#lanes").focus()
    page.keyboard.press("o")
    expect(page.locator("#by-offset")).to_have_attribute("aria-pressed", "false")
