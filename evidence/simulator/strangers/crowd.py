"""Which strangers a run has, what they find when they come, and that nothing of what they asked for was kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from evidence.simulator.cluster import DATA, Cluster
from evidence.simulator.faults import STRANGER_KINDS
from evidence.simulator.strangers import stories
from evidence.simulator.strangers.denied import DENIED_HOST, denied_requests, rules
from evidence.simulator.strangers.records import wrong_reads, wrong_records
from evidence.simulator.strangers.requests import wrong_administration, wrong_group_requests, wrong_transactions
from evidence.simulator.strangers.stranger import Stranger, keep_asking
from evidence.simulator.strangers.uninvited import Uninvited
from evidence.simulator.strangers.wrong import (
    LARGE_MESSAGE_BYTES,
    MARK,
    SMALL_MESSAGE_BYTES,
    STRANGE,
    STRANGE_LARGE,
    Wrong,
)
from evidence.world.files import SimFiles
from evidence.world.loop import Process
from oncelog.broker.broker import Broker
from oncelog.core.metadata.refusal import Refusal
from oncelog.core.metadata.topics import create_topic
from oncelog.errors import KafkaError
from oncelog.wire.log_records.cluster_metadata import ClientQuotaRecord, QuotaEntity
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

Ask = Callable[[Stranger], Any]
QUOTA_CLIENT = "stranger-quota"
UNLOADABLE = "unloadable"
MUTATIONS_PER_SECOND = 0.05
SEGMENT_BYTES = 1_048_576
TABLES: dict[str, Callable[[], tuple[Wrong, ...]]] = {
    "records": wrong_records,
    "reads": wrong_reads,
    "transactions": wrong_transactions,
    "groups": wrong_group_requests,
    "administration": wrong_administration,
    "denied": denied_requests,
}
STORIES: dict[str, tuple[Ask, ...]] = {
    "transactions": (stories.a_transaction,),
    "groups": (stories.a_classic_member, stories.a_consumer_member),
    "quota": (stories.a_crowd_of_topics,),
    "huge": (stories.a_huge_batch,),
    "producers": (stories.many_producers,),
}
SECONDS_MEAN = {"huge": 5.0, "quota": 1.0}
STORY_SHARE = 0.3
assert set(STRANGER_KINDS) == {*TABLES, *STORIES, UNLOADABLE}


async def prepare(broker: Broker, kinds: tuple[str, ...]) -> None:
    """Their topics, the rules of the authorizer, and a quota."""
    await _create(broker, STRANGE, 2, **{"max.message.bytes": SMALL_MESSAGE_BYTES})
    if "huge" in kinds:
        sizes = {"max.message.bytes": LARGE_MESSAGE_BYTES, "segment.bytes": SEGMENT_BYTES}
        await _create(broker, STRANGE_LARGE, 1, **sizes)
    async with broker.store.changing():
        if "denied" in kinds:
            await broker.store.append(rules())
        if "quota" in kinds:
            entity = [QuotaEntity(entity_type="client-id", entity_name=QUOTA_CLIENT)]
            key = "controller_mutation_rate"
            await broker.store.append([ClientQuotaRecord(entity=entity, key=key, value=MUTATIONS_PER_SECOND)])


async def _create(broker: Broker, topic: str, partitions: int, **configs: int) -> None:
    chosen = [CreatableTopicConfig(name=name, value=str(value)) for name, value in configs.items()]
    asked = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=-1, configs=chosen)
    async with broker.store.changing() as metadata:
        outcome = create_topic(metadata, asked, broker.topics.defaults(topic))
        assert not isinstance(outcome, Refusal), outcome
        await broker.store.append(outcome.records)


class Crowd:
    """All strangers of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._processes: list[Process] = []

    async def before_all(self) -> None:
        """What can only be met while nobody has asked for any group."""
        if UNLOADABLE in self.cluster.options.strangers:
            process = Process(self.cluster.loop, f"stranger-{UNLOADABLE}")
            with contextlib.suppress(KafkaError):
                await process.start(stories.positions_that_cannot_be_loaded(Stranger(self.cluster, process)))

    def start(self) -> None:
        """Let them come."""
        for kind in self.cluster.options.strangers:
            if kind == UNLOADABLE:
                continue
            process = Process(self.cluster.loop, f"stranger-{kind}")
            if kind == "denied":
                process.host = DENIED_HOST
            self._processes.append(process)
            stranger = Stranger(self.cluster, process, QUOTA_CLIENT if kind == "quota" else "stranger")
            seconds = SECONDS_MEAN.get(kind, self.cluster.options.stranger_think_mean)
            process.start(keep_asking(stranger, [partial(_ask, kind)], seconds))

        if self.cluster.options.session_ms:
            process = Process(self.cluster.loop, "uninvited")
            self._processes.append(process)
            process.start(Uninvited(self.cluster, process).comes_again())

    def leave(self) -> None:
        """Kill them: what they left open times out."""
        for process in self._processes:
            process.kill()
            self.cluster.network.cut_process(process)


async def _ask(kind: str, stranger: Stranger) -> None:
    told = STORIES.get(kind, ())
    if told and (kind not in TABLES or stranger.random.random() < STORY_SHARE):
        await stranger.random.choice(told)(stranger)
    else:
        await stranger.must_refuse(stranger.random.choice(TABLES[kind]()))


def check_nothing_kept(disk: SimFiles) -> Iterator[str]:
    """No name and no byte of what was refused is on the disk."""
    mark = MARK.encode()
    for path, content in disk.snapshot(DATA).items():
        if MARK in path or mark in content:
            at = content.find(mark)
            yield f"{path} holds what was refused{f', at {at}: {content[at : at + 40]!r}' if at >= 0 else ''}"
