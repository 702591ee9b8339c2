"""Spans of what the clients do, by OpenTelemetry's messaging conventions; `pip install '.[opentelemetry]'`.

`tracing = Tracing()`, then `tracing=tracing` for a Producer, a Consumer, `oncelog.process`, a DualWriter, and their twins in
`oncelog.sync`. Only the API is needed; what becomes of spans is the application's SDK. Names and attributes are those of the
semantic conventions 1.44.0 (messaging, "Development" there: they may still change).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from oncelog.client import arguments
from oncelog.client.interceptors import ConsumerInterceptor
from oncelog.client.records import ConsumerRecord, RecordMetadata
from oncelog.errors import ConfigurationError, ErrorCode, KafkaError, missing
from oncelog.types import OffsetAndMetadata, TopicPartition
from oncelog.version import __version__

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import Getter, Setter
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider
except ImportError as error:
    raise missing("oncelog.opentelemetry", error, opentelemetry="opentelemetry") from error

__all__ = ["Tracing"]

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
LINKS_MAX = 128  # what SDKs keep of one span's links
KEY_SHOWN_MAX = 256

Headers = Sequence[tuple[str, bytes | None]]


class _Write(Setter[list[tuple[str, bytes | None]]]):
    def set(self, carrier: list[tuple[str, bytes | None]], key: str, value: str) -> None:
        carrier[:] = [each for each in carrier if each[0] != key]  # of a record that is passed on: its sender's
        carrier.append((key, value.encode()))


class _Read(Getter[Headers]):
    def get(self, carrier: Headers, key: str) -> list[str] | None:
        found = [
            value.decode("utf-8", "replace") for name, value in carrier if name.lower() == key and value is not None
        ]
        return found[-1:] or None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


_WRITE, _READ = _Write(), _Read()


class Tracing:
    """What `tracing=` takes. `tracer_provider` None: the global one, as it is when this is made."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        if tracer_provider is not None and not callable(getattr(tracer_provider, "get_tracer", None)):
            raise ConfigurationError(
                f"Tracing({tracer_provider!r:.80}): expected a TracerProvider, or nothing for the global one"
            )
        self._tracer = trace.get_tracer("oncelog", __version__, tracer_provider, SCHEMA_URL)

    # -- the application's

    @contextmanager
    def processing(self, record: ConsumerRecord, *, group_id: str | None = None) -> Iterator[Span]:
        """`with tracing.processing(record):` around what is done with a record: a span `process TOPIC`, current inside.

        It is linked to the span that sent the record, and its child where no span is current. What the block raises sets
        its status, and goes on.
        """
        arguments.instance("record", record, ConsumerRecord)
        arguments.text_or_none("group_id", group_id)
        sent = extracted(record)
        has_parent = trace.get_current_span().get_span_context().is_valid
        attributes = _attributes("process", "process", record.topic) | {
            "messaging.destination.partition.id": str(record.partition),
            "messaging.kafka.offset": record.offset,
            **_key_attributes(record.key, is_tombstone=record.value is None),
            **({"messaging.consumer.group.name": group_id} if group_id is not None else {}),
        }
        with self._tracer.start_as_current_span(
            f"process {record.topic}",
            context=None if has_parent else sent,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=_links([record]),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                _fail(span, error)
                raise

    # -- the clients'

    def begin_send(self, client_id: str, record: Sequence[Any], transaction: Any) -> tuple[Any, _Send]:
        """See `oncelog.client.tracing.Tracing`."""
        topic, value, key, headers, partition = record
        attributes = _attributes("send", "send", topic, client_id) | _key_attributes(key, is_tombstone=value is None)
        if isinstance(partition, int):
            attributes["messaging.destination.partition.id"] = str(partition)
        context = transaction.context_for_send() if isinstance(transaction, _Transaction) else None
        span = self._tracer.start_span(f"send {topic}", context, SpanKind.PRODUCER, attributes)
        return _with_context(headers, span), _Send(span)

    def begin_transaction(self, client_id: str, transactional_id: str) -> _Transaction:
        """See `oncelog.client.tracing.Tracing`."""
        attributes = {
            "messaging.system": "kafka",
            "messaging.client.id": client_id,
            "oncelog.transactional_id": transactional_id,
        }
        return _Transaction(self._tracer.start_span("transaction", None, SpanKind.INTERNAL, attributes))

    def consumer(self, client_id: str, group_id: str | None) -> ConsumerInterceptor:
        """See `oncelog.client.tracing.Tracing`."""
        return _Consumer(self._tracer, client_id, group_id)

    def dual_write(self, transactional_id: str) -> AbstractContextManager[Any]:
        """See `oncelog.client.tracing.Tracing`."""
        return self._dual_write(transactional_id)

    @contextmanager
    def _dual_write(self, transactional_id: str) -> Iterator[Span]:
        attributes = {"messaging.system": "kafka", "oncelog.transactional_id": transactional_id}
        with self._tracer.start_as_current_span(
            "dual write", attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                _fail(span, error)
                raise


class _Send:
    """A span from `send` to the acknowledgement."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def ended(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        if metadata is not None:
            self._span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
            if metadata.offset >= 0:
                self._span.set_attribute("messaging.kafka.offset", metadata.offset)
        if error is not None:
            _fail(self._span, error)
        self._span.end()


class _Transaction:
    """A span from the begin to the outcome."""

    def __init__(self, span: Span) -> None:
        self._span, self._around = span, trace.get_current_span().get_span_context()

    def context_for_send(self) -> Context | None:
        """The transaction's, where the application has begun no span of its own since: else that one is the parent."""
        now = trace.get_current_span().get_span_context()
        return trace.set_span_in_context(self._span) if _is_same(now, self._around) else None

    def failed(self, error: BaseException) -> None:
        _fail(self._span, error)

    def prepared(self) -> None:
        self._span.add_event("prepared")

    def ended(self, outcome: str) -> None:
        self._span.set_attribute("oncelog.transaction.outcome", outcome)
        self._span.end()


class _Consumer(ConsumerInterceptor):
    """A span for each topic of a poll that gave records, and one for each commit of positions."""

    def __init__(self, tracer: trace.Tracer, client_id: str, group_id: str | None) -> None:
        self._tracer, self._client_id = tracer, client_id
        self._group = {} if group_id is None else {"messaging.consumer.group.name": group_id}

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        by_topic: dict[str, list[ConsumerRecord]] = defaultdict(list)
        for record in records:
            by_topic[record.topic].append(record)
        for topic, found in by_topic.items():
            attributes = _attributes("poll", "receive", topic, self._client_id) | self._group
            attributes["messaging.batch.message_count"] = len(found)
            self._tracer.start_span(f"poll {topic}", None, SpanKind.CLIENT, attributes, _links(found)).end()
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for topic in sorted({each.topic for each in offsets}):
            attributes = _attributes("commit", "settle", topic, self._client_id) | self._group
            self._tracer.start_span(f"commit {topic}", None, SpanKind.CLIENT, attributes).end()


def extracted(record: ConsumerRecord) -> Context:
    """The context that a record's headers bring, by the propagators that the application chose (default: W3C's)."""
    return propagate.extract(record.headers, Context(), _READ)


def _links(records: Iterable[ConsumerRecord]) -> list[Link]:
    found: list[Link] = []
    for record in records:
        sent = trace.get_current_span(extracted(record)).get_span_context()
        if sent.is_valid:
            found.append(Link(sent))
            if len(found) == LINKS_MAX:
                break
    return found


def _with_context(headers: Any, span: Span) -> Any:
    """Headers and the span's context behind them; what cannot be headers is left to be refused."""
    pairs: list[Any] = []
    if isinstance(headers, Mapping):
        pairs = list(headers.items())
    elif isinstance(headers, list | tuple):
        pairs = list(headers)
    elif headers is not None:
        return headers
    if not all(isinstance(each, tuple | list) and len(each) == 2 for each in pairs):
        return headers
    propagate.inject(pairs, trace.set_span_in_context(span), _WRITE)
    return pairs


def _attributes(name: str, kind: str, topic: Any, client_id: str | None = None) -> dict[str, Any]:
    found = {
        "messaging.system": "kafka",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": str(topic),
    }
    return found if client_id is None else found | {"messaging.client.id": client_id}


def _key_attributes(key: Any, *, is_tombstone: bool) -> dict[str, Any]:
    """A key that is text; others say nothing to a person, and may be anything."""
    found: dict[str, Any] = {"messaging.kafka.message.tombstone": True} if is_tombstone else {}
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            return found
    return found | {"messaging.kafka.message.key": key[:KEY_SHOWN_MAX]} if isinstance(key, str) else found


def _fail(span: Span, error: BaseException) -> None:
    has_code = isinstance(error, KafkaError) and error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
    name = error.code.name if isinstance(error, KafkaError) and has_code else type(error).__qualname__
    span.set_attribute("error.type", name)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.record_exception(error)


def _is_same(one: SpanContext, other: SpanContext) -> bool:
    return (one.trace_id, one.span_id) == (other.trace_id, other.span_id)
