"""The producer's shell in virtual time: order, retries, deadlines, back pressure, versions, the end."""

import asyncio

import pytest
from evidence.world.client import CUT, NO_ANSWER, ScriptedBroker, producer, run

from oncelog import TopicPartition, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey

E = ErrorCode


def test_records_leave_in_order_and_are_told_their_offsets():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            sent = [await p.send("t", b"%d" % n, partition=0) for n in range(10)]
            assert [(await delivery).offset for delivery in sent] == list(range(10))
        assert [value for *_, values in broker.produced() for value in values] == [b"%d" % n for n in range(10)]

    run(work)


def test_a_retry_keeps_sequence_and_order():
    """Five are on their way, the first fails: those behind it are refused and come again, in order."""

    async def work():
        broker = ScriptedBroker()
        async with producer(broker, batch_size=1) as p:
            await p.send_and_wait("t", b"known", partition=0)
            broker.script(ApiKey.PRODUCE, E.NOT_ENOUGH_REPLICAS, *[E.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3)
            sent = [await p.send("t", b"%d" % n, partition=0) for n in range(4)]
            await p.flush()
            assert [delivery.result().offset for delivery in sent] == [1, 2, 3, 4]
        stored = [record.value for batch in broker.log["t", 0] for record in batch.records()]
        assert stored == [b"known", b"0", b"1", b"2", b"3"]
        first_attempts = broker.produced()[1:5]
        assert [sequence for _, _, sequence, _ in first_attempts] == [1, 2, 3, 4]
        by_value = {}
        for _, _, sequence, (value,) in broker.produced():
            assert by_value.setdefault(value, sequence) == sequence, "a sequence is permanent"

    run(work)


def test_after_a_batch_failed_for_good_the_next_has_a_new_epoch():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.send_and_wait("t", b"0", partition=0)
            broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE)
            with pytest.raises(errors.RecordTooLarge):
                await p.send_and_wait("t", b"1", partition=0)
            await p.send_and_wait("t", b"2", partition=0)
        assert [(epoch_, sequence) for _, epoch_, sequence, _ in broker.produced()] == [(0, 0), (0, 1), (1, 0)]

    run(work)


def test_a_lost_connection_is_no_loss():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            broker.script(ApiKey.PRODUCE, CUT, NO_ANSWER)
            assert (await p.send_and_wait("t", b"v", partition=0)).offset == 0
        assert [sequence for _, _, sequence, _ in broker.produced()] == [0, 0, 0]

    run(work)


def test_a_connection_that_somebody_else_opens_wakes_the_sender():
    """Metadata and the sender need the same connection at once; both go on when it is there."""

    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.send_and_wait("t", b"0", partition=0)
            broker.script(ApiKey.PRODUCE, E.NOT_LEADER_OR_FOLLOWER)
            broker.script(ApiKey.METADATA, CUT)
            began = loop.time()
            await p.send_and_wait("t", b"1", partition=0)
            assert loop.time() - began < 1

    run(work)


def test_duplicates_are_success_without_an_offset():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.DUPLICATE_SEQUENCE_NUMBER)
        async with producer(broker) as p:
            assert (await p.send_and_wait("t", b"v")).offset == -1

    run(work)


def test_delivery_timeout_ends_the_waiting():
    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker, delivery_timeout_ms=3000, request_timeout_ms=1000) as p:
            await p.send_and_wait("t", b"0", partition=0)
            broker.script(ApiKey.PRODUCE, *[NO_ANSWER] * 9)
            began = loop.time()
            with pytest.raises(errors.RequestTimedOut):
                await p.send_and_wait("t", b"1", partition=0)
            assert 2.5 < loop.time() - began < 3.5
            broker.scripts.clear()
            await p.send_and_wait("t", b"2", partition=0)
        assert broker.produced()[-1][1:3] == (1, 0), "what was sent may be stored: the next has a new epoch"

    run(work)


def test_no_leader_no_hang():
    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker, delivery_timeout_ms=4000, request_timeout_ms=1000, max_block_ms=2000) as p:
            await p.send_and_wait("t", b"0", partition=0)
            broker.leader_id = -1
            broker.script(ApiKey.PRODUCE, E.NOT_LEADER_OR_FOLLOWER)
            p._cluster.view.topics.clear()
            with pytest.raises(errors.RequestTimedOut, match=r"has a leader|no partition"):
                await p.send("t", b"1", partition=0)
            assert 1 < loop.time() < 4
            await asyncio.sleep(2)
            assert len(broker.requests(ApiKey.METADATA)) < 40, "asks again with pauses"

    run(work)


