"""Twelve ways in which readers come to stand still, and what `oncelog why` has to say of each.

Each is planted as it arises: by clients that end, by an operator's change, by a broker that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from evidence.freezes.worlds import DAMAGED_OFFSET, LOST, SESSION_MS, STUCK_ID, World, leave_open
from evidence.world.broker import Client
from oncelog import Admin, OffsetAndMetadata, Producer, TopicPartition, sync
from oncelog.core.diagnosis import causes as kinds

ANONYMOUS = "User:ANONYMOUS"
STUCK_TIMEOUT = "20s"  # whoever does not answer may be asked first
STORM_PAUSE_S, STAY_S, STORM_S = 0.3, 0.3, 3.0
YES, AGAIN, LOOK = "with -y", "with --commit -y", "as it is"


@dataclass(frozen=True)
class Plant:
    """`oncelog why NAME` has to name `kind`, with a command that holds `command`, or one of them.

    `typed` says how the command is run afterwards; unless it only looks, the cause has to be gone then.
    """

    kind: str
    name: str
    command: str | tuple[str, ...]
    typed: str
    plant: Callable[[World], contextlib.AbstractContextManager[object]]
    older_than: str = "0s"
    statuses: tuple[int, ...] = (0,)


@contextlib.contextmanager
def rights(world: World) -> Iterator[None]:
    """Somebody denied everybody's look at a topic."""
    topic(world, "secret")
    rule = ("--topic", "secret", "--principal", ANONYMOUS)
    world.command("acls", "add", *rule, "--operation", "describe", "--deny", "-y")
    try:
        yield
    finally:
        world.command("acls", "remove", *rule, "-y")


@contextlib.contextmanager
def marker_stuck(world: World) -> Iterator[None]:
    """A transaction is aborted, and who leads its partition does not take the marker."""
    command = ("transactions", "force-terminate", "--transactional-id", STUCK_ID, "-y", "--timeout", STUCK_TIMEOUT)
    with world.paused():
        world.command(*command, status=1)
        yield
    ends = time.monotonic() + SESSION_MS / 1000
    while world.mend is not None and world.json("transactions", "describe", STUCK_ID)["state"] != "CompleteAbort":
        assert time.monotonic() < ends, "its leader is back, and the marker does not arrive"


@contextlib.contextmanager
def offline(world: World) -> Iterator[None]:
    """Nobody else has it."""
    world.lose()
    ends = time.monotonic() + 2 * SESSION_MS / 1000
    while world.json("topics", "describe", LOST, status=None)[0]["leader"] >= 0 and world.mend is not None:
        assert time.monotonic() < ends, f"{LOST} has a leader as before"
    yield


@contextlib.contextmanager
def damaged(world: World) -> Iterator[None]:
    """A group stands at the batch with a flipped byte."""
    world.position("flip-readers", world.flip, DAMAGED_OFFSET)
    yield


@contextlib.contextmanager
def hanging(world: World) -> Iterator[None]:
    """A transaction on a partition that its coordinator knows nothing of (KAFKA-9144): by a Produce as before KIP-890."""
    asyncio.run(_hang(world, topic(world, "hanging"), "hanging-app"))
    yield


async def _hang(world: World, name: str, transactional_id: str) -> None:
    async with Admin(bootstrap_servers=world.bootstrap) as admin:
        ghost = (await admin.fence_producers([transactional_id]))[transactional_id]
        leader_id = (await admin.describe_topics([name]))[name].partitions[0].leader_id
        leader = next(each for each in (await admin.describe_cluster()).nodes if each.node_id == leader_id)
    client = await Client.connect_to(leader.host, leader.port)
    producer = (ghost.producer_id, ghost.producer_epoch)
    more = {"producer": producer, "sequence": 0, "transactional_id": transactional_id}
    answer = await client.produce(name, "ghost", version=11, **more)
    client.close()
    assert answer.error_code == 0, answer


@contextlib.contextmanager
def prepared(world: World) -> Iterator[None]:
    """Two-phase: its database was going to decide."""
    asyncio.run(leave_open(world.bootstrap, "prepared-app", topic(world, "prepared"), two_phase=True))
    yield


@contextlib.contextmanager
def open_transaction(world: World, name: str = "open") -> Iterator[None]:
    """Its producer is gone."""
    asyncio.run(leave_open(world.bootstrap, "open-app", topic(world, name)))
    yield


@contextlib.contextmanager
def pending(world: World) -> Iterator[None]:
    """A position is stored in a transaction that nobody ends: a member that starts waits for it."""
    where = TopicPartition(topic(world, "pending"), 0)

    async def work() -> None:
        producer = Producer(bootstrap_servers=world.bootstrap, transactional_id="pending-app")
        await producer.start()
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({where: OffsetAndMetadata(0)}, "pending-readers")
        await producer.detach_transaction()
        await producer.stop()

    asyncio.run(work())
    yield


@contextlib.contextmanager
def out_of_range(world: World) -> Iterator[None]:
    """The records where a group stands were deleted."""
    where = TopicPartition(topic(world, "deleted"), 0)
    world.position("late-readers", where, 1)
    world.command("topics", "delete-records", "deleted:0", "--before", "3", "-y")
    yield


