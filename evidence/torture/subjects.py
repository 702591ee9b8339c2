"""The clients under torture: how each is made, its public calls with right arguments, and how it is used on afterwards.

Another client joins by one more `Subject`. That no public method is left out is a test's business: `left_out`.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Protocol
from uuid import uuid4

from evidence.torture.producers import PRODUCERS
from evidence.world.pausing_database import PausingDatabase
from oncelog import Admin, Consumer, OffsetAndMetadata, Producer, ShareConsumer, TopicPartition
from oncelog.client.admin.admin import Acl, AclFilter, ConfigResource, NewTopic
from oncelog.errors import WakeupError
from oncelog.recipes import DualWriter
from oncelog.types import PreparedTxnState

CONFIG = {"default_api_timeout_ms": 4000, "request_timeout_ms": 4000}

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Subject(Protocol):
    """A client under torture, started. `calls`: name -> the right arguments; what ends the client is not among them."""

    client: Any
    calls: Mapping[str, Arguments]
    is_stop_cancelled: bool

    async def unstarted(self, bootstrap: str) -> Any:
        """A client that is not started yet, on topics that are or are not there."""

    async def start(self, bootstrap: str) -> None:
        """Make and start it."""

    def again(self) -> Any:
        """Another client with the same ids, not started."""

    def work(self, name: str) -> Awaitable[Any]:
        """A right call, for what waits."""

    async def use(self) -> str:
        """Use it as if nothing had been; what is wrong, or nothing."""

    async def stop(self) -> None:
        """The end."""


class ConsumerSubject:
    """A consumer: of a group (either protocol), or without one."""

    def __init__(self, **config: Any) -> None:
        self._config = {**CONFIG, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **config}
        self.topic = f"torture-{uuid4()}"
        here = TopicPartition(self.topic, 0)
        self.here = here
        self.calls: dict[str, Arguments] = {
            "poll": ((), {"timeout_ms": 20, "max_records": 10}),
            "poll_arrow": ((), {"max_records": 10, "timeout_ms": 20, "include_headers": True}),
            "beginning_offsets": (([here],), {}),
            "end_offsets": (([here],), {"isolation_level": "read_committed"}),
            "offsets_for_times": (({here: 0},), {}),
            "lag": ((here,), {}),
            "at_end": ((here,), {}),
            "position": ((here,), {}),
            "seek": ((here, 0), {}),
            "seek_to_beginning": ((here,), {}),
            "seek_to_end": ((here,), {}),
            "seek_to_timestamp": ((0, here), {}),
            "wakeup": ((), {}),
            "pause": ((here,), {}),
            "paused": ((), {}),
            "resume": ((here,), {}),
            "partitions_for_topic": ((self.topic,), {}),
            "topics": ((), {}),
            "metrics": ((), {}),
            "client_instance_id": ((), {}),
            "assignment": ((), {}),
            "subscription": ((), {}),
            "current_positions": ((), {}),
            "subscribe": (([self.topic],), {"listener": None}),
        }
        if "group_id" in config:
            self.calls |= {
                "commit": (({here: OffsetAndMetadata(0)},), {}),
                "committed": (([here],), {"timeout_ms": 1000}),
                "group_metadata": ((), {}),
            }
        else:
            self.calls |= {"assign": (([here],), {}), "unsubscribe": ((), {})}

    async def start(self, bootstrap: str) -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics([self.topic])
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(self.topic, b"0", partition=0)
        self.client = await self.unstarted(bootstrap)
        await self.client.start()
        await self.use()

    async def unstarted(self, bootstrap: str) -> Consumer:
        self._bootstrap = bootstrap
        return self.again()

    def again(self) -> Consumer:
        config = {
            name: f"{value}-{self.topic}" if name == "group_id" else value for name, value in self._config.items()
        }
        return Consumer(self.topic, bootstrap_servers=self._bootstrap, **config)

    def work(self, name: str) -> Awaitable[Any]:
        arguments, named = self.calls[name]
        call: Awaitable[Any] = getattr(self.client, name)(*arguments, **named)
        return call

    async def use(self) -> str:
        """Its one record can be read again."""
        client = self.client
        client.subscribe([self.topic])
        with contextlib.suppress(WakeupError):  # of a `wakeup` that nobody has heard yet
            await client.poll(0)
        for _ in range(200):
            if self.here in client.assignment():
                client.resume(self.here)
                client.seek(self.here, 0)
                break
            await client.poll(20)
        for _ in range(200):
            if [record.value for record in await client.poll(50)] == [b"0"]:
                return ""
        return "its record is not read any more"

    async def stop(self) -> None:
        await self.client.stop()


class ShareSubject:
    """A member of a share group; `use` writes a record, which comes."""

    is_stop_cancelled = False

    def __init__(self) -> None:
        self.topic = f"torture-share-{uuid4()}"
        self._values = itertools.count()
        self.calls: dict[str, Arguments] = {
            "poll": ((), {"timeout_ms": 20}),
            "commit": ((), {}),
            "subscribe": (([self.topic],), {}),
        }

    async def start(self, bootstrap: str) -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics([self.topic])
            group = ConfigResource("group", self.topic)
            await admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
        self.client = await self.unstarted(bootstrap)
        await self.client.start()
        await self.use()

    async def unstarted(self, bootstrap: str) -> ShareConsumer:
        self._bootstrap = bootstrap
        return self.again()

    def again(self) -> ShareConsumer:
        return ShareConsumer(
            self.topic, group_id=self.topic, bootstrap_servers=self._bootstrap, fetch_max_wait_ms=50, **CONFIG
        )

    def work(self, name: str) -> Awaitable[Any]:
        arguments, named = self.calls[name]
        call: Awaitable[Any] = getattr(self.client, name)(*arguments, **named)
        return call

    async def use(self) -> str:
        """A new record comes; those that a cancelled poll had may come before it."""
        value = b"%d" % next(self._values)
        async with Producer(bootstrap_servers=self._bootstrap) as producer:
            await producer.send_and_wait(self.topic, value, partition=0)
        self.client.subscribe([self.topic])
        for _ in range(200):
            if value in [record.value for record in await self.client.poll(50)]:
                return ""
        return "its record does not come"

    async def stop(self) -> None:
        await self.client.stop()


class AdminSubject:
    """An admin client, with a topic, a group and an id of its own."""

    def __init__(self) -> None:
        self.topic = name = f"torture-{uuid4()}"
        here = TopicPartition(name, 0)
        self.calls: dict[str, Arguments] = {
            "abort_transaction": ((here,), {"start_offset": 0, "force": False}),
            "alter_client_quotas": (({"user": "a"}, {"producer_byte_rate": 1e9}), {"validate_only": True}),
            "alter_configs": (({ConfigResource("topic", name): {"retention.ms": "1000"}},), {"validate_only": True}),
            "alter_consumer_group_offsets": ((name, {here: 0}), {}),
            "alter_user_scram_credential": (
                ("a", "SCRAM-SHA-256", "secret"),
                {"iterations": 4096, "salt": b"salt"},
            ),
            "create_acls": (([Acl("topic", name, "User:a", "read")],), {}),
            "create_partitions": (({name: 4},), {"validate_only": True}),
            "create_topics": (([NewTopic(f"{name}-new", 1, 1, {"retention.ms": "1000"})],), {"validate_only": True}),
            "delete_acls": (([AclFilter("topic", name)],), {}),
            "delete_consumer_group_offsets": ((name, [here]), {}),
            "list_share_group_offsets": ((f"{name}-shares",), {}),
            "alter_share_group_offsets": ((f"{name}-shares", {here: 0}), {}),
            "delete_share_group_offsets": ((f"{name}-shares", [name]), {}),
            "delete_groups": (([name],), {}),
            "delete_records": (({here: 0},), {}),
            "delete_topics": (([f"{name}-none"],), {}),
            "describe_acls": ((AclFilter("topic", name),), {}),
            "describe_broker_configs": ((), {"broker_id": None}),
            "describe_client_quotas": (({"user": "a"},), {"any_of": ["client-id"], "strict": False}),
            "client_instance_id": ((), {}),
            "describe_cluster": ((), {}),
            "describe_configs": (([ConfigResource("topic", name)],), {"keys": ["retention.ms"]}),
            "describe_features": ((), {}),
            "describe_groups": (([name],), {}),
            "describe_log_dirs": ((), {}),
            "describe_metadata_quorum": ((), {}),
            "describe_producers": (([here],), {"broker_id": None}),
            "describe_topics": (([name],), {}),
            "describe_transactions": (([name],), {}),
            "describe_user_scram_credentials": ((["a"],), {}),
            "create_delegation_token": ((), {"owner": "a", "renewers": ["b"], "max_lifetime_ms": 1000}),
            "renew_delegation_token": ((b"mac",), {"period_ms": 1000}),
            "expire_delegation_token": ((b"mac",), {"period_ms": 1000}),
            "describe_delegation_tokens": ((["a"],), {}),
            "lanes": ((name,), {"partitions": [0], "window_ms": 1000}),
            "offline_coordinators": ((), {}),
            "why_owners_may_be_hidden": ((), {}),
            "elect_leaders": (([here],), {"election_type": "preferred"}),
            "end_transaction": ((name, PreparedTxnState("1:1"), False), {"timeout_ms": 1000}),
            "fence_producers": (([name],), {"timeout_ms": 1000}),
            "find_hanging_transactions": (
                (),
                {"topic": name, "partition": 0, "broker_id": None, "max_transaction_timeout_ms": 900_000},
            ),
            "force_terminate_transaction": ((name,), {}),
            "list_config_resources": ((["topic"],), {}),
            "list_consumer_group_offsets": ((name, [here]), {"require_stable": False}),
            "list_pending_offset_commits": ((name, [here]), {}),
            "list_groups": ((), {"states": ["Empty"], "types": ["classic"]}),
            "list_offsets": (({here: "latest"},), {"isolation_level": "read_committed"}),
            "list_topics": ((), {"include_internal": True}),
            "list_transactions": (
                (),
                {"states": ["Ongoing"], "producer_ids": [1], "duration_ms": None, "pattern": None},
            ),
            "update_features": (
                ({"transaction.version": 3},),
                {"upgrade_type": "upgrade", "validate_only": True},
            ),
        }

    async def start(self, bootstrap: str) -> None:
        self.client = await self.unstarted(bootstrap)
        await self.client.start()
        await self.client.create_topics([self.topic])

    async def unstarted(self, bootstrap: str) -> Admin:
        self._bootstrap = bootstrap
        return self.again()

    def again(self) -> Admin:
        return Admin(bootstrap_servers=self._bootstrap, **CONFIG)

    def work(self, name: str) -> Awaitable[Any]:
        arguments, named = self.calls[name]
        call: Awaitable[Any] = getattr(self.client, name)(*arguments, **named)
        return call

    async def use(self) -> str:
        """Metadata, a lookup, a coordinator."""
        client, here = self.client, TopicPartition(self.topic, 0)
        if self.topic not in await client.list_topics():
            return "its topic is not there any more"
        await client.list_offsets({here: "earliest"})
        await client.list_consumer_group_offsets(self.topic)
        return ""

    async def stop(self) -> None:
        await self.client.stop()


class DualWriterSubject:
    """A DualWriter; `put` is a whole `transaction`. Rows and records must be the same at the end."""

    def __init__(self, *, wait_for_completion: bool = False) -> None:
        self.topic = f"torture-{uuid4()}"
        self._waits = wait_for_completion
        self._values = itertools.count()
        self.calls: dict[str, Arguments] = {
            "put": ((), {}),
            "recover": ((), {}),
            "complete": ((), {}),
        }

    async def start(self, bootstrap: str) -> None:
        self.client = await self.unstarted(bootstrap)
        await self.client.start()

    async def unstarted(self, bootstrap: str) -> DualWriter[sqlite3.Connection]:
        self._bootstrap = bootstrap
        self.database = PausingDatabase()
        return self.again()

    def again(self) -> DualWriter[sqlite3.Connection]:
        return DualWriter(
            self.database,
            transactional_id=self.topic,
            wait_for_completion=self._waits,
            bootstrap_servers=self._bootstrap,
            max_block_ms=4000,
            delivery_timeout_ms=6000,
            **CONFIG,
        )

    def work(self, name: str) -> Awaitable[Any]:
        if name == "put":
            return self.put()
        call: Awaitable[Any] = getattr(self.client, name)()
        return call

    async def put(self) -> None:
        """A row and a record."""
        value = next(self._values)
        async with self.client.transaction() as transaction:
            transaction.database.execute("INSERT INTO written VALUES (?)", (value,))
            await transaction.send(self.topic, b"%d" % value, partition=0)

    async def use(self) -> str:
        await self.put()
        return ""

    async def stop(self) -> None:
        await self.client.stop()
        assert not self.database.connection.in_transaction, "the database's transaction is open"
        async with self.again():
            pass  # what a cancelled end left is completed by the next instance, as after any end
        rows = [value for (value,) in self.database.connection.execute("SELECT value FROM written ORDER BY value")]
        await self.database.close()
        assert rows == await self._records(), "rows and records are not the same"

    async def _records(self) -> list[int]:
        here = TopicPartition(self.topic, 0)
        found: list[int] = []
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Admin(bootstrap_servers=self._bootstrap))
            if self.topic not in await admin.list_topics():
                return []
            config = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
            consumer = await stack.enter_async_context(Consumer(bootstrap_servers=self._bootstrap, **config))
            consumer.assign([here])
            end = (await admin.list_offsets({here: "latest"}))[here].offset
            while await consumer.position(here) < end:
                found += [int(record.value or b"-1") for record in await consumer.poll(50)]
        return found


SUBJECTS: dict[str, Callable[[], Any]] = {
    "admin": AdminSubject,
    "consumer": ConsumerSubject,
    "consumer in transaction order": lambda: ConsumerSubject(order="transaction", isolation_level="read_committed"),
    "member (classic)": lambda: ConsumerSubject(group_id="group"),
    "member (consumer)": lambda: ConsumerSubject(group_id="group", group_protocol="consumer"),
    "static member (classic)": lambda: ConsumerSubject(group_id="group", group_instance_id="one"),
    "static member (consumer)": lambda: ConsumerSubject(
        group_id="group", group_protocol="consumer", group_instance_id="one"
    ),
    "share member": ShareSubject,
    **PRODUCERS,
    "dual writer": DualWriterSubject,
    "dual writer that waits": lambda: DualWriterSubject(wait_for_completion=True),
}
NEED_TWO_PHASE_COMMIT = {
    "producer with two-phase commit",
    "dual writer",
    "dual writer that waits",
}  # no Apache Kafka has it
ENDS = {"start", "stop", "from_config"}  # tortured by every run, or no call of a client


def left_out(kind: type, *subjects: Any) -> set[str]:
    """Public methods of a client that no subject calls."""
    public = {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}
    return public - ENDS - {name.rpartition(".")[2] for subject in subjects for name in subject.calls}
