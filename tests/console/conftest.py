"""One broker for the console's tests, with a transaction left open in every way there is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from evidence.world.kafka_cluster import KafkaCluster

from oncelog import Producer
from oncelog.console import long_look
from oncelog.testing import TestBroker
from tests.cli.world import Cli, damaged_broker

if TYPE_CHECKING:
    from playwright.sync_api import Browser


NIGHT_MS = 14_400_000  # what is open must stay so until the last of these tests, however slow what runs between them is
CONFIG = {
    "transaction.partition.verification.enable": "false",
    "transaction.two.phase.commit.enable": "true",
    "transaction.max.timeout.ms": str(NIGHT_MS),
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a look may take longer than a page waits; what it is told then is for the tests that shorten this."""
    monkeypatch.setattr(long_look, "PATIENCE_S", 120.0)
    monkeypatch.setattr(long_look, "SILENT_S", 120.0)


async def _ended(servers: str) -> None:
    async with Producer(bootstrap_servers=servers, transactional_id="order-api") as producer:
        for commit in (True, False, True):
            producer.begin_transaction()
            await producer.send("orders", b"x", partition=0)
            await producer.flush()
            await (producer.commit_transaction() if commit else producer.abort_transaction())


@pytest.fixture(scope="session")
def night() -> Iterator[Cli]:
    """orders: some ended, then one in progress; payments: one in doubt; audit: one that hangs. Names that look like HTML.

    On oncelog; with ONCELOG_BROWSER_AGAINST=cluster on Apache Kafka, three brokers."""
    is_cluster = os.environ.get("ONCELOG_BROWSER_AGAINST") == "cluster"
    with contextlib.ExitStack() as ends:
        if is_cluster:
            cluster = ends.enter_context(KafkaCluster(CONFIG | {"unstable.api.versions.enable": "true"}))
            cli = Cli(cluster.bootstrap, keeps=False)
        else:
            cli = Cli(ends.enter_context(TestBroker(CONFIG)).bootstrap_servers)
        _begin(cli)
        yield cli


@pytest.fixture
def this_night() -> Iterator[Cli]:
    """As `night`, begun just now: for who looks at the last ten minutes."""
    with TestBroker(CONFIG) as broker:
        cli = Cli(broker.bootstrap_servers)
        _begin(cli)
        yield cli


def _begin(cli: Cli) -> None:
    for topic in ("orders", "payments", "audit"):
        cli.create(topic)
    asyncio.run(_ended(cli.bootstrap_servers))
    cli.leave_open("orders", "<img src=x onerror=alert(1)>", timeout_ms=NIGHT_MS)
    cli.leave_open("payments", "ledger-7", two_phase=True)
    cli.leave_hanging("audit", "gone-etl")


@pytest.fixture(scope="session")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """lost-0 cannot be opened; open there: "lost-holder", and "both", which was aborted since. flip-0 is damaged at offset 2."""

    def both(cli: Cli) -> None:
        cli.create("held")
        in_one_transaction(cli, "both", {"lost": 0, "held": 0})
        in_one_transaction(cli, "lost-holder", {"lost": 0})
        in_one_transaction(cli, "flip-holder", {"flip": 0})

    with damaged_broker(tmp_path_factory.mktemp("damaged"), both) as cli:
        cli("transactions", "force-terminate", "--transactional-id", "both", "-y", "--timeout", "3s", status=1)
        yield cli


def in_one_transaction(cli: Cli, transactional_id: str, places: dict[str, int]) -> None:
    async def work() -> None:
        producer = Producer(bootstrap_servers=cli.bootstrap_servers, transactional_id=transactional_id)
        await producer.start()
        producer.begin_transaction()
        for topic, partition in places.items():
            await producer.send(topic, b"x", partition=partition)
        await producer.detach_transaction()
        await producer.stop()

    asyncio.run(work())


def chromium() -> str | None:
    """The system's browser; Playwright's own download is never asked for."""
    named = os.environ.get("CHROMIUM_PATH")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser(
    night: Cli,
) -> Iterator[Browser]:  # after the broker: Playwright's loop is this thread's for as long as it lasts
    path = chromium()
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium, or say with CHROMIUM_PATH where one is")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A root's Chromium has no sandbox to go into.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


class Console:
    """`oncelog console` as a process of its own; each link of it opens one browser."""

    def __init__(self, bootstrap_servers: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "oncelog", "-b", bootstrap_servers, "console", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        assert self.process.stdout is not None
        ready, self.link = self.process.stdout.readline().split()
        assert ready == "ready"

    @property
    def next_link(self) -> str:
        """What was printed when the last one was used."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().split()[-1]

    def stop(self) -> int:
        """As Ctrl-C does; its exit status."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(20)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return status


@pytest.fixture
def console(night: Cli) -> Iterator[Console]:
    running = Console(night.bootstrap_servers)
    yield running
    if running.process.poll() is None:
        running.stop()