@contextlib.contextmanager
def late_member(world: World) -> Iterator[None]:
    """One member has its partitions and does not poll again, so the second waits for it."""
    name = topic(world, "rebalanced", 2)
    with (
        member(world, "slow-members", name, max_poll_interval_ms=300_000),
        threads([lambda ended: poll_until(ended, world, "slow-members", name)]),
    ):
        while world.json("groups", "list", "--state", "PreparingRebalance") == []:
            pass
        yield


@contextlib.contextmanager
def storm(world: World) -> Iterator[None]:
    """Members come and go."""
    name = topic(world, "stormy", 2)

    def come_and_go(ended: threading.Event) -> None:
        while not ended.is_set():
            with consumer(world, "stormy-members", name) as one:
                ends = time.monotonic() + STAY_S
                while time.monotonic() < ends and not ended.is_set():
                    one.poll(50)
            ended.wait(STORM_PAUSE_S)

    with threads([come_and_go, come_and_go, lambda ended: poll_until(ended, world, "stormy-members", name)]):
        time.sleep(STORM_S)  # longer than a group takes to come to rest
        yield


@contextlib.contextmanager
def no_members(world: World) -> Iterator[None]:
    """Nobody reads, and there is something to read."""
    world.position("absent-members", TopicPartition(topic(world, "unread"), 0), 0)
    yield


@contextlib.contextmanager
def quota(world: World) -> Iterator[None]:
    """A byte a second."""
    name = topic(world, "throttled")
    world.position("slow-readers", TopicPartition(name, 0), 0)
    entity = ("--client-id", "slow-readers-reader")
    with member(world, "slow-readers", name):
        world.command("quotas", "set", *entity, "consumer_byte_rate=1", "-y")
        yield
    world.command("quotas", "delete", *entity, "consumer_byte_rate", "-y")


WHETHER_THEY_STAY = (
    "acls list --group absent-members",
    "groups describe absent-members",
)  # with and without access rules
PLANTS = (
    Plant(kinds.MARKER_STUCK, STUCK_ID, f"transactions describe {STUCK_ID}", LOOK, marker_stuck),
    Plant(kinds.OFFLINE, LOST, "topics describe lost -o wide", LOOK, offline, statuses=(0, 1)),
    Plant(kinds.DAMAGED, "flip-readers", f"--from {DAMAGED_OFFSET + 1} --count 1 --exit", LOOK, damaged),
    Plant(kinds.HANGING_TRANSACTION, "hanging", "transactions abort --topic hanging --partition 0", YES, hanging),
    Plant(kinds.PREPARED, "prepared", "transactions complete --transactional-id prepared-app", AGAIN, prepared),
    Plant(kinds.PENDING, "pending-readers", "force-terminate --transactional-id pending-app", YES, pending),
    Plant(kinds.OPEN, "open", "transactions force-terminate --transactional-id open-app", YES, open_transaction),
    Plant(kinds.OUT_OF_RANGE, "late-readers", "groups reset-offsets late-readers", YES, out_of_range),
    Plant(kinds.REBALANCING, "slow-members", "groups describe slow-members --members", LOOK, late_member, "1s"),
    Plant(kinds.REBALANCING, "stormy-members", "groups describe stormy-members --members", LOOK, storm, "1s"),
    Plant(
        kinds.NO_MEMBERS,
        "absent-members",
        ("acls list --group absent-members", "groups describe absent-members"),
        LOOK,
        no_members,
    ),
    Plant(kinds.QUOTA, "slow-readers", "quotas list --client-id slow-readers-reader", LOOK, quota),
    Plant(kinds.RIGHTS, "secret", "acls list --topic secret --matching", LOOK, rights),
)


def topic(world: World, name: str, partitions: int = 1) -> str:
    """A new topic with five records in its first partition."""

    async def work() -> None:
        async with Admin(bootstrap_servers=world.bootstrap) as admin:
            await admin.create_topics({name: partitions})
        async with Producer(bootstrap_servers=world.bootstrap) as producer:
            for number in range(5):
                await producer.send(name, b"%d" % number * 100, partition=0)

    asyncio.run(work())
    return name


def consumer(world: World, group: str, name: str, **more: Any) -> sync.Consumer:
    """A member."""
    options = {"client_id": f"{group}-reader", "enable_auto_commit": False, "auto_offset_reset": "earliest", **more}
    return sync.Consumer(name, bootstrap_servers=world.bootstrap, group_id=group, **options)


@contextlib.contextmanager
def member(world: World, group: str, name: str, **more: Any) -> Iterator[None]:
    """One that has its partitions and reads nothing more."""
    with consumer(world, group, name, **more) as one:
        while not one.assignment():
            one.poll(20)
        yield


def poll_until(ended: threading.Event, world: World, group: str, name: str) -> None:
    """A member in health."""
    with consumer(world, group, name) as one:
        while not ended.is_set():
            one.poll(50)


@contextlib.contextmanager
def threads(works: list[Callable[[threading.Event], None]]) -> Iterator[None]:
    """Each until the block ends."""
    ended = threading.Event()
    running = [threading.Thread(target=work, args=(ended,)) for work in works]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in running:
            thread.join()
