"""Which open transactions are hanging: KIP-664's rules, producer epochs included."""

import pytest
from evidence.world.broker import run, until
from evidence.world.processes import brokers_in_a_row

from oncelog import Admin, Producer
from oncelog.client.admin.hanging import _Candidate, _why_hanging, probe_ids
from oncelog.client.admin.owners import ANY_AGE_MS, hanging_of
from oncelog.client.admin.topics import TRANSACTIONS_TOPIC
from oncelog.client.admin.transaction_listing import ProducerDescription, TransactionDescription
from oncelog.client.cluster.view import ClusterView
from oncelog.core.placement import coordinator_partition
from oncelog.errors import IllegalState
from oncelog.types import TopicPartition

WHERE, ELSEWHERE = TopicPartition("t", 0), TopicPartition("t", 1)
CANDIDATE = _Candidate(WHERE, ProducerDescription(7, 4, 9, 1000, 0, 100))


def owner(state="Ongoing", producer_epoch=4, partitions=(WHERE,)):
    return TransactionDescription("tid", 1, state, 7, producer_epoch, 60000, 500, partitions, 2000)


@pytest.mark.parametrize(
    ("owners", "reason"),
    [
        ([], "no transactional id has this producer id"),
        ([owner()], ""),
        ([owner(partitions=(ELSEWHERE,))], "does not include this partition"),
        ([owner("CompleteCommit", partitions=())], "(CompleteCommit) does not include this partition"),
        ([owner(producer_epoch=5)], "the coordinator is at producer epoch 5, the partition at 4"),
        ([owner("PrepareAbort", producer_epoch=5)], ""),  # its marker is on its way
        ([owner("PrepareCommit", producer_epoch=5, partitions=(ELSEWHERE,))], "does not include this partition"),
        ([owner("Empty", partitions=()), owner()], ""),
    ],
)
def test_why_hanging(owners, reason):
    found, transactional_id = _why_hanging(CANDIDATE, owners)
    assert bool(found) is bool(reason)
    assert reason in found
    assert transactional_id == ("tid" if owners else None)


def test_durations():
    assert owner().duration_ms == 1500
    assert owner().remaining_ms == 58500
    assert owner("Empty").duration_ms is None
    assert owner("PrepareCommit").remaining_ms is None
    two_phase = TransactionDescription("tid", 1, "Ongoing", 7, 4, 2**31 - 1, 500, (WHERE,), 2000)
    assert two_phase.remaining_ms is None, "two-phase commit has no timeout"


@pytest.mark.parametrize("partition_count", [1, 3, 50, 997])
def test_each_coordinators_partition_has_an_id_to_ask_for(partition_count):
    found = probe_ids(partition_count)
    assert {coordinator_partition(name, partition_count) for name in found.values()} == set(range(partition_count))
    assert all(coordinator_partition(name, partition_count) == number for number, name in found.items())


async def left_open(cluster, owner_index):
    """An open transaction of a coordinator on one process, on a partition that another leads; that partition."""
    await cluster.clients[0].create("t", 3)
    await until(lambda: all("t" in broker.metadata.topics for broker in cluster.brokers))
    topic = cluster.brokers[0].metadata.topics["t"]
    at = next(n for n in range(3) if cluster.brokers[0].node.leadership.leader_of(topic, n) != 1 + owner_index)
    number = next(n for n in range(99) if coordinator_partition(f"pay{n}", 3) == owner_index)
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        producer = Producer(bootstrap_servers=cluster.bootstrap, transactional_id=f"pay{number}")
        await producer.start()
        producer.begin_transaction()
        await producer.send("t", b"x", partition=at)
        await producer.detach_transaction()
        await producer.stop()
        assert await admin.why_owners_may_be_hidden() == []
    return TopicPartition("t", at)


@pytest.mark.parametrize("is_told", [True, False])
def test_where_a_coordinator_is_offline_nothing_is_called_hanging_whoever_is_asked(tmp_path, monkeypatch, is_told):
    """`is_told`: the other processes know of it; else only the coordinator's own leader does, and it is asked."""

    async def work():
        options = {"transaction_state_log_num_partitions": 3}
        async with brokers_in_a_row(tmp_path, **options) as cluster:
            where = await left_open(cluster, 2)
            cluster.clients[2].close()
            await cluster.brokers[2].stop()
            (log,) = tmp_path.glob(f"**/{TRANSACTIONS_TOPIC}-2/0*0.log")
            log.write_bytes(log.read_bytes()[:30])
            await cluster.start_again(2)
            for index in range(3):
                await refused_at(cluster, index, where)

    if not is_told:
        monkeypatch.setattr(ClusterView, "update", update_without_offline)
    run(work())


update = ClusterView.update


def update_without_offline(view, response, *, is_complete):
    for topic in response.topics:
        for partition in topic.partitions:
            partition.offline_replicas = []
    update(view, response, is_complete=is_complete)


async def refused_at(cluster, index, where):
    bootstrap = cluster.bootstrap.split(",")[index]
    async with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=5_000) as admin:
        (why,) = await admin.why_owners_may_be_hidden()
        assert why.startswith(f"{TRANSACTIONS_TOPIC}-2 ")
        found = await admin.describe_producers([where])
        ((start_offset,),) = [[each.transaction_start_offset for each in producers] for producers in found.values()]
        with pytest.raises(IllegalState, match="may have an owner that is not shown"):
            await admin.abort_transaction(where, start_offset=start_offset)
        with pytest.raises(IllegalState, match="may have an owner that is not shown"):
            await admin.find_hanging_transactions(topic="t", max_transaction_timeout_ms=ANY_AGE_MS)
        hidden = []
        (suspect,) = await admin.find_hanging_transactions(
            topic="t", max_transaction_timeout_ms=ANY_AGE_MS, hidden=hidden
        )
        assert suspect.transactional_id is None
        assert [each.split()[0] for each in hidden] == [f"{TRANSACTIONS_TOPIC}-2"]
        assert "does not mean that there is none" in suspect.reason
        assert await hanging_of(admin, [where]) == {}
