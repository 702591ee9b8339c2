"""pytest plugin `oncelog`: fixtures with a real broker, loaded only when a test asks for one.

`oncelog_broker` lives for the test session, so each test takes a topic of its own: `oncelog_topic`. `oncelog_producer(...)` and
`oncelog_consumer(...)` make blocking clients that are closed after the test; `oncelog_faults` is a proxy in front of the broker
that refuses, delays, loses or repeats requests. `oncelog_new_broker(...)` makes brokers that a test may kill, restart, pause, or
whose time it moves. A failed test's report has a section with the transactions that are open on the brokers of this process.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncelog import Admin, Consumer, Producer, sync
    from oncelog.testing.broker import TestBroker
    from oncelog.testing.proxy import FaultyProxy

TEST_NAME_LENGTH_MAX = 150  # a topic's name has 249 characters, and some are left for what a test puts behind it
REPORT_TIMEOUT_MS = 2_000
REPORTED_MAX = 20
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def oncelog_broker() -> Iterator[TestBroker]:
    """A broker in this process; its `bootstrap_servers` serve any Kafka client."""
    from oncelog.testing.broker import TestBroker

    with TestBroker() as broker:
        yield broker


@pytest.fixture
def oncelog_topic(oncelog_broker: TestBroker, request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses, empty; also a prefix for more names of this test: groups, transactional ids."""
    from oncelog import sync

    test = re.sub(r"[^a-zA-Z0-9_-]+", "-", f"{request.node.path.stem}-{request.node.name}").strip("-")
    name = f"{test[:TEST_NAME_LENGTH_MAX]}-{next(_numbers)}"
    with sync.Admin(bootstrap_servers=oncelog_broker.bootstrap_servers) as admin:
        admin.create_topics([name])
    return name


@pytest.fixture
def oncelog_faults(oncelog_broker: TestBroker) -> Iterator[FaultyProxy]:
    """A proxy in front of the broker: `oncelog_faults.refuse("EndTxn", 51)`; clients take its `bootstrap_servers`."""
    from oncelog.testing.proxy import FaultyProxy

    with FaultyProxy(oncelog_broker.bootstrap_servers) as proxy:
        yield proxy


@pytest.fixture
def oncelog_producer(oncelog_broker: TestBroker) -> Iterator[Callable[..., sync.Producer]]:
    """A function that makes started producers; arguments are the producer's."""
    from oncelog import sync

    with ExitStack() as stack:
        yield lambda **config: stack.enter_context(
            sync.Producer(**{"bootstrap_servers": oncelog_broker.bootstrap_servers, **config})
        )


@pytest.fixture
def oncelog_consumer(oncelog_broker: TestBroker) -> Iterator[Callable[..., sync.Consumer]]:
    """A function that makes started consumers, read_committed and from the beginning unless told otherwise."""
    from oncelog import sync

    def make(*topics: str, **config: Any) -> sync.Consumer:
        defaults = {
            "bootstrap_servers": oncelog_broker.bootstrap_servers,
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
        }
        return stack.enter_context(sync.Consumer(*topics, **{**defaults, **config}))

    with ExitStack() as stack:
        yield make


@pytest.fixture
def oncelog_new_broker() -> Iterator[Callable[..., TestBroker]]:
    """A function that starts brokers of this test's own; arguments are TestBroker's (process=True: it can be killed)."""
    from oncelog.testing.broker import TestBroker

    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(TestBroker(*args, **options))


@pytest.fixture
def oncelog_async_producer(oncelog_broker: TestBroker) -> Callable[..., Producer]:
    """A function that makes async producers, to be entered in the test's own loop: `async with oncelog_async_producer() as p`."""
    from oncelog import Producer

    return lambda **config: Producer(**{"bootstrap_servers": oncelog_broker.bootstrap_servers, **config})


@pytest.fixture
def oncelog_async_consumer(oncelog_broker: TestBroker) -> Callable[..., Consumer]:
    """As `oncelog_async_producer`; read_committed and from the beginning unless told otherwise."""
    from oncelog import Consumer

    defaults = {
        "bootstrap_servers": oncelog_broker.bootstrap_servers,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
    }
    return lambda *topics, **config: Consumer(*topics, **{**defaults, **config})


@pytest.fixture
def oncelog_async_admin(oncelog_broker: TestBroker) -> Callable[..., Admin]:
    """As `oncelog_async_producer`."""
    from oncelog import Admin

    return lambda **config: Admin(**{"bootstrap_servers": oncelog_broker.bootstrap_servers, **config})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,  # noqa: ARG001 - pytest names it
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test's report says which transactions are open: who waits for one mostly waits for one of these."""
    report = yield
    if report.failed and call.when == "call" and (found := _open_transactions()):
        report.sections.append(("oncelog: open transactions", found))
    return report


def _open_transactions() -> str:
    """Lines, a broker each and its open transactions below; empty where there is none, or nothing of oncelog.testing was used."""
    if "oncelog.testing.broker" not in sys.modules:
        return ""
    from oncelog.errors import OncelogError
    from oncelog.testing.assertions import description_line, open_transactions
    from oncelog.testing.broker import RUNNING

    lines: list[str] = []
    for broker in [each for each in RUNNING if each.is_running]:
        try:
            found = open_transactions(broker, timeout_ms=REPORT_TIMEOUT_MS)
        except OncelogError as error:
            lines.append(f"{broker.bootstrap_servers}: not known: {error}")
            continue
        if found:
            lines.append(f"{broker.bootstrap_servers}:")
            lines += [f"  {description_line(each)}" for each in found[:REPORTED_MAX]]
            lines += [f"  and {len(found) - REPORTED_MAX} more"] if len(found) > REPORTED_MAX else []
    return "\n".join(lines)
