"""Where outputs and positions are written together: a transactional producer of our own, or a dual writer with its rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Protocol

from oncelog.client.interceptors import ProducerRecord
from oncelog.client.processing.transforming import LoopTransformer
from oncelog.client.producer.producer import Producer
from oncelog.core.processing.steps import Failure, Item
from oncelog.core.processing.verdicts import Verdict, verdict_of
from oncelog.errors import InvalidArgument, KafkaError
from oncelog.host.host import Host
from oncelog.lazy_dataclass import dataclass
from oncelog.types import GroupMetadata, OffsetAndMetadata, TopicPartition

log = logging.getLogger("oncelog.client")

OLD_PRODUCER_STOP_MS = 1000

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Refused(Exception):
    """What was to be written of the `index`-th record cannot be sent; the cause says why."""

    def __init__(self, index: int, cause: BaseException) -> None:
        super().__init__(index)
        self.index, self.cause = index, cause


class RolledBack(Exception):
    """A transform inside the transaction failed at the `index`-th record, and nothing was written."""

    def __init__(self, index: int, failure: Failure) -> None:
        super().__init__(index)
        self.index, self.failure = index, failure


class NotWritten(Exception):
    """The transaction failed; `is_open`: it surely is open and can be aborted."""

    def __init__(self, cause: BaseException, *, is_open: bool) -> None:
        super().__init__(str(cause))
        self.cause, self.is_open = cause, is_open


@dataclass(frozen=True, slots=True)
class Portion:
    """What one transaction holds. `outputs` None: the transform is called inside."""

    items: Sequence[Item]
    outputs: Sequence[Sequence[ProducerRecord]] | None
    offsets: Offsets
    group: GroupMetadata


class Sink(Protocol):
    """Takes portions, one after another."""

    @property
    def transactional_id(self) -> str:
        """Who writes."""
        ...

    async def start(self) -> None:
        """Be ready to write."""
        ...

    async def write(self, portion: Portion) -> int:
        """All of it, or nothing: how many outputs. Raises Refused, RolledBack, NotWritten."""
        ...

    async def abort(self) -> None:
        """After NotWritten or Refused with an open transaction. Raises KafkaError."""
        ...

    async def renew(self) -> None:
        """End what an unknown or fatal outcome left, and be ready again. Raises KafkaError and others."""
        ...

    async def stop(self, timeout_ms: int) -> None:
        """Leave nothing open."""
        ...


def database_failure(failure: Failure) -> Failure:
    """A transform that met a database which is away: the record is not to be blamed."""
    is_outage = verdict_of(failure.error) is Verdict.OUTAGE and not isinstance(failure.error, OSError | KafkaError)
    return replace(failure, is_outage=True) if is_outage and not failure.is_final else failure


async def _send_all(
    target: Any,
    index: int,
    outputs: Sequence[ProducerRecord],
    had_failed_before: Callable[[KafkaError], bool] = lambda _: True,
) -> int:
    """To a producer or a dual write's transaction. Raises Refused for what cannot be sent, else what `send` raises.

    `send` also raises what became of batches before it: where it `had_failed_before` (or nobody knows), a record is to be
    blamed only for what no broker says. Otherwise the portion is halved until the one that is to be blamed stands alone.
    """
    for record in outputs:
        try:
            await target.send(*record)
        except (InvalidArgument, KafkaError) as error:
            if isinstance(error, InvalidArgument) or (
                verdict_of(error) is Verdict.RECORD and not had_failed_before(error)
            ):
                raise Refused(index, error) from error
            raise
    return len(outputs)


class ProducerSink:
    """A producer with a transactional id of its own."""

    def __init__(self, config: Mapping[str, Any], host: Host | None) -> None:
        self._config, self._host = dict(config), host
        self._producer = self._new()

    def _new(self) -> Producer:
        return Producer(host=self._host, **self._config)

    @property
    def transactional_id(self) -> str:
        """Who writes."""
        return str(self._config["transactional_id"])

    async def start(self) -> None:
        """Connect, and end what an earlier life with this id left."""
        await self._producer.start()

    async def write(self, portion: Portion) -> int:
        """Begin, outputs, positions, commit."""
        assert portion.outputs is not None
        count, producer = 0, self._producer
        try:
            producer.begin_transaction()
            for index, outputs in enumerate(portion.outputs):
                count += await _send_all(producer, index, outputs, producer.had_failed_before)
            await producer.send_offsets_to_transaction(portion.offsets, portion.group)
        except KafkaError as error:
            raise NotWritten(error, is_open=not error.fatal) from error
        try:
            await producer.commit_transaction()
        except KafkaError as error:
            # Only an abortable error says that it did not commit; else a new producer finds out.
            raise NotWritten(error, is_open=error.abortable) from error
        return count

    async def abort(self) -> None:
        """Abort what is open."""
        await self._producer.abort_transaction()

    async def renew(self) -> None:
        """Another producer with this id: its start aborts an open transaction, and waits for one that is being ended."""
        await self._producer.stop(OLD_PRODUCER_STOP_MS)
        self._producer = self._new()
        await self._producer.start()

    async def stop(self, timeout_ms: int) -> None:
        """Finish a commit that was begun, abort an open transaction."""
        await self._producer.stop(timeout_ms)


class Writer(Protocol):
    """What is needed of a `oncelog.recipes.DualWriter`; it stays the application's to start and to stop."""

    transactional_id: str

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Rows and records together."""
        ...

    async def recover(self) -> Any:
        """Make both sides agree."""
        ...


class DualWriterSink:
    """Rows, outputs and positions in one dual write; the transform is called inside and gets the database's handle."""

    def __init__(self, writer: Writer, transformer: LoopTransformer) -> None:
        self._writer, self._transformer = writer, transformer

    @property
    def transactional_id(self) -> str:
        """Who writes."""
        return self._writer.transactional_id

    async def start(self) -> None:
        """Complete what an earlier life left."""
        await self._writer.recover()

    async def write(self, portion: Portion) -> int:
        """As the writer's `transaction`: an exception means that nothing was written, or OutcomeUnknown."""
        count = 0
        try:
            async with self._writer.transaction() as transaction:
                for index, item in enumerate(portion.items):
                    outputs = await self._outputs(portion, index, item, transaction.database)
                    count += await _send_all(transaction, index, outputs)
                await transaction.send_offsets_to_transaction(portion.offsets, portion.group)
        except RolledBack:
            raise
        except Refused as refused:
            raise RolledBack(refused.index, Failure(refused.cause, is_final=True)) from refused
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            raise NotWritten(error, is_open=False) from error
        return count

    async def _outputs(self, portion: Portion, index: int, item: Item, database: Any) -> Sequence[ProducerRecord]:
        if portion.outputs is not None:
            return portion.outputs[index]
        found = await self._transformer.inside(item, database)
        if isinstance(found, Failure):
            raise RolledBack(index, database_failure(found))
        return found.records

    async def abort(self) -> None:
        """A dual write that raised is over already."""

    async def renew(self) -> None:
        """Ask what became of it, and be ready again."""
        await self._writer.recover()

    async def stop(self, timeout_ms: int) -> None:
        """It stays the application's."""