def test_after_a_flush_records_linger_as_before():
    """Else every record behind the first flush would travel in a batch of its own."""

    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker, linger_ms=1000) as p:
            await p.send("t", b"0", partition=0)
            await p.flush()
            assert loop.time() < 0.5, "a flush waits for no linger"
            broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE)
            refused = await p.send("t", b"1", partition=0)
            with pytest.raises(errors.RecordTooLarge):
                await asyncio.gather(p.flush(), refused)
            await p.send("t", b"2", partition=0)
            await asyncio.sleep(0.9)
            await p.send("t", b"3", partition=0)
            await asyncio.sleep(0.5)
        assert [values for *_, values in broker.produced()] == [[b"0"], [b"1"], [b"2", b"3"]]

    run(work)


def test_what_is_sent_soon_does_not_wait_for_its_linger():
    """At once where nothing is on its way; with what was on its way behind it."""

    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker, linger_ms=60_000) as p:
            alone = await p.send("t", b"0", partition=0)
            await asyncio.sleep(0.1)  # the sender has looked, and sleeps until the linger is over
            p.send_soon()
            assert (await alone).offset == 0
            first = await p.send("t", b"1", partition=0)
            p.send_soon()
            await asyncio.sleep(0)
            behind = await p.send("t", b"2", partition=0)
            p.send_soon()
            assert [(await first).offset, (await behind).offset] == [1, 2]
            assert loop.time() < 1

    run(work)


def test_a_batch_without_leader_asks_with_pauses():
    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.send_and_wait("t", b"0", partition=0)
            broker.leader_id = -1
            p._cluster.view.topics.clear()
            await p._cluster.refresh(("t",))
            asked = len(broker.requests(ApiKey.METADATA))
            # As if the leader had gone while the record was being buffered.
            p._accumulator.append(TopicPartition("t", 0), (1, None, b"1", ()), 100, loop.time() * 1000)
            p._sender.wake()
            await asyncio.sleep(5)
            assert 10 < len(broker.requests(ApiKey.METADATA)) - asked < 60
            broker.leader_id = 1
            await p.flush()

    run(work)


def test_unknown_topics_end_with_max_block():
    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker, max_block_ms=1500) as p:
            with pytest.raises(errors.RequestTimedOut, match=r"metadata of topic 'nope'.*UNKNOWN_TOPIC_OR_PARTITION"):
                await p.send("nope", b"v")
            assert loop.time() < 2

    run(work)


@pytest.mark.parametrize("ask", [lambda p: p.send("nope", b"v"), lambda p: p.partitions_for("nope")])
def test_a_topic_that_nobody_creates_fails_in_seconds(ask):
    """It was asked for until max_block_ms was over, a minute."""

    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.send_and_wait("t", b"v")
            began = loop.time()
            with pytest.raises(errors.UnknownTopicOrPartition, match="topic 'nope': create it, or look at its name"):
                await ask(p)
            assert 10 <= loop.time() - began < 12
            await p._cluster.refresh(())
            assert [each.name for each in broker.requests(ApiKey.METADATA)[-1].topics] == ["t"], "asked for no more"
            assert (await p.send_and_wait("t", b"v")).offset == 1

    run(work)


def test_topics_are_created_also_after_others_were_looked_at():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, max_block_ms=1000) as p:
            await p.partitions_for("t")
            assert not broker.requests(ApiKey.METADATA)[-1].allow_auto_topic_creation
            with pytest.raises(errors.RequestTimedOut):
                await p.send("new", b"v")
            assert broker.requests(ApiKey.METADATA)[-1].allow_auto_topic_creation

    run(work)


