"""Spans, seen by the SDK's exporter in memory: which there are, whose children they are, how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, StatusCode

from oncelog import Consumer, ConsumerRecord, Producer, errors, sync
from oncelog import opentelemetry as module
from oncelog.opentelemetry import Tracing
from oncelog.recipes import SqliteDatabase
from oncelog.recipes.sync import DualWriter
from oncelog.testing import TestBroker


class Spans:
    """What was exported so far, the latest of a name first asked for."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("application")

    def named(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if each.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def options(spans: Spans, oncelog_broker: TestBroker) -> dict[str, Any]:
    return {"bootstrap_servers": oncelog_broker.bootstrap_servers, "tracing": Tracing(spans.provider)}


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    assert of.context is not None
    return span.parent is not None and span.parent.span_id == of.context.span_id


def links_to(span: ReadableSpan, other: ReadableSpan) -> bool:
    assert other.context is not None
    return [each.context.span_id for each in span.links] == [other.context.span_id]


def outcome(span: ReadableSpan) -> object:
    assert span.attributes is not None
    return span.attributes["oncelog.transaction.outcome"]


def test_a_record_is_followed_from_send_to_process(spans: Spans, options: dict[str, Any], oncelog_topic: str) -> None:
    async def work() -> None:
        async with Producer(**options) as producer:
            with spans.tracer.start_as_current_span("request"):
                await producer.send_and_wait(oncelog_topic, b"1", key=b"k", headers={"own": b"h"})
        async with Consumer(
            oncelog_topic, group_id=oncelog_topic, auto_offset_reset="earliest", client_id="reader", **options
        ) as consumer:
            record = await anext(consumer)
            assert [name for name, _ in record.headers] == ["own", "traceparent"]
            with options["tracing"].processing(record, group_id=oncelog_topic):
                trace.get_current_span().set_attribute("done", value=True)
            await consumer.commit()

    asyncio.run(work())
    request, sent = spans.one("request"), spans.one(f"send {oncelog_topic}")
    assert is_child(sent, request)
    assert sent.kind is SpanKind.PRODUCER
    assert dict(sent.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": oncelog_topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "oncelog",
        "messaging.kafka.message.key": "k",
        "messaging.kafka.offset": 0,
    }
    assert sent.status.status_code is StatusCode.UNSET
    polled = spans.one(f"poll {oncelog_topic}")
    assert links_to(polled, sent)
    assert polled.kind is SpanKind.CLIENT
    processed = spans.one(f"process {oncelog_topic}")
    assert is_child(processed, sent)
    assert links_to(processed, sent)
    assert processed.kind is SpanKind.CONSUMER
    assert processed.attributes is not None
    assert processed.attributes["done"] is True
    committed = spans.named(f"commit {oncelog_topic}")[0]
    assert committed.attributes is not None
    assert committed.attributes["messaging.consumer.group.name"] == oncelog_topic
    assert committed.attributes["messaging.operation.type"] == "settle"


def test_a_transaction_has_its_outcome_and_its_records(
    spans: Spans, options: dict[str, Any], oncelog_topic: str
) -> None:
    with sync.Producer(transactional_id=oncelog_topic, **options) as producer:
        with producer.transaction():
            producer.send(oncelog_topic, b"1")
            with spans.tracer.start_as_current_span("inside"):
                producer.send(f"{oncelog_topic}-other", b"1")
        with pytest.raises(KeyError), producer.transaction():
            raise KeyError
        producer.begin_transaction()
        producer.send(oncelog_topic, b"2").result()
    kept, dropped, left = spans.named("transaction")
    assert [outcome(each) for each in (kept, dropped, left)] == ["committed", "aborted", "aborted"]
    assert is_child(spans.named(f"send {oncelog_topic}")[0], kept)
    assert is_child(spans.one(f"send {oncelog_topic}-other"), spans.one("inside"))
    assert kept.attributes is not None
    assert kept.attributes["oncelog.transactional_id"] == oncelog_topic
    assert kept.status.status_code is StatusCode.UNSET


def test_what_was_prepared_has_the_outcome_of_its_decision(
    spans: Spans, options: dict[str, Any], oncelog_topic: str
) -> None:
    options |= {"transactional_id": oncelog_topic, "transaction_two_phase_commit_enable": True}
    with sync.Producer(**options) as producer:
        producer.begin_transaction()
        producer.send(oncelog_topic, b"1")
        producer.complete_transaction(producer.prepare_transaction())
        producer.begin_transaction()
        producer.send(oncelog_topic, b"2")
        producer.prepare_transaction()
    with sync.Producer(**options, keep_prepared_txn=False):  # aborts it: other tests are on this broker
        pass
    decided, left = spans.named("transaction")
    assert [outcome(decided), outcome(left)] == ["committed", "prepared"]
    assert [each.name for each in decided.events] == ["prepared"]


def test_what_fails_has_the_status_and_goes_on(
    spans: Spans, options: dict[str, Any], oncelog_topic: str, oncelog_broker: TestBroker
) -> None:
    with sync.Producer(transactional_id=oncelog_topic, **options) as older:
        older.begin_transaction()
        older.send(oncelog_topic, b"1").result()
        newer = sync.Producer(transactional_id=oncelog_topic, bootstrap_servers=oncelog_broker.bootstrap_servers)
        with newer, pytest.raises(errors.KafkaError) as raised:
            older.commit_transaction()
    failed = spans.one("transaction")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == raised.value.code.name
    assert outcome(failed) == "unknown"
    with sync.Producer(max_request_size=100, **options) as producer:
        with pytest.raises(errors.RecordTooLarge):
            producer.send(oncelog_topic, b"1" * 200)
        with pytest.raises(errors.InvalidArgument):
            producer.send(oncelog_topic, b"1", headers=7)
    large, wrong = spans.named(f"send {oncelog_topic}")[1:]
    assert (large.attributes or {})["error.type"] == "MESSAGE_TOO_LARGE"
    assert (wrong.attributes or {})["error.type"] == "InvalidArgument"
    with pytest.raises(ZeroDivisionError), options["tracing"].processing(a_record(oncelog_broker, oncelog_topic)):
        raise ZeroDivisionError("no")
    assert spans.one(f"process {oncelog_topic}").status.description == "no"


def a_record(broker: TestBroker, topic: str) -> Any:
    with sync.Consumer(topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        return next(consumer)


def test_a_dual_write_holds_its_transaction(
    spans: Spans, options: dict[str, Any], oncelog_topic: str, tmp_path: Any
) -> None:
    database = SqliteDatabase(str(tmp_path / "rows"))
    database.migrate()
    with DualWriter(database, transactional_id=oncelog_topic, **options) as writer:
        with writer.transaction() as tx:
            tx.database.execute("CREATE TABLE rows (value INTEGER)")
            tx.send(oncelog_topic, b"1")
        with pytest.raises(ZeroDivisionError), writer.transaction():
            raise ZeroDivisionError
        writer.complete()
    database.close()
    written, given_up = spans.named("dual write")
    assert written.status.status_code is StatusCode.UNSET
    assert given_up.status.status_code is StatusCode.ERROR
    kept = spans.named("transaction")[0]
    assert is_child(kept, written)
    assert outcome(kept) == "committed"
    assert is_child(spans.one(f"send {oncelog_topic}"), kept)


def test_a_record_that_is_passed_on_has_one_context(spans: Spans, options: dict[str, Any], oncelog_topic: str) -> None:
    with sync.Producer(**options) as producer:
        for headers in ([("traceparent", b"old"), ("a", b"1")], (), None):
            producer.send(oncelog_topic, b"1", headers=headers).result()
    sent = spans.named(f"send {oncelog_topic}")
    found = []
    with sync.Consumer(oncelog_topic, auto_offset_reset="earliest", **options) as consumer:
        while len(found) < 3:
            found += consumer.poll(timeout_ms=10_000)
    for record, span in zip(found, sent, strict=True):
        (context,) = [value for name, value in record.headers if name == "traceparent"]
        assert span.context is not None
        assert format(span.context.span_id, "016x").encode() in (context or b"")
    assert found[0].headers[0] == ("a", b"1")


def test_without_a_context_there_are_no_links(spans: Spans, options: dict[str, Any], oncelog_topic: str) -> None:
    with sync.Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        producer.send(oncelog_topic, None, key=b"\xff", headers=[("traceparent", None)]).result()
    with sync.Consumer(oncelog_topic, auto_offset_reset="earliest", **options) as consumer:
        record = next(consumer)
    with options["tracing"].processing(record):
        pass
    processed = spans.one(f"process {oncelog_topic}")
    assert processed.parent is None
    assert not processed.links
    assert (processed.attributes or {})["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in (processed.attributes or {})


@pytest.mark.parametrize("make", [sync.Producer, lambda **config: sync.Consumer("t", **config)])
def test_what_traces_nothing_is_refused(make: Callable[..., Any]) -> None:
    for wrong in (Tracing, "otel", 1):
        with pytest.raises(errors.ConfigurationError, match="tracing"):
            make(tracing=wrong)


def test_the_names_are_those_of_the_convention(spans: Spans, options: dict[str, Any], oncelog_topic: str) -> None:
    known = {value for value in vars(messaging_attributes).values() if isinstance(value, str)} | {"error.type"}
    kinds = {each.value for each in messaging_attributes.MessagingOperationTypeValues}
    with sync.Producer(**options) as producer, pytest.raises(errors.InvalidPartitions):
        producer.send(oncelog_topic, b"1").result()
        producer.send(oncelog_topic, b"1", partition=99)
    with sync.Consumer(oncelog_topic, group_id=oncelog_topic, auto_offset_reset="earliest", **options) as consumer:
        record = next(consumer)
        consumer.commit()
    with options["tracing"].processing(record, group_id="g"):
        pass
    assert Schemas.V1_44_0.value == module.SCHEMA_URL
    for span in spans.exporter.get_finished_spans():
        assert set(span.attributes or {}) <= known, span.name
        assert (span.attributes or {})["messaging.operation.type"] in kinds


def test_process_is_traced_by_the_same_option(spans: Spans, options: dict[str, Any], oncelog_topic: str) -> None:
    with sync.Producer(**options) as producer:
        producer.send(oncelog_topic, b"1").result()

    def transform(record: ConsumerRecord) -> bytes | None:
        with options["tracing"].processing(record):
            return record.value

    into = f"{oncelog_topic}-into"
    sync.process(oncelog_topic, into=into, group_id=oncelog_topic, transform=transform, until_end=True, **options)
    first, second = spans.one(f"send {oncelog_topic}"), spans.one(f"send {into}")
    assert links_to(spans.one(f"poll {oncelog_topic}"), first)
    assert is_child(spans.one(f"process {oncelog_topic}"), first)
    assert is_child(second, spans.named("transaction")[0])


def test_what_is_given_is_checked() -> None:
    for provider in (5, "x", object()):
        with pytest.raises(errors.ConfigurationError, match="expected a TracerProvider"):
            Tracing(provider)  # type: ignore[arg-type]
    for record in (None, "x"):
        with pytest.raises(errors.InvalidArgument, match="record must be"), Tracing().processing(record):  # type: ignore[arg-type]
            pass
