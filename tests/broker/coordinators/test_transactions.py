"""Transactions end to end over real sockets: both protocols, held requests, markers, fencing."""

from evidence.world.broker import Client, add_request, broker_and_client, eventually, fetch_request, run, visible

from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.list_transactions import ListTransactionsRequest
from oncelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

E = ErrorCode


def test_new_protocol_commits_and_aborts(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init("x")
            for number, commit in enumerate((True, False, True)):
                part = await client.produce("t", f"{number}", producer=producer, sequence=0, transactional_id="x")
                assert part.error_code == E.NONE, part
                assert await client.state("x") == "Ongoing"
                ended = await client.end("x", producer, commit=commit)
                assert (ended.error_code, ended.producer_epoch) == (E.NONE, producer[1] + 1)
                producer = ended.producer_id, ended.producer_epoch
            await eventually(lambda: is_complete(client, "x"))
            assert await client.read("t") == ["0", "2"]
            assert await client.read("t", committed=False) == ["0", "1", "2"]

    run(work())


async def is_complete(client, transactional_id):
    return (await client.state(transactional_id)).startswith("Complete")


def test_old_protocol_is_verified(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init("x", version=4)
            part = await client.produce("t", "no", version=10, producer=producer, sequence=0, transactional_id="x")
            assert part.error_code == E.INVALID_TXN_STATE
            part = await client.produce("t", "no", version=11, producer=producer, sequence=0, transactional_id="x")
            assert part.error_code == E.TRANSACTION_ABORTABLE
            assert await client.add("x", producer, "t") == E.NONE
            part = await client.produce("t", "yes", version=10, producer=producer, sequence=0, transactional_id="x")
            assert part.error_code == E.NONE, part
            assert (await client.end("x", producer, commit=True, version=3)).error_code == E.NONE
            await eventually(lambda: is_complete(client, "x"))
            assert await client.read("t") == ["yes"]

    run(work())


def test_a_reader_sees_nothing_of_an_open_transaction(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.produce("t", "plain")
            producer = await client.init("x")
            await client.produce("t", "open", producer=producer, sequence=0, transactional_id="x")
            await client.produce("t", "behind")
            assert await client.read("t") == ["plain"]
            assert await client.read("t", offset=1) == []
            rules = broker.partitions.existing(TopicPartition("t", 0)).rules
            assert (rules.last_stable_offset, rules.high_watermark) == (1, 3)
            reader = await Client.connect(broker)
            reader.send(fetch_request("t", 1, committed=True, wait_ms=60_000), 12)
            await client.end("x", producer, commit=True)
            _, reply = await reader.receive()  # the marker wakes it
            assert visible(reply.responses[0].partitions[0]) == ["open", "behind"]
            reader.close()

    run(work())


def test_requests_are_held_while_the_previous_transaction_ends(tmp_path):
    """Apache Kafka answers CONCURRENT_TRANSACTIONS here; nothing the client has to retry reaches it."""

    async def work():
        async with broker_and_client(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=5000) as (_, client):
            await client.create("t", 3)
            producer = await client.init("x")
            for number in range(10):
                for partition in range(3):
                    part = await client.produce(
                        "t", f"{number}", partition=partition, producer=producer, sequence=0, transactional_id="x"
                    )
                    assert part.error_code == E.NONE, (number, partition, part)
                ended = await client.end("x", producer, commit=True)
                assert ended.error_code == E.NONE
                producer = ended.producer_id, ended.producer_epoch
            old = await client.init("y", version=4)
            for _ in range(10):
                assert await client.add("y", old, "t") == E.NONE
                offsets = AddOffsetsToTxnRequest(
                    transactional_id="y", producer_id=old[0], producer_epoch=old[1], group_id="g"
                )
                assert (await client.call(offsets, 3)).error_code == E.NONE
                assert (await client.end("y", old, commit=False, version=3)).error_code == E.NONE
            assert await client.add("y", old, "t") == E.NONE
            again = await client.init("y")  # fences the open transaction, is held until it is aborted
            assert again == (old[0], old[1] + 2)

    run(work())


def test_held_requests_get_their_refusal_when_the_bound_ends(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=30) as (broker, client):
            await client.create("t")
            producer = await client.init("x")
            await client.produce("t", "a", producer=producer, sequence=0, transactional_id="x")
            stop_markers(broker)
            ended = await client.end("x", producer, commit=True)
            producer = ended.producer_id, ended.producer_epoch
            part = await client.produce("t", "b", producer=producer, sequence=0, transactional_id="x")
            assert part.error_code == E.CONCURRENT_TRANSACTIONS
            assert await client.add("x", producer, "t") == E.CONCURRENT_TRANSACTIONS
            reply = await client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 5)
            assert reply.error_code == E.CONCURRENT_TRANSACTIONS

    run(work())


def stop_markers(broker):
    """Keep markers from being sent; gives back what sends them after all."""
    sender = broker.transactions.marker_sender
    kept = []
    broker.transactions.marker_sender = type(
        "Kept", (), {"is_local": False, "send": lambda _, markers: kept.append(markers)}
    )()

    def resume():
        broker.transactions.marker_sender = sender
        for markers in kept:
            sender.send(markers)

    return resume


def test_a_held_request_does_not_block_the_end_of_another_transaction_on_its_connection(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=60_000) as (broker, client):
            await client.create("t")
            first, second = await client.init("x"), await client.init("y")
            await client.produce("t", "x1", producer=first, sequence=0, transactional_id="x")
            await client.produce("t", "y1", producer=second, sequence=0, transactional_id="y")
            resume = stop_markers(broker)
            ended = await client.end("x", first, commit=True)
            first = ended.producer_id, ended.producer_epoch
            client.send(add_request("x", first, "t"), 3)  # held: the markers of x are not written
            client.send(end_request("y", second))
            other = await Client.connect(broker)
            await eventually(lambda: has_ended(other))
            resume()
            _, added = await client.receive()
            assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == E.NONE
            other.close()

    async def has_ended(client):
        return await client.state("y") == "PrepareCommit"

    run(work())


def end_request(transactional_id, producer):
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=True
    )


def test_a_newer_instance_fences_the_older(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            old = await client.init("x")
            await client.produce("t", "lost", producer=old, sequence=0, transactional_id="x")
            new = await client.init("x")
            assert new[1] > old[1]
            part = await client.produce("t", "late", producer=old, sequence=1, transactional_id="x")
            assert part.error_code == E.INVALID_PRODUCER_EPOCH
            assert (await client.end("x", old, commit=True)).error_code == E.PRODUCER_FENCED
            await client.produce("t", "kept", producer=new, sequence=0, transactional_id="x")
            await client.end("x", new, commit=True)
            await eventually(lambda: is_complete(client, "x"))
            assert await client.read("t") == ["kept"]

    run(work())


def test_a_transaction_past_its_timeout_is_aborted(tmp_path):
    async def work():
        config = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 10}
        async with broker_and_client(tmp_path, **config) as (_, client):
            await client.create("t")
            reply = await client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=500), 5)
            producer = reply.producer_id, reply.producer_epoch
            await client.produce("t", "slow", producer=producer, sequence=0, transactional_id="x")
            await eventually(lambda: is_complete(client, "x"))
            assert await client.state("x") == "CompleteAbort"
            assert await client.read("t") == []

    run(work())


