"""A real broker in a thread of the test process: real protocol, real transactions, real files in a temporary directory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from oncelog.broker.broker import Broker
from oncelog.testing.loop_thread import LoopThread


class TestBroker:
    """`with TestBroker() as broker:` — `bootstrap_servers` for any Kafka client. Two-phase commit is on.

    `config` has Kafka's keys. The data is kept in `data_dir` if given, else removed at the end.
    """

    __test__ = False  # not a test class, whatever pytest makes of its name

    def __init__(self, config: Mapping[str, Any] | None = None, data_dir: str | None = None) -> None:
        self._config = {
            "transaction.two.phase.commit.enable": "true",
            "group.initial.rebalance.delay.ms": "0",
            "transaction.state.log.num.partitions": "4",
            "offsets.topic.num.partitions": "4",
            **(config or {}),
        }
        self._data_dir = data_dir
        self.bootstrap_servers = ""

    def __enter__(self) -> Self:
        self._thread = LoopThread("broker", lambda: Broker(data_dir=self._data_dir, config=self._config))
        self.bootstrap_servers = self._thread.start().bootstrap_servers
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.stop()
