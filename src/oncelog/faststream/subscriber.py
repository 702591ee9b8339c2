"""Subscribers: each is a member of its group, with a `Processor` that calls the handler and writes what comes of it.

A message's outputs and the position behind it are one transaction. What the handler raises leaves nothing; what is done
about it then is `oncelog.process`' (retries, dead letters, the end), as the AckPolicy says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NoReturn, cast

from faststream._internal.configs import SubscriberUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber import SubscriberUsecase
from faststream.exceptions import (
    FeatureNotSupportedException,
    NackMessage,
    RejectMessage,
    SetupError,
    StopConsume,
    SubscriberNotFound,
)
from faststream.message import AckStatus, StreamMessage
from faststream.middlewares import AckPolicy
from pydantic import ValidationError

from oncelog.client.interceptors import ProducerRecord
from oncelog.client.metrics import ProcessMetrics
from oncelog.client.processing.processor import Processor
from oncelog.client.processing.results import Results
from oncelog.client.processing.transforming import FailedForGood
from oncelog.client.records import ConsumerRecord
from oncelog.core.processing.steps import TRANSACTION_BYTES_MAX
from oncelog.faststream.config import OncelogBrokerConfig
from oncelog.faststream.logs import ERROR, log_context
from oncelog.faststream.message import Parser
from oncelog.faststream.publisher import ReplyPublisher
from oncelog.faststream.turn import Turn, current_turn, taking_turn
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from faststream._internal.endpoint.publisher import PublisherProto
    from faststream._internal.endpoint.subscriber.call_item import CallsCollection

    from oncelog.faststream.specification import OncelogSubscriberSpecification

PERMANENT_ERRORS = (ValidationError, SubscriberNotFound)  # the bytes will not change
READ_BY_HAND = (
    "a subscriber here has a handler; to read by hand take oncelog.Consumer(TOPIC, isolation_level='read_committed')"
)
REFUSED = {
    AckPolicy.ACK_FIRST: "it would commit the position before the handler has done its work, and lose the message with it",
    AckPolicy.MANUAL: "position and outputs are written together when the handler ends: raise AckMessage, NackMessage or "
    "RejectMessage, or await message.nack() or .reject() under another policy",
}
MEANING = {
    AckPolicy.ACK: AckStatus.ACKED,
    AckPolicy.NACK_ON_ERROR: AckStatus.NACKED,
    AckPolicy.REJECT_ON_ERROR: AckStatus.REJECTED,
}


@dataclass(kw_only=True)
class SubscriberConfig(SubscriberUsecaseConfig):
    """What a subscriber is declared with."""

    topics: Sequence[str]
    group_id: str
    batch: bool
    max_workers: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ack_policy(self) -> AckPolicy:
        """NACK_ON_ERROR unless told otherwise."""
        if self._ack_policy is EMPTY:
            return AckPolicy.NACK_ON_ERROR
        try:
            return AckPolicy(self._ack_policy)
        except ValueError:
            raise SetupError(f"subscriber: ack_policy={self._ack_policy!r:.80} is no AckPolicy") from None

    def check(self) -> None:
        """Raises SetupError for what cannot be had."""
        if not self.topics:
            raise SetupError("subscriber: name a topic")
        if self.ack_policy in REFUSED:
            name = f"AckPolicy.{self.ack_policy.name}"
            raise SetupError(f"subscriber: {name} cannot be exactly once: {REFUSED[self.ack_policy]}")
        if self.batch and self.max_workers != 1:
            raise SetupError("subscriber: batch=True calls the handler for one batch at a time: leave max_workers out")
        if self.ack_policy is AckPolicy.REJECT_ON_ERROR and self.options.get("dead_letter_topic") is None:
            raise SetupError(
                "subscriber: AckPolicy.REJECT_ON_ERROR needs a dead_letter_topic, where rejected messages go; AckPolicy.ACK "
                "leaves them out"
            )


class OncelogSubscriber(SubscriberUsecase[Any]):
    """Reads topics as a member of a group; its handlers take effect once."""

    _outer_config: OncelogBrokerConfig

    def __init__(
        self, config: SubscriberConfig, specification: OncelogSubscriberSpecification, calls: CallsCollection[Any]
    ) -> None:
        config.check()
        parser = Parser()
        config.parser = parser.parse_batch if config.batch else parser.parse_message
        config.decoder = parser.decode_batch if config.batch else parser.decode_message
        super().__init__(config, cast("Any", specification), calls)
        self._config = config
        self._tasks = Tasks()
        self._processor: Processor | None = None
        self._work: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None  # what it ended of
        self.is_told_by_app = False  # the application raises it, when all is stopped
        self._has_started = False

    @property
    def topics(self) -> list[str]:
        """With the prefix of the routers around it."""
        return [f"{self._outer_config.prefix}{topic}" for topic in self._config.topics]

    @property
    def group_id(self) -> str:
        """Of the consumer group."""
        return self._config.group_id

    def metrics(self) -> ProcessMetrics | None:
        """What it counted since its start; None before."""
        return None if self._processor is None else self._processor.metrics()

    # -- life

    async def start(self) -> None:
        """Join the group. Raises SetupError, ConfigurationError, KafkaError."""
        if self._work is not None:
            return
        if not self.calls:
            raise SetupError(f"the subscriber of {', '.join(self.topics)} has no handler: {READ_BY_HAND}")
        await super().start()
        self.failure, self.is_told_by_app, self._has_started = None, False, False
        self._processor = processor = self._new_processor()
        self._post_start()
        self._work = work = self._tasks.start(self._run(processor), name="oncelog-faststream", on_end=self._ended)
        started = self._tasks.start(processor.started(), name="oncelog-faststream-start")
        try:
            await asyncio.wait((work, started), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            raise
        finally:
            started.cancel()
        if (failure := self.take_failure()) is not None:
            raise failure
        self._has_started = True

    async def stop(self) -> None:
        """Finish what is begun, leave the group; the broker's graceful_timeout bounds it. In its own handler it does not wait."""
        self.running = False
        work, processor = self._work, self._processor
        if work is None or processor is None:
            return
        processor.stop()
        turn = current_turn()
        if turn is not None and turn.of is self and not turn.is_over:
            return
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError:
            work.cancel()
            raise

    async def _run(self, processor: Processor) -> None:
        try:
            await processor.run()
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - also what is no Exception: `pytest.fail` in a handler
            if not isinstance(error.__cause__, StopConsume):
                self._fail(error)

    def _ended(self, _: object) -> None:
        self._work, self.running = None, False

    def _fail(self, error: BaseException) -> None:
        """It cannot go on, and the application should not look as if it did. Before its start has ended, that raises it."""
        self.failure, self.running = error, False
        if not self._has_started:
            return
        cause = error if isinstance(error, Exception) else None
        self._log(ERROR, f"`{self.specification.call_name}` ended: {error!r:.1000}", self.get_log_context(None), cause)
        if (app := self._outer_config.context.get("app")) is not None:
            self.is_told_by_app = True
            app.after_shutdown(self._tell)  # behind the application's own hooks: all else is to be stopped first
            app.exit()

    async def _tell(self) -> None:
        if (failure := self.take_failure()) is not None:
            raise failure

    def take_failure(self) -> BaseException | None:
        """What it ended of, told once."""
        failure, self.failure = self.failure, None
        return failure

    def _new_processor(self) -> Processor:
        mine, shared = self._config, self._outer_config
        options = {"permanent_errors": PERMANENT_ERRORS, **shared.client_options, **mine.options}
        if (dead_letter_topic := options.get("dead_letter_topic")) is not None:
            options["dead_letter_topic"] = f"{shared.prefix}{dead_letter_topic}"
        options["transform_batch" if mine.batch else "transform"] = self._handle
        self._results = Results(None, options.get("transaction_bytes_max", TRANSACTION_BYTES_MAX))
        return Processor(
            self.topics,
            group_id=mine.group_id,
            concurrency=mine.max_workers,
            stop_timeout_ms=shared.stop_timeout_ms,
            handle_sigterm=False,  # the application's
            **options,
        )

    # -- messages

    async def _handle(self, given: ConsumerRecord | list[ConsumerRecord]) -> list[ProducerRecord]:
        """The transform: what the handler published, to be written with the position behind its message."""
        record = given if isinstance(given, ConsumerRecord) else None
        turn = Turn(self._outer_config.producer, self, self._results.collector(record))
        try:
            with taking_turn(turn):
                await self.process_message(given if record is not None else tuple(given))
        except (StopConsume, SystemExit) as stop:
            self._stop_soon(stop)
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            return self._after(turn.verdict or MEANING[self.ack_policy], error)
        if turn.verdict in (AckStatus.NACKED, AckStatus.REJECTED):
            return self._after(turn.verdict, NackMessage() if turn.verdict is AckStatus.NACKED else RejectMessage())
        return list(turn.records)

    def _after(self, verdict: AckStatus, error: Exception) -> list[ProducerRecord]:
        """Nothing of the message is written. Raises what has it tried again, or made a dead letter; else it is done with."""
        if verdict is AckStatus.NACKED:
            raise error
        if verdict is AckStatus.REJECTED and self._config.options.get("dead_letter_topic") is not None:
            raise FailedForGood from error
        return []

    def _stop_soon(self, stop: StopConsume | SystemExit) -> NoReturn:
        """The handler wants an end: nothing of this message is written, and the next start comes to it again."""
        assert self._processor is not None
        self.running = False
        self._processor.stop()
        if isinstance(stop, SystemExit):
            if (app := self._outer_config.context.get("app")) is not None:
                app.exit()
            raise StopConsume from stop
        raise stop

    def _make_response_publisher(self, message: StreamMessage[Any]) -> Iterable[PublisherProto]:
        return (ReplyPublisher(self._outer_config.producer, message.reply_to),)

    def get_log_context(self, message: StreamMessage[Any] | None) -> dict[str, str]:
        """Topic, group and message."""
        topic = ",".join(self.topics)
        if message is not None:
            raw = message.raw_message
            topic = (raw if isinstance(raw, ConsumerRecord) else raw[0]).topic
        return log_context(topic, self.group_id, message)

    # -- reading by hand

    async def get_one(self, *, timeout: float = 5) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise FeatureNotSupportedException(READ_BY_HAND)

    def __aiter__(self) -> AsyncIterator[StreamMessage[Any]]:
        """Refused."""
        raise FeatureNotSupportedException(READ_BY_HAND)
