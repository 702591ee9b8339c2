"""There is no double of a broker here: a real one in the test's process is up in milliseconds, with real transactions."""

from __future__ import annotations

from typing import Any, NoReturn

from faststream._internal.testing.broker import TestBroker
from faststream.exceptions import FeatureNotSupportedException

from oncelog.faststream.broker import OncelogBroker

INSTEAD = (
    "oncelog has a real broker for tests in the place of a double: the pytest fixture oncelog_broker, or "
    "oncelog.testing.TestBroker (docs/faststream.md, Tests)"
)


class TestOncelogBroker(TestBroker[OncelogBroker, OncelogBroker], broker=OncelogBroker):
    """Refused, with the way to a real broker. (AsyncAPI's page asks for one; its dry run shows this, sending works.)"""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise FeatureNotSupportedException(INSTEAD)

    def create_publisher_fake_subscriber(self, broker: OncelogBroker, publisher: Any) -> NoReturn:  # noqa: ARG002
        """Never called."""
        raise FeatureNotSupportedException(INSTEAD)

    async def _fake_connect(self, broker: OncelogBroker, *_: Any, **__: Any) -> NoReturn:  # noqa: ARG002
        raise FeatureNotSupportedException(INSTEAD)
