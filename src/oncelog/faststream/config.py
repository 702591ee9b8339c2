"""What a broker's parts share: its options, its producer, the prefix of its routers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from faststream._internal.configs import BrokerConfig

from oncelog.client import arguments
from oncelog.faststream.producing import OncelogProducer
from oncelog.lazy_dataclass import dataclass

START_TIMEOUT_MS = 10_000
GRACEFUL_TIMEOUT_S = 15.0
GRACEFUL_TIMEOUT_MAX_S = 86_400


@dataclass(kw_only=True)
class OncelogBrokerConfig(BrokerConfig):
    """A router has one as well, of which only the prefix and what is around messages counts."""

    producer: OncelogProducer = field(default_factory=OncelogProducer)
    client_options: Mapping[str, Any] = field(default_factory=dict)
    start_timeout_ms: int = START_TIMEOUT_MS
    graceful_timeout: float | None = GRACEFUL_TIMEOUT_S

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.integer("start_timeout_ms", self.start_timeout_ms, low=1)
        given = self.graceful_timeout
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= GRACEFUL_TIMEOUT_MAX_S:
            raise arguments.refuse(
                "graceful_timeout", given, "seconds, more than 0", "an open transaction is aborted in them"
            )

    @property
    def stop_timeout_ms(self) -> int:
        """FastStream's graceful_timeout."""
        return max(int((self.graceful_timeout or 0) * 1000), 1)