def test_back_pressure_waits_for_room_and_not_for_ever():
    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker, buffer_memory=1000, max_block_ms=2000, batch_size=300) as p:
            broker.delay_s[ApiKey.PRODUCE] = 0.5
            sent = []
            for _ in range(20):
                sent.append(await p.send("t", bytes(200), partition=0))
                assert p._accumulator.used_bytes <= 1000
            assert loop.time() > 0.5
            await p.flush()
            broker.script(ApiKey.PRODUCE, *[NO_ANSWER] * 50)
            with pytest.raises(errors.RequestTimedOut, match=r"no room for .* buffer_memory=1000"):
                for _ in range(9):
                    await p.send("t", bytes(200), partition=0)
            broker.scripts.clear()
            await p.stop(timeout_ms=100)

    run(work)


def test_at_most_five_requests_are_on_their_way():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, batch_size=1, request_timeout_ms=1000) as p:
            await p.send_and_wait("t", b"known", partition=0)
            broker.script(ApiKey.PRODUCE, *[NO_ANSWER] * 50)
            for n in range(20):
                await p.send("t", b"%d" % n, partition=0)
            await asyncio.sleep(0.5)
            assert len(broker.requests(ApiKey.PRODUCE)) == 1 + 5
            broker.scripts.clear()
            await p.flush()
        assert len(broker.log["t", 0]) == 1 + 20

    run(work)


def test_without_idempotence_one_batch_of_a_partition_is_on_its_way():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, NO_ANSWER, E.NOT_LEADER_OR_FOLLOWER)
        config = {"enable_idempotence": False, "acks": "1", "batch_size": 1, "request_timeout_ms": 1000}
        async with producer(broker, **config) as p:
            for n in range(3):
                await p.send("t", b"%d" % n, partition=0)
            await asyncio.sleep(0.1)
            assert len(broker.requests(ApiKey.PRODUCE)) == 1
            await p.flush()
        assert [r.value for b in broker.log["t", 0] for r in b.records()] == [b"0", b"1", b"2"]
        assert broker.requests(ApiKey.INIT_PRODUCER_ID) == []

    run(work)


def test_acks_0_waits_for_nothing():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, NO_ANSWER)
        async with producer(broker, enable_idempotence=False, acks="0") as p:
            assert (await p.send_and_wait("t", b"v")).offset == -1

    run(work)


@pytest.mark.parametrize(
    ("broker", "transactional_id", "version"),
    [
        (ScriptedBroker(level=1), "x", 11),
        (ScriptedBroker(level=2), "x", 13),
        (ScriptedBroker(level=2, topic_ids=False), "x", 12),
        (ScriptedBroker(level=1), None, 13),
        (ScriptedBroker(level=2, versions={ApiKey.PRODUCE: 9}), None, 9),
    ],
)
def test_produce_versions(broker, transactional_id, version):
    """KIP-890: TV1 stays below the version that adds partitions by itself; ids need to be known."""

    async def work():
        async with producer(broker, transactional_id=transactional_id) as p:
            if transactional_id:
                p.begin_transaction()
            await p.send_and_wait("t", b"v")
            if transactional_id:
                await p.commit_transaction()
        assert broker.versions_asked(ApiKey.PRODUCE) == [version]
        added = broker.versions_asked(ApiKey.ADD_PARTITIONS_TO_TXN)
        assert added == ([3] if transactional_id and broker.level == 1 else [])
        assert broker.versions_asked(ApiKey.END_TXN) == ([4 if broker.level == 1 else 5] if transactional_id else [])

    run(work)


def test_commit_waits_for_every_batch():
    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.PRODUCE] = 1
        async with producer(broker, transactional_id="x", linger_ms=500) as p:
            p.begin_transaction()
            await p.send("t", b"v")
            await p.commit_transaction()
        keys = [key for key, _, _ in broker.asked if key in (ApiKey.PRODUCE, ApiKey.END_TXN)]
        assert keys == [ApiKey.PRODUCE, ApiKey.END_TXN]

    run(work)


def test_abort_drops_what_was_not_sent():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x", linger_ms=10_000) as p:
            p.begin_transaction()
            sent = await p.send("t", b"v")
            await p.abort_transaction()
            with pytest.raises(errors.TransactionAbortable):
                await sent
        assert broker.requests(ApiKey.PRODUCE) == []

    run(work)


