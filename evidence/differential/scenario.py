"""The scenarios by name, and how one is run. One that restarts the broker yields before it: topic, partitions.

A tag says what kind of broker a scenario needs: its configuration, and how it is prepared. `family` makes one scenario
of a function for each of several values, for what differs by version.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from evidence.differential.brokers import Node
from evidence.differential.conversation import Conversation

Scenario = Callable[[Conversation], Iterator[tuple[str, int]] | None]
SCENARIOS: dict[str, tuple[str, Scenario]] = {}
RESTART_TIMEOUT_MS = 600_000
MODULES = (
    "acls",
    "adding",
    "administration",
    "compression",
    "configurations",
    "consumer_groups",
    "consumer_migration",
    "defects",
    "discovery",
    "ending",
    "epochs",
    "expiry",
    "fetching",
    "group_members",
    "groups",
    "identities",
    "initializing",
    "lengths",
    "levels",
    "malformed",
    "markers",
    "offsets",
    "operators",
    "prepared",
    "producing",
    "producing_in_transactions",
    "random",
    "reading",
    "restarts",
    "sessions",
    "share_groups",
    "single_node",
    "streams_groups",
    "topics",
    "transactional_offsets",
    "transactions",
    "unverified",
)


@dataclass(frozen=True)
class Kind:
    """A kind of broker: Kafka's keys that differ from the usual ones."""

    config: Mapping[str, object] = field(default_factory=dict)


AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
}
KINDS = {
    "default": Kind(),
    # transactional ids and producers are forgotten after three quiet seconds
    "expiry": Kind(
        {
            "transactional.id.expiration.ms": 3000,
            "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
            "producer.id.expiration.ms": 3000,
            "producer.id.expiration.check.interval.ms": 100,
        }
    ),
    # whose transaction.version the scenarios change
    "levels": Kind(),
    "damaged": Kind(),  # by what a scenario does to it
    # where a group's assignment is computed at once, and sessions are short
    "consumer": Kind(
        {
            "group.consumer.assignment.interval.ms": 0,
            "group.consumer.min.session.timeout.ms": 1000,
            "group.consumer.session.timeout.ms": 45_000,
        }
    ),
    # the same for streams groups
    "streams": Kind({"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}),
    # where assignments come at once, and records are locked for a second
    "share": Kind(
        {
            "group.share.assignment.interval.ms": 0,
            "group.share.min.record.lock.duration.ms": 1000,
        }
    ),
    "unverified": Kind(
        {"transaction.partition.verification.enable": False, "transaction.two.phase.commit.enable": False}
    ),
    "sessions": Kind({"group.min.session.timeout.ms": 100}),
    # where no rule is, everything is allowed; the scenarios are User:ANONYMOUS
    "acl": Kind(AUTHORIZED),
    "acl_cluster": Kind(AUTHORIZED),  # for what cannot be taken back
}
RESTART, SEEDED, STALLED = "restart", "seeded", "stalled"
KILLED = "killed_"  # so begin the names of scenarios whose restart is a SIGKILL
SEEDS: dict[str, dict[str, int]] = {}  # scenario -> transactional id -> the producer epoch it has reached


def kind_of(name: str) -> str:
    """Which of KINDS a scenario needs."""
    tag, _ = SCENARIOS[name]
    return tag if tag in KINDS else "default"


def scenario(tag: str, **seeds: int) -> Callable[[Scenario], Scenario]:
    """Register under the function's name. `seeds`: transactional ids that have been used up to an epoch (tag seeded)."""

    def register(function: Scenario) -> Scenario:
        _register(function.__name__, tag, function, seeds)
        return function

    return register


def family(tag: str, values: Iterable[Any], **seeds: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """One scenario per value, `name_v3` for the number 3, `name_word` for the text "word"."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for value in values:
            suffix = f"v{value}" if isinstance(value, int) else str(value)
            name = f"{function.__name__}_{suffix}"
            _register(name, tag, partial(_with, function, value), seeds)
        return function

    return register


def _with(function: Callable[..., Any], value: Any, conversation: Conversation) -> Any:
    return function(conversation, value)


def _register(name: str, tag: str, function: Scenario, seeds: dict[str, int]) -> None:
    assert name not in SCENARIOS, name
    SCENARIOS[name] = (tag, function)
    if seeds:
        SEEDS[name] = seeds


def all_scenarios() -> dict[str, tuple[str, Scenario]]:
    """All of them, loaded."""
    for module in MODULES:
        importlib.import_module(f"evidence.differential.conversations_{module}")
    return SCENARIOS


def transcript(node: Node, name: str) -> list[str]:
    """Have one conversation with a broker; its lines."""
    tag, function = all_scenarios()[name]
    options: dict[str, Any] = {"transaction_timeout_ms": RESTART_TIMEOUT_MS} if tag == RESTART else {}
    if tag == SEEDED:
        options["prefix"] = _seed_prefix(name)
    conversation = Conversation(*node.address, **options)
    try:
        if tag == STALLED:
            with node.stalled():
                function(conversation)
            return conversation.lines
        steps = function(conversation)
        for topic, partitions in steps or ():
            (node.kill if name.startswith(KILLED) else node.stop)()
            node.start()
            conversation.lines.append("# restart")
            conversation.address = node.address
            conversation.reconnect()
            conversation.wait_after_restart(topic, partitions)
    finally:
        conversation.close()
    return conversation.lines


def _seed_prefix(name: str) -> str:
    return f"seeded-{name}-"


def prepare(node: Node, kind: str, names: Iterable[str]) -> None:
    """Let the broker make its internal topics, as a broker in use has them, and remember the seeds of these scenarios."""
    conversation = Conversation(*node.address)
    try:
        conversation.find_group("g")
        conversation.call("FindCoordinator", 4, key_type=1, coordinator_keys=[conversation.name("t")])
        conversation.init("t")
    finally:
        conversation.close()
    seeds = {_seed_prefix(name) + key: last for name in names for key, last in SEEDS.get(name, {}).items()}
    if kind == "default" and seeds:
        node.seed(seeds)
        conversation = Conversation(*node.address)
        conversation.init(None)  # a broker that has just started has no producer ids to give away
        conversation.close()


def as_file(title: str, found: dict[str, list[str]]) -> str:
    """What `sections` reads."""
    lines = [f"# {title}"]
    for name, said in sorted(found.items()):
        lines += ["", f"## {name}", *said]
    return "\n".join([*lines, ""])


def sections(text: str) -> dict[str, list[str]]:
    """A file of `## name` sections by name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("## "):
            lines = found.setdefault(line[3:], [])
        elif line:
            lines.append(line)
    return found
