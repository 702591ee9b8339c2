"""Who aborted, fenced, changed or deleted what, and what timed out: records of a topic that only the broker writes.

Off unless `oncelog.audit.topic` says so. No request waits for it: what is to be written waits in memory, `WAITING_MAX`
entries at most; what is beyond, or cannot be written, is dropped and counted. Keys are transactional ids, or nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from oncelog.broker.coordinators.routes import LeaderPeer
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.peer import PeerLost
from oncelog.core.metadata.topic_configs import AUDIT_TOPIC
from oncelog.errors import StorageError
from oncelog.host.clock import Clock
from oncelog.types import ProducerIdAndEpoch
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch

_log = logging.getLogger("oncelog.audit_topic")

WAITING_MAX = 1_000
AT_ONCE_MAX = 200  # records of one batch
TEXT_LENGTH_MAX = 2_000
TIMEOUT_MS = 30_000
SETTLE_S = 1.0


class AuditTopic:
    """What waits to be written, and the task that writes it."""

    def __init__(
        self, is_on: Callable[[], bool], topics: Topics, peer: LeaderPeer, clock: Clock, metrics: Metrics
    ) -> None:
        self._is_on = is_on
        self._topics = topics
        self._peer = peer
        self._clock = clock
        self._metrics = metrics
        self._waiting: deque[dict[str, Any]] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._has_warned = False

    def add(
        self,
        event: str,
        what: str,
        *,
        transactional_id: str | None = None,
        producer: ProducerIdAndEpoch | None = None,
        outcome: str = "done",
        principal: str | None = None,
        client_id: str | None = None,
        address: str | None = None,
    ) -> None:
        """Remember something that was decided, at once; `principal` None: the broker decided by itself."""
        if not self._is_on():
            return
        if len(self._waiting) >= WAITING_MAX:
            self._metrics.add("audit_dropped")
            return
        self._waiting.append(
            {
                "time_ms": self._clock.now_ms(),
                "event": event,
                "transactional_id": transactional_id,
                "producer_id": None if producer is None else producer.producer_id,
                "producer_epoch": None if producer is None else producer.producer_epoch,
                "what": what[:TEXT_LENGTH_MAX],
                "outcome": outcome,
                "principal": principal,
                "client_id": None if client_id is None else client_id[:TEXT_LENGTH_MAX],
                "address": address,
            }
        )
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write what waits, as it comes."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                entries = [self._waiting.popleft() for _ in range(min(AT_ONCE_MAX, len(self._waiting)))]
                reason = await self._written(entries)
                self._metrics.add("audit_dropped" if reason else "audit_records", len(entries))
                if reason and not self._has_warned:
                    self._has_warned = True
                    _log.warning("%s cannot be written, its records are dropped: %s", AUDIT_TOPIC, reason)
                elif not reason:
                    self._has_warned = False
            self._idle.set()

    async def settle(self) -> None:
        """Wait until all is written, for a moment: before an orderly stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await self._idle.wait()

    async def _written(self, entries: list[dict[str, Any]]) -> str:
        """Why they are not there; "" where they are."""
        import json  # many a broker writes none

        try:
            topic = await self._topics.create_automatically(AUDIT_TOPIC)
            if topic is None:
                return "the topic may not be created: there are too many"
            batch = build_batch(
                [(each["time_ms"], _key(each), json.dumps(each).encode("ascii"), ()) for each in entries]
            )
            data = [PartitionProduceData(index=0, records=bytes(batch))]
            message = ProduceRequest(
                acks=-1,
                timeout_ms=TIMEOUT_MS,
                topic_data=[TopicProduceData(name=AUDIT_TOPIC, topic_id=topic.topic_id, partition_data=data)],
            )
            response = await self._peer.call(ApiKey.PRODUCE, message)
        except (StorageError, PeerLost) as error:
            return str(error) or type(error).__name__
        part = response.responses[0].partition_responses[0]
        return f"error {part.error_code}" if part.error_code else ""


def _key(entry: dict[str, Any]) -> bytes | None:
    name = entry["transactional_id"]
    return None if name is None else name.encode()
