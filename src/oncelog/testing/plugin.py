"""pytest plugin `oncelog`: fixtures with a real broker, loaded only when a test asks for one.

`oncelog_broker` lives for the test session, so each test takes a topic of its own: `oncelog_topic`. `oncelog_producer(...)` and
`oncelog_consumer(...)` make blocking clients that are closed after the test; `oncelog_faults` is a proxy in front of the broker
that refuses, delays, loses or repeats requests.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncelog import sync
    from oncelog.testing.broker import TestBroker
    from oncelog.testing.proxy import FaultyProxy

TEST_NAME_LENGTH_MAX = 150  # a topic's name has 249 characters, and some are left for what a test puts behind it
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
