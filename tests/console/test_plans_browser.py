"""Plans in a browser: what they show, what has to be typed, what is told of a mistake."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from oncelog import sync
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.recipes import SqliteDatabase
from oncelog.testing import TestBroker
from oncelog.types import PreparedTxnState
from tests.cli.world import Cli
from tests.console.conftest import Console
from tests.console.test_more_browser import page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = os.environ.get("ONCELOG_AXE", "")
AGAINST = os.environ.get("ONCELOG_BROWSER_AGAINST", "")
SCREENSHOTS = os.environ.get("ONCELOG_SCREENSHOTS", "")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(os.environ.get("ONCELOG_BROWSER") != "all", reason="make browser"),
]


def looked_at(page: Page, name: str) -> None:
    """No violation of WCAG 2 AA and nothing that scrolls sideways, light and dark, wide and narrow."""
    for width in (1440, 390):
        for scheme in ("light", "dark"):
            schemes: Any = scheme
            page.emulate_media(color_scheme=schemes)
            page.set_viewport_size({"width": width, "height": 900})
            if SCREENSHOTS:
                path = str(pathlib.Path(SCREENSHOTS) / f"plan-{name}-{scheme}-{width}.png")
                page.screenshot(path=path, full_page=True)
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{name} scrolls sideways by {wide} px at {width}"
            if AXE:
                page.evaluate(pathlib.Path(AXE).read_text())
                found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']})")
                assert [(each["id"], [n["html"] for n in each["nodes"]]) for each in found["violations"]] == [], name
    page.set_viewport_size({"width": 1440, "height": 900})


def stand(night: Cli, topic: str, group: str) -> None:
    night.create(topic, 2)
    night("produce", topic, "-p", 0, stdin="a\nb\nc\n")
    night("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "-y")


def test_a_group_is_moved_to_an_offset_and_to_a_time(browser: Browser, night: Cli) -> None:
    from playwright.sync_api import expect

    with ThreadPoolExecutor() as elsewhere:  # Playwright has this thread's loop
        elsewhere.submit(stand, night, "walked", "walkers").result()
    errors: list[str] = []
    console = Console(night.bootstrap_servers, "--allow-writes")
    page = page_of(browser, console, errors)
    page.goto(f"{console.link.split('#')[0]}#/groups?group=walkers")
    form = page.get_by_role("form", name="Move positions of walkers")
    form.get_by_role("combobox", name="partition").select_option("0")
    form.get_by_role("combobox", name="to", exact=True).select_option("an offset")
    form.get_by_role("textbox", name="offset").fill("99")
    form.get_by_role("button", name="plan …").click()
    expect(page.get_by_text("offset 99 is out of range: walked-0 ends at 3")).to_be_visible()
    form.get_by_role("textbox", name="offset").fill("1")
    form.get_by_role("button", name="plan …").click()
    expect(page.get_by_text("move 1 position of group walkers: 2 records read again")).to_be_visible()
    row = page.get_by_role("region", name="What will be done").get_by_role("row").nth(1)
    expect(row).to_have_text("walked-0312 records read again")
    expect(page.get_by_text("groups reset-offsets walkers --topic walked:0 --to-offset 1")).to_be_visible()
    looked_at(page, "reset")
    page.get_by_label("to go on").fill("walkers")
    page.get_by_role("button", name="do it").click()
    expect(page.get_by_text("done: move 1 position of group walkers")).to_be_visible()
    positions = page.get_by_role("region", name="Positions of walkers").get_by_role("row")
    expect(positions.nth(1)).to_contain_text("walked-012", timeout=15_000)
    form.get_by_role("combobox", name="to", exact=True).select_option("a time")
    form.get_by_role("textbox", name="time (UTC)").fill("tomorrow")
    form.get_by_role("button", name="plan …").click()
    expect(page.get_by_text("'tomorrow' is no time: write 2026-01-31T12:00 (UTC)")).to_be_visible()
    form.get_by_role("textbox", name="time (UTC)").fill("2001-01-01T00:00")
    form.get_by_role("button", name="plan …").click()
    expect(row).to_have_text("walked-0101 record read again")
    assert errors == []
    page.close()
    console.stop()


def doubtful(night: Cli, file: pathlib.Path) -> None:
    """One that its database committed, one that it did not."""
    night.create("doubtful")
    states = {name: night.leave_open("doubtful", name, two_phase=True) for name in ("billing-1", "billing-2")}
    with SqliteDatabase(file) as database:
        database.migrate()
        for name, state in (("billing-1", states["billing-1"]), ("billing-2", "")):
            database.take_over(name, None)
            writing = database.begin()
            assert writing.store(name, StoredState(1, PreparedTxnState(state)))
            writing.commit()


@pytest.mark.skipif(
    AGAINST == "cluster", reason="Apache Kafka keeps no prepared transaction for who comes after: KIP-939"
)
def test_what_is_in_doubt_is_ended_as_the_database_says(browser: Browser, night: Cli, tmp_path: pathlib.Path) -> None:
    from playwright.sync_api import expect

    file = tmp_path / "shop.sqlite3"
    with ThreadPoolExecutor() as elsewhere:
        elsewhere.submit(doubtful, night, file).result()
    errors: list[str] = []
    console = Console(night.bootstrap_servers, "--allow-writes", "--database", f"sqlite:///{file}")
    page = page_of(browser, console, errors)
    page.goto(f"{console.link.split('#')[0]}#/in-doubt")
    row = page.get_by_role("row").filter(has_text="ledger-7")
    expect(row.get_by_role("cell", name="not-here")).to_be_visible()
    expect(row.get_by_role("button", name="…")).to_have_count(0)
    page.get_by_role("row").filter(has_text="billing-2").get_by_role("button", name="resolve this one …").click()
    expect(page.get_by_text("commit 0, abort 1 as the database says")).to_be_visible(timeout=15_000)
    page.get_by_role("button", name="leave it").click()
    page.get_by_role("button", name="resolve all …").click()
    expect(page.get_by_text("commit 1, abort 1 as the database says, leave 1 as they are")).to_be_visible(
        timeout=15_000
    )
    looked_at(page, "resolve")
    page.get_by_label("to go on").fill("resolve")
    page.get_by_role("button", name="do it").click()
    expect(page.get_by_text("done: committed 1, aborted 1")).to_be_visible(timeout=15_000)
    became = page.get_by_role("region", name="What became of each").get_by_role("row")
    expect(became.filter(has_text="billing-1")).to_contain_text("committed")
    expect(became.filter(has_text="billing-2")).to_contain_text("aborted")
    looked_at(page, "resolved")
    expect(page.locator("h1")).to_have_text("1 in doubt", timeout=15_000)
    assert errors == []
    page.close()
    console.stop()


def test_a_viewer_has_commands_to_copy_and_nothing_to_click(browser: Browser, night: Cli) -> None:
    from playwright.sync_api import expect

    with ThreadPoolExecutor() as elsewhere:
        elsewhere.submit(stand, night, "looked-at", "lookers").result()
    by_proxy = ("--auth", "header:X-User", "--trusted-proxy", "127.0.0.1")
    console = Console(night.bootstrap_servers, "--allow-writes", *by_proxy, "--operator", "ann")
    errors: list[str] = []
    for user, may in (("bob", False), ("ann", True)):
        page = browser.new_page(reduced_motion="reduce", extra_http_headers={"X-User": user})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{console.link}#/open")
        expect(page.locator("header")).to_contain_text(f"{user}: {'may end transactions' if may else 'read-only'}")
        expect(page.get_by_text("transactions abort --topic audit").first).to_be_visible(timeout=30_000)
        expect(page.get_by_role("button", name="abort on audit-0 …")).to_have_count(int(may))
        page.goto(f"{console.link}#/groups?group=lookers")
        expect(page.get_by_role("form")).to_have_count(int(may), timeout=15_000)
        expect(page.get_by_text("groups reset-offsets lookers --to-earliest --dry-run")).to_have_count(int(not may))
        looked_at(page, f"of-{user}")
        page.close()
    assert errors == []
    console.stop()


@pytest.fixture
def secured() -> Iterator[TestBroker]:
    with (
        TestBroker(security="SASL_PLAINTEXT", users={"ann": "correct horse"}) as broker,
        ThreadPoolExecutor() as elsewhere,
    ):
        elsewhere.submit(opened, broker).result()
        yield broker


def opened(broker: TestBroker) -> None:
    with sync.Admin(**broker.client_options("ann")) as admin:
        admin.create_topics(["own"])


def test_somebody_logs_in_and_out(browser: Browser, secured: TestBroker) -> None:
    from playwright.sync_api import expect

    scram = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=SCRAM-SHA-256")
    console = Console(secured.bootstrap_servers, "--login", *scram)
    page, errors = browser.new_page(reduced_motion="reduce"), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{console.link}#/topics")
    page.get_by_label("name").fill("ann")
    page.get_by_label("password").fill("guess")
    looked_at(page, "login")
    page.get_by_role("button", name="log in").click()
    expect(page.get_by_role("alert")).to_have_text(
        "the brokers do not know this name with this password", timeout=15_000
    )
    page.get_by_label("name").fill("ann")
    page.get_by_label("password").fill("correct horse")
    page.get_by_role("button", name="log in").click()
    expect(page.locator("header")).to_contain_text("ann: read-only", timeout=15_000)
    expect(page.get_by_role("cell", name="own")).to_be_visible()
    assert page.url == f"{console.link}#/topics", "the address holds what is looked at, and nothing that was given"
    looked_at(page, "logged-in")
    page.get_by_role("link", name="Lanes").click()
    expect(page.locator("#verdict")).to_have_text("Nobody is stopped: 1 partition looked at", timeout=15_000)
    page.get_by_role("button", name="log out").click()
    expect(page.locator("h1")).to_have_text("Log in")
    assert errors == []
    page.close()
    assert console.stop() == 130
