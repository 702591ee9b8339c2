"""Random messages that mean something: names, ids and epochs of things that exist, beside bounds and nonsense.

Most requests of a random schema fuzzer are refused by the first check. Here a message is filled from an actor (a
transactional id with its producer id, epoch and sequences, a group with its member), and what replies say is learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from evidence.fuzz.batches import random_batch
from evidence.fuzz.recipes import PROTOCOL
from oncelog.wire.schema import Field, Fixed, Sized, Struct

TOPICS = ("t0", "t1", "t2", "compacted", "__consumer_offsets", "__transaction_state")
CONFIG_KEYS = (
    "retention.ms",
    "cleanup.policy",
    "max.message.bytes",
    "segment.bytes",
    "log.retention.ms",
    "max.connections",
)
FEATURES = ("transaction.version", "group.version", "metadata.version", "eligible.leader.replicas.version")
WORDS = (
    "",
    "range",
    "uniform",
    "consumer",
    "roundrobin",
    "classic",
    "a.b",
    "..",
    "x" * 249,
    "x" * 250,
    "Ω\x00\n",
    "*",
    ".*",
    "a" * 9,
)


class Actor:
    """One client's identity, as far as replies have told it."""

    def __init__(self, number: int) -> None:
        self.transactional_id = f"tx{number % 5}"
        self.group_id = f"g{number % 3}"
        self.producer_id, self.producer_epoch = -1, -1
        self.member_id, self.generation_id, self.member_epoch = "", -1, 0
        self.session_id, self.session_epoch = 0, 0
        self.sequences: dict[int, int] = {}
        self.uuid = f"m{number}"