def test_an_operator_aborts_only_a_transaction_that_starts_where_he_says(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init("x")
            await client.produce("t", "plain")
            await client.produce("t", "hanging", producer=producer, sequence=0, transactional_id="x")
            for start, expected in ((0, E.INVALID_TXN_STATE), (1, E.NONE)):
                topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0], txn_start_offsets=[start])
                marker = WritableTxnMarker(
                    producer_id=producer[0], producer_epoch=producer[1], topics=[topic], coordinator_epoch=-1
                )
                reply = await client.call(WriteTxnMarkersRequest(markers=[marker]))
                assert reply.markers[0].topics[0].partitions[0].error_code == expected
            shown = await client.call(DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]))
            assert shown.topics[0].partitions[0].active_producers[0].current_txn_start_offset == -1
            assert await client.read("t") == ["plain"]

    run(work())


def test_markers_for_the_coordinators_own_topic_are_refused(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.init("x")
            topic = WritableTxnMarkerTopic(name="__transaction_state", partition_indexes=[0])
            marker = WritableTxnMarker(producer_id=1, producer_epoch=0, topics=[topic])
            reply = await client.call(WriteTxnMarkersRequest(markers=[marker]))
            assert reply.markers[0].topics[0].partitions[0].error_code == E.INVALID_REQUEST

    run(work())


def test_a_coordinator_fenced_by_an_operators_marker_still_completes(tmp_path):
    """The partition has met a higher coordinator epoch: it is asked for, and the marker sent again with it."""

    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init("x", version=4)
            marker = WritableTxnMarker(
                producer_id=producer[0],
                producer_epoch=producer[1],
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                coordinator_epoch=7,
            )
            await client.call(WriteTxnMarkersRequest(markers=[marker]))
            assert await client.add("x", producer, "t") == E.NONE
            part = await client.produce("t", "v", version=10, producer=producer, sequence=0, transactional_id="x")
            assert part.error_code == E.NONE
            await client.end("x", producer, commit=True, version=3)
            await eventually(lambda: is_complete(client, "x"))
            assert await client.read("t") == ["v"]

    run(work())


def test_idempotent_retries_are_answered_with_the_first_offsets(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init()
            first = await client.produce("t", "a", "b", producer=producer, sequence=0)
            again = await client.produce("t", "a", "b", producer=producer, sequence=0)
            assert (again.error_code, again.base_offset) == (E.NONE, first.base_offset)
            gap = await client.produce("t", "c", producer=producer, sequence=5)
            assert gap.error_code == E.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert await client.read("t") == ["a", "b"]

    run(work())


def test_lists_are_of_all_coordinators(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            names = [f"id-{number}" for number in range(8)]
            for name in names:
                await client.init(name)
            reply = await client.call(ListTransactionsRequest(state_filters=["Empty", "Nonsense"]))
            assert sorted(each.transactional_id for each in reply.transaction_states) == names
            assert reply.unknown_state_filters == ["Nonsense"]
            refused = await client.call(ListTransactionsRequest(transactional_id_pattern="("))
            assert refused.error_code == E.INVALID_REGULAR_EXPRESSION

    run(work())


def test_deleting_a_topic_does_not_keep_its_transaction_from_ending(tmp_path):
    async def work():
        from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        async with broker_and_client(tmp_path) as (_, client):
            await client.create("gone")
            await client.create("kept")
            producer = await client.init("x")
            for topic in ("gone", "kept"):
                await client.produce(topic, "v", producer=producer, sequence=0, transactional_id="x")
            deleted = await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=5_000))
            assert deleted.responses[0].error_code == E.NONE
            await client.end("x", producer, commit=True)
            await eventually(lambda: is_complete(client, "x"))
            assert await client.read("kept") == ["v"]

    run(work())
