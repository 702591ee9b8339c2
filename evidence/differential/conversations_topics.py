"""CreateTopics, CreatePartitions and DeleteTopics in every version."""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import Conversation
from evidence.differential.scenario import family, scenario

WAIT = {"timeout_ms": 5000}


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas} | more


def assigned(name: str, *brokers: list[int]) -> dict[str, Any]:
    rows = [{"partition_index": index, "broker_ids": each} for index, each in enumerate(brokers)]
    return topic(name, -1, -1, assignments=rows)


@family("core", range(2, 8))
def create_topics(x: Conversation, v: int) -> None:
    n = x.name
    x.ask(
        "CreateTopics", v, topics=[topic(n("a"), 2), topic("bad name!"), topic(n("b"), 0), topic(n("c"), 1, 2)], **WAIT
    )
    x.ask("CreateTopics", v, " again", topics=[topic(n("a"))], **WAIT)
    x.ask("CreateTopics", v, " twice in one", topics=[topic(n("d")), topic(n("d"))], **WAIT)
    x.ask("CreateTopics", v, " nothing", topics=[], **WAIT)
    defaults = "the broker's counts"
    x.ask("CreateTopics", v, f" {defaults}", topics=[topic(n("e"), -1, -1)], **WAIT)
    only = {"validate_only": True}
    x.ask("CreateTopics", v, " validate", topics=[topic(n("f")), topic(n("a"))], **WAIT, **only)


@family("core", (4, 7))
def create_topics_with_assignments(x: Conversation, v: int) -> None:
    n = x.name
    x.ask("CreateTopics", v, topics=[assigned(n("a"), [1], [1])], **WAIT)
    x.ask("CreateTopics", v, " unknown broker", topics=[assigned(n("b"), [7])], **WAIT)
    x.ask("CreateTopics", v, " a broker twice", topics=[assigned(n("c"), [1, 1])], **WAIT)
    x.ask("CreateTopics", v, " no broker", topics=[assigned(n("d"), [])], **WAIT)
    counted = assigned(n("e"), [1]) | {"num_partitions": 1, "replication_factor": 1}
    x.ask("CreateTopics", v, " with counts", topics=[counted], **WAIT)
    gap = topic(n("f"), -1, -1, assignments=[{"partition_index": 1, "broker_ids": [1]}])
    x.ask("CreateTopics", v, " a gap", topics=[gap], **WAIT)


@family("core", (2, 5, 7))
def create_topics_with_configs(x: Conversation, v: int) -> None:
    for number, (key, value) in enumerate(
        (
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "nonsense"),
            ("retention.ms", "-2"),
            ("no.such.key", "1"),
            ("max.message.bytes", "-1"),
            ("segment.bytes", "1"),
            ("compression.type", "gzip"),
            ("min.insync.replicas", "2"),
            ("retention.ms", None),
        )
    ):
        wanted = topic(x.name(f"a{number}"), configs=[{"name": key, "value": value}])
        reply = x.call("CreateTopics", v, topics=[wanted], **WAIT)
        found = reply.topics[0]
        shown = [c for c in found.configs or () if c.name == key] if v >= 5 else []
        x.say(f"v{v} {key}={value}", *[f"{c.value} source={c.config_source}" for c in shown], found.error_code)


@scenario("core")
def topic_names_that_collide(x: Conversation) -> None:
    x.ask("CreateTopics", 7, topics=[topic(x.name("a.b"))], **WAIT)
    x.ask("CreateTopics", 7, topics=[topic(x.name("a_b"))], **WAIT)


@family("core", range(4))
def create_partitions(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)

    def ask(name: str, count: int, label: str = "", **more: Any) -> None:
        x.ask("CreatePartitions", v, f" to {count}{label}", topics=[{"name": name, "count": count, **more}], **WAIT)

    ask(t, 3, assignments=None)
    ask(t, 3, " again", assignments=None)
    ask(t, 2, " fewer", assignments=None)
    ask(t, -1, assignments=None)
    ask(x.name("nosuch"), 3, " of nobody", assignments=None)
    ask(t, 4, " on a broker", assignments=[{"broker_ids": [1]}])
    ask(t, 5, " on an unknown broker", assignments=[{"broker_ids": [9]}])
    ask(t, 6, " with too few assignments", assignments=[{"broker_ids": [1]}])
    x.ask("CreatePartitions", v, " nothing", topics=[], **WAIT)


@family("core", range(1, 7))
def delete_topics(x: Conversation, v: int) -> None:
    t = x.topic("a")
    names = [t, x.name("nosuch"), "bad name!"]
    if v >= 6:
        x.ask("DeleteTopics", v, topics=[{"name": each} for each in names], **WAIT)
        x.ask("DeleteTopics", v, " unknown id", topics=[{"name": None, "topic_id": bytes(15) + b"\xf3"}], **WAIT)
        u = x.topic("b")
        both = {"name": u, "topic_id": x.topic_id(u)}
        x.ask("DeleteTopics", v, " name and id", topics=[both], **WAIT)
        x.ask("DeleteTopics", v, " twice", topics=[{"name": u}, {"name": u}], **WAIT)
    else:
        x.ask("DeleteTopics", v, topic_names=names, **WAIT)
        x.ask("DeleteTopics", v, " nothing", topic_names=[], **WAIT)


@scenario("core")
def create_topics_answers_with_the_configuration(x: Conversation) -> None:
    """KIP-525."""
    wanted = topic(x.name("a"), configs=[{"name": "retention.ms", "value": "5"}])
    reply = x.call("CreateTopics", 7, topics=[wanted], **WAIT)
    for found in sorted(reply.topics[0].configs, key=lambda each: str(each.name)):
        x.say(found.name, found.value, f"source={found.config_source} {found.read_only} {found.is_sensitive}")