def test_a_commit_that_takes_too_long_says_what_it_waits_for():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x", max_block_ms=1000, request_timeout_ms=10_000) as p:
            p.begin_transaction()
            await p.send_and_wait("t", b"v")
            broker.script(ApiKey.END_TXN, NO_ANSWER)
            with pytest.raises(errors.RequestTimedOut, match=r"commit_transaction not done.*END_TXN at broker:9092"):
                await p.commit_transaction()
            with pytest.raises(errors.IllegalState, match="must be called again"):
                p.begin_transaction()
            broker.script(ApiKey.END_TXN)
            await asyncio.sleep(9.5)
            await p.commit_transaction()
            p.begin_transaction()

    run(work)


def test_a_commit_whose_records_are_refused_too_long_says_why():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x", max_block_ms=1000) as p:
            p.begin_transaction()
            broker.script(ApiKey.PRODUCE, *[E.NOT_ENOUGH_REPLICAS] * 4)
            await p.send("t", b"v")
            with pytest.raises(errors.RequestTimedOut, match=r"1 batches for t-\d; last error: NOT_ENOUGH_REPLICAS"):
                await p.commit_transaction()
            await p.commit_transaction()

    run(work)


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_a_transaction_that_was_ended_inside_of_its_block_is_not_ended_again(end):
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x") as p, p.transaction():
            await p.send_and_wait("t", b"v")
            await getattr(p, end)()
        assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [end == "commit_transaction"]

    run(work)


def test_a_commit_that_timed_out_inside_of_its_block_is_waited_for_at_the_end():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x", max_block_ms=1000, request_timeout_ms=1500) as p:
            async with p.transaction():
                await p.send_and_wait("t", b"v")
                broker.script(ApiKey.END_TXN, NO_ANSWER)
                with pytest.raises(errors.RequestTimedOut):
                    await p.commit_transaction()
            p.begin_transaction()

    run(work)


def test_a_batch_that_fails_makes_commit_fail_and_abort_heal():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x") as p:
            broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE)
            with pytest.raises(errors.RecordTooLarge):
                async with p.transaction():
                    await p.send("t", b"v")
            assert [request.committed for request in broker.requests(ApiKey.END_TXN)] == [False]
            async with p.transaction():
                await p.send("t", b"w")
        assert broker.requests(ApiKey.END_TXN)[-1].committed

    run(work)


def test_fenced_is_for_ever():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x") as p:
            p.begin_transaction()
            broker.script(ApiKey.PRODUCE, E.PRODUCER_FENCED)
            sent = await p.send("t", b"v")
            with pytest.raises(errors.ProducerFenced):
                await sent
            for call in (p.commit_transaction(), p.abort_transaction(), p.send("t", b"w")):
                with pytest.raises(errors.ProducerFenced):
                    await call
            with pytest.raises(errors.ProducerFenced):
                p.begin_transaction()
        assert broker.requests(ApiKey.END_TXN) == []

    run(work)


def test_calls_outside_their_time():
    async def work():
        broker = ScriptedBroker()
        p = producer(broker, transactional_id="x")
        with pytest.raises(errors.IllegalState, match="not running"):
            await p.send("t", b"v")
        with pytest.raises(errors.IllegalState, match="not running"):
            p.begin_transaction()
        async with p:
            with pytest.raises(errors.IllegalState, match="needs an open transaction"):
                await p.send("t", b"v")
            with pytest.raises(errors.IllegalState, match="started before"):
                await p.start()
            p.begin_transaction()
            with pytest.raises(errors.InvalidPartitions):
                await p.send("t", b"v", partition=9)
            with pytest.raises(errors.RecordTooLarge):
                await p.send("t", bytes(2_000_000))
        with pytest.raises(errors.IllegalState, match="not running"):
            await p.send("t", b"v")
        with pytest.raises(errors.IllegalState, match="not running"):
            await p.abort_transaction()
        async with producer(broker) as plain:
            with pytest.raises(errors.IllegalState, match="transactional_id"):
                plain.begin_transaction()

    run(work)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"value": "text"}, "value must be bytes"),
        ({"key": 5}, "key must be"),
        ({"headers": {"h": "x"}}, "header 'h' must"),
    ],
)
def test_what_is_no_bytes_is_refused_at_once(wrong, says):
    async def work():
        async with producer(ScriptedBroker()) as p:
            with pytest.raises(TypeError, match=says):
                await p.send("t", **wrong)
            await p.send_and_wait("t", bytearray(b"v"), headers=[("h", memoryview(b"x"))])

    run(work)


