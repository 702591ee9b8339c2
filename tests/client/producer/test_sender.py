"""When the sender looks again by itself: nothing comes that would wake it."""

import asyncio

from evidence.world.client import BOOTSTRAP, CUT, ScriptedBroker, run

from oncelog import Producer
from oncelog.core.producer.batch import Acknowledged, ProducerBatch
from oncelog.core.producer.conditional_commit import FEATURE
from oncelog.types import TopicPartition
from oncelog.wire.api import ApiKey


def test_a_leader_that_nobody_knows_is_looked_for_until_there_is_one():
    """Kafka's Sender: metadata is asked for again after each back-off, however often it names no leader or is not answered."""

    async def work():
        broker = ScriptedBroker()
        loop = asyncio.get_running_loop()
        async with Producer(
            host=broker.host(),
            bootstrap_servers=BOOTSTRAP,
            linger_ms=0,
            retry_backoff_ms=100,
            delivery_timeout_ms=60_000,
        ) as producer:
            await (await producer.send("t", b"known", partition=0))
            broker.leader_id = 9  # of no broker that is there
            broker.script(ApiKey.PRODUCE, 6)  # NOT_LEADER_OR_FOLLOWER
            broker.script(ApiKey.METADATA, 0, CUT, CUT)
            begun = loop.time()
            waiting = await producer.send("t", b"waits", partition=0)
            loop.call_later(5, setattr, broker, "leader_id", 1)
            await waiting
            assert 5 <= loop.time() - begun < 7
        assert [values for *_, values in broker.produced()] == [[b"known"], [b"waits"], [b"waits"]]

    run(work)


def test_a_commit_rests_on_what_was_sent_and_on_nothing_else():
    """A batch whose end came before its answer is still on its way, and another one of the same number is not."""

    async def work():
        broker = ScriptedBroker()
        async with Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, transactional_id="x", linger_ms=0) as p:
            p.begin_transaction()
            await (await p.send("t", b"v", partition=0))
            sender, manager = p._sender, p._manager
            connection = await sender._cluster.connection(manager.coordinator)
            connection.versions.supported_features[FEATURE] = (0, 1)
            ended = ProducerBatch(TopicPartition("t", 0), 0, (0,))
            ended.end(Acknowledged(-1))
            sender._unanswered[ended] = connection
            p.send_nowait("t", b"waits", partition=0)
            manager.begin_commit()
            sender._commit_behind(0.0)
            assert not manager.conditional.is_undecided
            del sender._unanswered[ended]

    run(work)