class Values:
    """Makes messages from `random`; `learn` takes over what a reply says."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.actors = [Actor(number) for number in range(6)]
        self.topic_ids: list[bytes] = [bytes(16)]
        self.names = [*TOPICS[:4], *TOPICS]
        self.actor = self.actors[0]
        self.now_ms = 1_750_000_000_000
        self._depth = 0
        self._by_name: dict[str, Callable[[], Any]] = {
            "topic_id": lambda: self.random.choice(self.topic_ids),
            "acks": lambda: self.random.choice((-1, -1, 1, 0, 2)),
            "isolation_level": lambda: self.random.choice((0, 1, 1, 2)),
            "key_type": lambda: self.random.choice((0, 1, 2, 3)),
            "resource_type": lambda: self.random.choice((2, 4, 2, 4, 8, 16, 32, 0, 127)),
            "replication_factor": lambda: self.random.choice((1, -1, 1, 3, 0)),
            "num_partitions": lambda: self.random.choice((1, 2, 3, -1, 0, 500, 2**31 - 1)),
            "count": lambda: self.random.choice((1, 2, 3, 4, 8, -1, 10_001)),
            "max_wait_ms": lambda: self.random.choice((0, 0, 0, 5, 20, -1)),
            "min_bytes": lambda: self.random.choice((0, 1, 1, 100, -1, 2**31 - 1)),
            "fetch_offset": lambda: self.random.choice((0, 0, 1, 5, 100, -1, 2**63 - 1)),
            "partition_max_bytes": lambda: self.random.choice((1 << 20, 1 << 16, 100, 0, -1, 2**31 - 1)),
            "max_bytes": lambda: self.random.choice((1 << 20, 1 << 20, 0, -1, 2**31 - 1)),
            "replica_id": lambda: self.random.choice((-1, -1, 0, 1, -2)),
            "timestamp": lambda: self.random.choice((-1, -2, -3, -4, -5, -6, -7, 0, self.now_ms, 2**63 - 1)),
            "current_leader_epoch": lambda: self.random.choice((-1, -1, 0, 1, -2)),
            "leader_epoch": lambda: self.random.choice((-1, 0, 0, 1, -2)),
            "transaction_timeout_ms": lambda: self.random.choice((60_000, 1000, 1, 0, -1, 900_000, 900_001, 2**31 - 1)),
            "session_timeout_ms": lambda: self.random.choice((10_000, 6_000, 0, -1, 2**31 - 1)),
            "rebalance_timeout_ms": lambda: self.random.choice((1_000, 10_000, 0, -1)),
            "protocol_type": lambda: self.random.choice(("consumer", "consumer", "connect", "")),
            "session_id": lambda: self.actor.session_id,
            "session_epoch": lambda: self.random.choice((self.actor.session_epoch, 0, -1, 1)),
            "transactional_id": lambda: self.actor.transactional_id,
            "v3_and_below_transactional_id": lambda: self.actor.transactional_id,
            "group_id": lambda: self.actor.group_id,
            "group_instance_id": lambda: self.random.choice((None, None, "i0", "i1")),
            "producer_id": lambda: self.actor.producer_id,
            "v3_and_below_producer_id": lambda: self.actor.producer_id,
            "producer_epoch": lambda: max(min(self.actor.producer_epoch, 32767), -1),
            "v3_and_below_producer_epoch": lambda: max(min(self.actor.producer_epoch, 32767), -1),
            "member_id": lambda: self.actor.member_id,
            "member_epoch": lambda: self.random.choice((self.actor.member_epoch, 0, -1, -2)),
            "generation_id": lambda: self.actor.generation_id,
            "generation_id_or_member_epoch": lambda: self.random.choice(
                (self.actor.generation_id, self.actor.member_epoch, -1)
            ),
            "transaction_result": lambda: self.random.random() < 0.5,
            "coordinator_epoch": lambda: self.random.choice((0, -1, 1, 5)),
            "feature": lambda: self.random.choice(FEATURES),
            "max_version_level": lambda: self.random.choice((0, 1, 2, 3, 4, -1)),
            "upgrade_type": lambda: self.random.choice((1, 2, 3, 0, 9)),
            "validate_only": lambda: self.random.random() < 0.3,
            "server_assignor": lambda: self.random.choice((None, "uniform", "range", "x")),
            "subscribed_topic_regex": lambda: self.random.choice((None, "t.*", "(", "(a+)+b", "", "[")),
            "value": lambda: self.random.choice((None, "1", "-1", "compact", "delete", "9" * 30, "x:1", "")),
            "operation": lambda: self.random.randrange(-1, 16),
        }

    def message(self, cls: type[Struct], version: int) -> Any:
        """A message of one actor."""
        self.actor = self.random.choice(self.actors)
        self._depth = 0
        return self._struct(cls, version)

    def _struct(self, cls: type[Struct], version: int) -> Any:
        random = self.random
        return cls(
            **{
                field.name: self._field(field, version)
                for field in cls.FIELDS
                if field.in_version(version) and (field.tag is None or random.random() < 0.5)
            }
        )

    def _field(self, field: Field, version: int) -> Any:
        random, wire = self.random, field.wire
        is_nullable = field.nullable_in(version)
        if is_nullable and random.random() < 0.1:
            return None
        if isinstance(wire, type):
            return self._struct(wire, version)
        if isinstance(wire, Sized) and wire.kind == "array":
            self._depth += 1
            count = random.choice((0, 1, 1, 1, 2, 3) if self._depth < 4 else (0, 1, 1))
            item = wire.item
            found = [
                self._struct(item, version) if isinstance(item, type) else self._plain(field.name, item)
                for _ in range(count)
            ]
            self._depth -= 1
            return found
        if random.random() < 0.88:
            made = self._by_name.get(field.name)
            if made is not None:
                value = made()
                return value if value is not None or is_nullable else self._plain(field.name, wire)
        return self._plain(field.name, wire)

    def _plain(self, name: str, wire: Any) -> Any:
        random = self.random
        if isinstance(wire, Sized):
            if wire.kind == "string":
                return self._text(name)
            if wire.kind == "records":
                return random_batch(random, self.actor, self.now_ms)
            return random.choice((b"", PROTOCOL, PROTOCOL, random.randbytes(random.randrange(40))))
        assert isinstance(wire, Fixed)
        if wire.layout == "?":
            return random.random() < 0.5
        if wire.layout == "d":
            return random.choice((0.0, -1.5, 1e300, float("nan"), float("inf")))
        if wire.layout == "16s":
            return random.choice((*self.topic_ids, random.randbytes(16)))
        bits = 8 * wire.size_bytes
        low, high = (0, (1 << bits) - 1) if wire.layout == "H" else (-1 << bits - 1, (1 << bits - 1) - 1)
        if "partition" in name or name in ("index", "indexes") or random.random() < 0.6:
            return random.choice((0, 0, 0, 1, 1, 2, 3))
        return random.choice((low, high, 0 if low == 0 else -1, 1, random.randint(low, high), random.randint(0, 99)))

    def _text(self, name: str) -> str:
        random = self.random
        if random.random() < 0.15:
            return random.choice(WORDS)
        if "topic" in name or name in ("name", "resource_name"):
            return random.choice(self.names if name != "name" else [*self.names, *CONFIG_KEYS, "range"])
        if "group" in name or name in ("key", "coordinator_keys"):
            return random.choice(("g0", "g1", "g2", "tx0", "tx1"))
        if "transactional" in name:
            return random.choice(("tx0", "tx1", "tx2"))
        return random.choice(WORDS)

    def learn(self, reply: Any, actor: Actor | None) -> None:
        """Take over what a reply tells: somebody's id, epoch, session; the topics' ids."""
        told = vars(reply)
        for topic in (told.get("topics") or ())[:20]:
            topic_id = getattr(topic, "topic_id", None)
            if topic_id and topic_id not in self.topic_ids and len(self.topic_ids) < 40:
                self.topic_ids.append(topic_id)
        if actor is None:
            return
        if told.get("error_code") in (22, 25, 82, 110, 113):  # fenced or unknown: begin anew
            actor.member_id, actor.generation_id, actor.member_epoch = "", -1, 0
        if told.get("error_code") in (70, 71):
            actor.session_id = actor.session_epoch = 0
        if told.get("error_code", 0) not in (0, 79):  # MEMBER_ID_REQUIRED tells an id too
            return
        if told.get("producer_id", -1) >= 0:
            actor.producer_id, actor.producer_epoch = told["producer_id"], told.get("producer_epoch", 0)
            actor.sequences.clear()
        if told.get("member_id"):
            actor.member_id = told["member_id"]
            actor.generation_id = told.get("generation_id", actor.generation_id)
            actor.member_epoch = told.get("member_epoch", actor.member_epoch)
        if told.get("session_id", 0) > 0:
            actor.session_id, actor.session_epoch = told["session_id"], 1
