"""A client of the old protocol (TV0/1): AddPartitionsToTxn before every new partition, Produce v11, EndTxn v4.

It retries as an old client does, with the same batch and sequence, and asks for a new epoch after a batch whose fate it
does not know (KIP-360).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evidence.simulator.client_life import ClientLife
from evidence.simulator.raw_client import RawProducer
from oncelog.errors import ErrorCode, KafkaError, RequestTimedOut, error_for
from oncelog.types import GroupMetadata, TopicPartition

ATTEMPT_SECONDS = 8.0
AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


@dataclass
class Stored:
    """What `send` gives: the record is stored already."""

    offset: int

    def __await__(self) -> Any:
        return self._itself().__await__()

    async def _itself(self) -> Stored:
        return self


class OldProducer:
    """The part of `Producer` that a life needs."""

    def __init__(self, raw: RawProducer) -> None:
        self._raw = raw
        self._added: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._fate_is_unknown = False

    async def start(self) -> None:
        """InitProducerId."""
        await self._until_answered(self._raw.init)

    async def stop(self, timeout_ms: int = 0) -> None:
        """Nothing stays open."""

    def begin_transaction(self) -> None:
        """The broker hears of it with the first partition."""
        self._added.clear()
        self._groups.clear()

    async def send(self, topic: str, data: bytes, *, partition: int) -> Stored:
        """Store one record."""
        key = TopicPartition(topic, partition)
        if key not in self._added:
            await self._until_answered(lambda: self._raw.add(key))
            self._added.add(key)
        batch, offset = self._raw.batch(key, int(data.split(b" ", 1)[0])), -1

        async def produce() -> ErrorCode:
            nonlocal offset
            code, offset = await self._raw.produce(key, batch)
            return code

        self._fate_is_unknown = True
        await self._until_answered(produce)
        self._fate_is_unknown = False
        return Stored(offset)

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """AddOffsetsToTxn once, then TxnOffsetCommit."""
        name = group.group_id
        if name not in self._groups:
            await self._until_answered(lambda: self._raw.add_offsets(name))
            self._groups.add(name)
        for key, offset in offsets.items():
            await self._until_answered(lambda key=key, offset=offset: self._raw.commit_offset(name, key, offset))

    async def commit_transaction(self) -> None:
        """EndTxn; an empty transaction asks for nothing."""
        await self._end(commit=True)

    async def abort_transaction(self) -> None:
        """EndTxn, then a new epoch where it is needed."""
        await self._end(commit=False)
        if self._fate_is_unknown:
            known = self._raw.identity
            await self._until_answered(lambda: self._raw.init(known))
            self._fate_is_unknown = False

    async def _end(self, *, commit: bool) -> None:
        if self._added or self._groups:
            await self._until_answered(lambda: self._raw.end(commit))

    async def _until_answered(self, ask: Callable[[], Awaitable[ErrorCode]]) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + ATTEMPT_SECONDS
        while True:
            try:
                code = await ask()
            except KafkaError as error:
                code = error.code
            if code is ErrorCode.NONE:
                return
            if code not in AGAIN:
                raise error_for(code, "an old client was refused")
            if loop.time() > ends:
                raise RequestTimedOut(f"an old client had no answer in {ATTEMPT_SECONDS} s; last was {code.name}")
            await asyncio.sleep(0.03)


class OldLife(ClientLife):
    """A life with the old producer and the present consumer."""

    def producer(self, **more: Any) -> Any:
        """The old producer."""
        raw = RawProducer(
            self.cluster,
            self.process,
            self.transactional_id,
            is_new=False,
            timeout_ms=self.cluster.options.transaction_timeout_ms,
        )
        return OldProducer(raw)