def test_stop_sends_what_is_buffered():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, linger_ms=60_000, delivery_timeout_ms=200_000) as p:
            sent = await p.send("t", b"v")
        assert sent.result().offset == 0

    run(work)


def test_stop_does_not_hang_on_a_dead_cluster(caplog):
    async def work(loop):
        broker = ScriptedBroker()
        p = producer(broker)
        await p.start()
        sent = await p.send("t", b"v")
        await sent
        broker.is_reachable = False
        broker.script(ApiKey.PRODUCE, CUT)
        lost = await p.send("t", b"w")
        began = loop.time()
        await p.stop(timeout_ms=2000)
        assert loop.time() - began < 3
        assert "unfinished work: it was not done within 2000 ms" in caplog.text
        with pytest.raises(errors.KafkaError):
            lost.result()

    run(work)


def test_start_says_who_was_not_there():
    async def work():
        broker = ScriptedBroker()
        broker.is_reachable = False
        with pytest.raises(errors.RequestTimedOut, match=r"connect to the cluster.*nobody listens on broker:9092"):
            await producer(broker, default_api_timeout_ms=3000).start()

    run(work)


@pytest.mark.parametrize("answers", ["nobody", "metadata only, late"])
def test_a_transactional_start_is_bounded_by_max_block_as_kafkas_init_transactions(answers, caplog):
    """Connecting took default_api_timeout_ms, and only what came behind it max_block_ms."""

    async def work(loop):
        broker = ScriptedBroker()
        if answers == "nobody":
            broker.is_reachable = False
        else:
            broker.delay_s[ApiKey.METADATA] = 2
            broker.script(ApiKey.INIT_PRODUCER_ID, *[NO_ANSWER] * 20)
        began = loop.time()
        with pytest.raises(errors.RequestTimedOut, match=r"within (3000 ms|max_block_ms=3000)"):
            await producer(broker, transactional_id="x", max_block_ms=3000).start()
        assert 2.5 < loop.time() - began < 3.2
        assert "tried for 3000 ms at most" in caplog.text or answers != "nobody"

    run(work)


def test_a_start_without_transactions_may_take_longer_than_a_send_may_wait():
    """max_block_ms=0 (a send that never waits) is no reason not to connect."""

    async def work():
        broker = ScriptedBroker()
        async with producer(broker, max_block_ms=0):
            pass

    run(work)


def test_two_phase_commit_needs_the_version_that_has_it():
    async def work():
        broker = ScriptedBroker(versions={ApiKey.INIT_PRODUCER_ID: 5})
        with pytest.raises(errors.UnsupportedVersion, match="InitProducerId: needs version 6 to 6, the broker offers"):
            await producer(broker, transactional_id="x", transaction_two_phase_commit_enable=True).start()

    run(work)


@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_until_the_leader_knows_the_identity_one_batch_is_on_its_way(transactional_id):
    """A leader without state takes any sequence: where the first batch is refused, the second must not be stored.

    Apache Kafka, a topic that the first Produce creates: sequence 0 was refused with NOT_LEADER_OR_FOLLOWER, 1 was stored.
    """
    epochs = 1 if transactional_id is None else 2

    async def work():
        broker = ScriptedBroker()
        async with producer(broker, batch_size=1, transactional_id=transactional_id) as p:
            for round_ in range(epochs):
                if transactional_id is not None:
                    p.begin_transaction()
                broker.script(ApiKey.PRODUCE, E.NOT_LEADER_OR_FOLLOWER)
                values = range(4 * round_, 4 * round_ + 4)
                sent = [await p.send("t", b"%d" % n, partition=0) for n in values]
                await p.flush()
                assert [delivery.result().offset for delivery in sent] == list(values)
                if transactional_id is not None:
                    await p.commit_transaction()
        numbers = [(producer_epoch, sequence) for _, producer_epoch, sequence, _ in broker.produced()]
        assert numbers == [(each, sequence) for each in range(epochs) for sequence in (0, 0, 1, 2, 3)]
        stored = [record.value for batch in broker.log["t", 0] for record in batch.records()]
        assert stored == [b"%d" % n for n in range(4 * epochs)]

    run(work)
