"""How the transform is called: one after another, several at a time, as long as there is time; what it raises is kept."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.loop import run_simulated

from oncelog.client.processing.results import Results
from oncelog.client.processing.transforming import FailedForGood, LoopTransformer, Reading
from oncelog.client.records import ConsumerRecord
from oncelog.core.processing.steps import Item
from oncelog.errors import (
    InvalidArgument,
    RecordDeserialization,
    SchemaNotFound,
    SchemaRegistryError,
    SchemaRegistryRefused,
    SchemaRegistryUnavailable,
)
from oncelog.types import TopicPartition

RESULTS = Results("out", 1000)
PLAIN = Reading(None, ())


def items(*values):
    return [
        Item(TopicPartition("in", 0), offset, 1, ConsumerRecord("in", 0, offset, 0, 0, None, value, ()))
        for offset, value in enumerate(values)
    ]


def transformer(transform, reading=PLAIN, **options):
    return LoopTransformer(transform, reading, RESULTS, **{"timeout_ms": 1000, **options})


def each(made, given, budget_ms=None, is_stopping=lambda: False):
    return asyncio.run(made.each(given, budget_ms, is_stopping))


def values(found):
    return [[record.value for record in outputs] for outputs in found.outputs]


async def slow(record):
    await asyncio.sleep(0)
    return record.value


async def several(record):
    yield record.value
    yield record.value


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda record: record.value, [[b"a"], [b"b"]]),
        (slow, [[b"a"], [b"b"]]),
        (several, [[b"a", b"a"], [b"b", b"b"]]),
        (lambda record: iter([record.value] * 2), [[b"a", b"a"], [b"b", b"b"]]),
        (lambda record: slow(record), [[b"a"], [b"b"]]),
        (lambda record: None, [[], []]),
    ],
    ids=["function", "coroutine", "async generator", "generator", "gives a coroutine", "nothing"],
)
def test_async_or_not(transform, expected):
    found = each(transformer(transform), items(b"a", b"b"))
    assert values(found) == expected
    assert found.failure is None


def test_the_first_that_fails_ends_it_with_what_came_before():
    def transform(record):
        return record.value if record.offset < 2 else 1 / 0

    found = each(transformer(transform), items(b"a", b"b", b"c", b"d"))
    assert values(found) == [[b"a"], [b"b"]]
    assert isinstance(found.failure.error, ZeroDivisionError)
    assert not found.failure.is_final


def test_what_failed_for_good_is_final_by_its_cause():
    def transform(record):
        raise FailedForGood from KeyError("a")

    failure = each(transformer(transform), items(b"1")).failure
    assert failure is not None
    assert (type(failure.error), failure.is_final, failure.is_outage) == (KeyError, True, False)


def test_errors_that_are_permanent_and_bytes_that_cannot_be_read_are_final():
    def transform(record):
        raise KeyError(record.value)

    assert each(transformer(transform, Reading(None, (LookupError,))), items(b"a")).failure.is_final

    def unreadable(record):
        raise RecordDeserialization("no", ("in", 0), 0)

    assert each(transformer(transform, Reading(unreadable, ())), items(b"a")).failure.is_final


def test_a_cancelled_future_that_a_transform_waits_for_is_its_failure_and_a_cancelled_task_is_none():
    async def awaits_something_cancelled(_):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    found = each(transformer(awaits_something_cancelled), items(b"a"))
    assert isinstance(found.failure.error, asyncio.CancelledError)
    assert not found.failure.is_final

    async def cancelled() -> None:
        task = asyncio.ensure_future(transformer(hangs).each(items(b"a"), None, lambda: False))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def hangs(_):
        await asyncio.Event().wait()

    asyncio.run(cancelled())


def test_a_schema_registry_that_is_away_is_an_outage():
    def raises(error):
        def transform(_):
            raise error

        return each(transformer(transform), items(b"a")).failure

    assert raises(SchemaRegistryUnavailable("down")).is_outage
    assert raises(SchemaRegistryRefused("expired")).is_outage, "each record would have become a dead letter"
    assert raises(SchemaRegistryError("a proxy's page, or an incompatible schema")).is_outage
    assert not raises(SchemaNotFound("schema 99: Schema not found")).is_outage


def test_what_cannot_be_written_is_a_failure_of_its_record():
    assert isinstance(each(transformer(lambda record: 5), items(b"a")).failure.error, InvalidArgument)


def test_records_are_decoded_for_the_transform():
    reading = Reading(lambda record: record._replace(value=int(record.value)), ())
    assert values(each(transformer(lambda record: b"%d" % (record.value + 1), reading), items(b"1"))) == [[b"2"]]


def test_the_time_is_looked_at_between_records_and_one_is_done_in_any_case():
    async def main(_):
        async def transform(record):
            await asyncio.sleep(0.04)
            return record.value

        return await transformer(transform).each(items(*[b"a"] * 5), 100, lambda: False)

    assert len(run_simulated(1, main).outputs) == 3


def test_told_to_stop_it_takes_no_further_record():
    calls = []
    found = each(transformer(lambda record: calls.append(record)), items(b"a", b"b"), is_stopping=lambda: bool(calls))
    assert len(found.outputs) == len(calls) == 1


def test_outputs_of_a_transaction_are_bounded():
    found = each(transformer(lambda record: b"x" * 600), items(b"a", b"b", b"c", b"d"))
    assert len(found.outputs) == 2
    assert found.size_bytes > 1000


def test_several_calls_at_a_time_give_their_outputs_in_order():
    running, most = 0, 0

    async def main(_):
        async def transform(record):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1 / (record.offset + 1))
            running -= 1
            if record.offset == 5:
                raise ValueError
            return record.value

        return await transformer(transform, concurrency=3, timeout_ms=10_000).each(
            items(*[b"%d" % index for index in range(8)]), None, lambda: False
        )

    found = run_simulated(1, main)
    assert values(found) == [[b"0"], [b"1"], [b"2"], [b"3"], [b"4"]]
    assert found.failure is not None
    assert most == 3


def test_a_call_that_never_returns_is_a_failure_that_says_so():
    async def main(_):
        return await transformer(lambda record: asyncio.sleep(3600)).each(items(b"a"), None, lambda: False)

    failure = run_simulated(1, main).failure
    assert str(failure.error) == "the transform took longer than transform_timeout_ms=1000"


def test_a_timeout_of_its_own_is_the_transforms():
    async def transform(record):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1)

    async def main(_):
        return await transformer(transform).each(items(b"a"), None, lambda: False)

    assert str(run_simulated(1, main).failure.error) == ""


def test_a_transform_that_never_waits_lets_the_loop_run():
    ticks = 0

    async def main():
        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        loop = asyncio.get_running_loop()
        ticking = asyncio.ensure_future(tick())

        def transform(record):
            until = loop.time() + 0.02
            while loop.time() < until:
                pass

        await transformer(transform).each(items(*[b"a"] * 5), None, lambda: False)
        ticking.cancel()

    asyncio.run(main())
    assert ticks >= 4


def test_all_together_fail_together():
    made = transformer(lambda records: [record.value for record in records])
    assert values(asyncio.run(made.together(items(b"a", b"b")))) == [[], [b"a", b"b"]]
    failed = asyncio.run(transformer(lambda records: 1 / 0).together(items(b"a", b"b")))
    assert failed.outputs == []
    assert isinstance(failed.failure.error, ZeroDivisionError)
