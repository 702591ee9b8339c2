"""Discovery and administration: versions, features, coordinators, topics, configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evidence.differential.connection import API_NAMED, field_names
from evidence.differential.conversation import Conversation, error_name
from evidence.differential.scenario import scenario

UNKNOWN_ID = bytes(15) + b"\xfc"
TOPIC, SET, DELETE, APPEND, SUBTRACT = 2, 0, 1, 2, 3
NAME_OF = {api.key: api.name for api in API_NAMED.values()}
CLIENT = {"client_software_name": "differential", "client_software_version": "1.0"}


@scenario("core")
def api_versions_list(x: Conversation) -> None:
    reply = x.call("ApiVersions", 3, **CLIENT)
    for each in sorted(reply.api_keys, key=lambda found: found.api_key):
        name = NAME_OF.get(each.api_key, "-")
        x.say(f"api {each.api_key} {name}", f"{each.min_version}-{each.max_version}")


@scenario("core")
def api_versions_features(x: Conversation) -> None:
    for v in (3, 4):
        reply = x.call("ApiVersions", v, **CLIENT)
        supported = {each.name: (each.min_version, each.max_version) for each in reply.supported_features}
        finalized = {each.name: (each.min_version_level, each.max_version_level) for each in reply.finalized_features}
        x.say(f"v{v} supported transaction.version", supported.get("transaction.version"))
        x.say(f"v{v} supported metadata.version present", "metadata.version" in supported)
        x.say(f"v{v} any supported feature with minimum 0", any(low == 0 for low, _ in supported.values()))
        x.say(f"v{v} finalized transaction.version", finalized.get("transaction.version"))
        x.say(f"v{v} finalized epoch >= 0", reply.finalized_features_epoch >= 0)
    x.say("v2", field_names("ApiVersions", 2), error_name(x.call("ApiVersions", 2).error_code))
    x.call("ApiVersions", 0)
    x.say("v0", field_names("ApiVersions", 0))


@scenario("core")
def find_coordinator_versions(x: Conversation) -> None:
    x.find_group("g")
    for v in (0, 1, 2, 3):
        for kind in (0,) if v == 0 else (0, 1, 2, 5, -1):
            reply = x.call("FindCoordinator", v, key=x.name("k"), **({"key_type": kind} if v else {}))
            where = (reply.node_id >= 0, "host" if reply.host else "no host")
            x.say(f"v{v} type {kind}", error_name(reply.error_code), *where)
    for v in (4, 5, 6):
        for kind in (0, 1, 2, 3):
            keys = ["bad-share-key"] if kind == 2 else [x.name("k1"), x.name("k2")]
            found = x.call("FindCoordinator", v, key_type=kind, coordinator_keys=keys).coordinators
            x.say(
                f"v{v} type {kind}",
                sorted((each.key, error_name(each.error_code), each.node_id >= 0) for each in found),
            )
    x.say("v4 no keys", x.call("FindCoordinator", 4, key_type=0, coordinator_keys=[]).coordinators)
    found = x.call("FindCoordinator", 4, key_type=0, coordinator_keys=[x.name("k"), x.name("k"), ""]).coordinators
    x.say("v4 a key twice and an empty one", [(each.key, error_name(each.error_code)) for each in found])
    found = x.call("FindCoordinator", 4, key_type=1, coordinator_keys=[""]).coordinators
    x.say("v4 empty tid", [(each.key, error_name(each.error_code)) for each in found])


@scenario("admin")
def topics_bad_names(x: Conversation) -> None:
    names = ("", ".", "..", "a b", "a/b", "a:b", "a\u00e9", "a" * 249, "a" * 250, "a,b", "a\0b", "__consumer_offsets")
    for name in names:
        validate_creation(x, name, 1, 1)


@scenario("admin")
def topics_bad_counts(x: Conversation) -> None:
    for count, replicas in ((0, 1), (-1, 1), (-2, 1), (1, 0), (1, -1), (1, 2), (1, -2), (3, 1)):
        validate_creation(x, x.name("t"), count, replicas, f" n={count} rf={replicas}")


def validate_creation(x: Conversation, name: str, count: int, replicas: int, label: str = "") -> None:
    wanted = {"name": name, "num_partitions": count, "replication_factor": replicas}
    found = x.call("CreateTopics", 7, topics=[wanted], timeout_ms=5000, validate_only=True).topics[0]
    sizes = (f"partitions={found.num_partitions}", f"rf={found.replication_factor}")
    x.say(f"create v7 {name.replace(x.prefix, '')[:60]!r}{label}", error_name(found.error_code), *sizes)


@scenario("admin")
def topics_metadata(x: Conversation) -> None:
    t = x.topic("a", 2)

    def ask(v: int, *topics: dict[str, Any]) -> Any:
        fields = {"allow_auto_topic_creation": False} if v >= 4 else {}
        return x.call("Metadata", v, topics=list(topics), **fields)

    for v in (0, 1, 4, 7, 9, 12, 13):
        found = ask(v, {"name": t}).topics[0]
        rows = sorted(
            (p.partition_index, error_name(p.error_code), p.leader_id >= 0, len(p.replica_nodes), len(p.isr_nodes))
            for p in found.partitions
        )
        x.say(f"v{v}", error_name(found.error_code), rows, f"internal={found.is_internal if v else None}")
    for name in (x.name("nosuch"), "bad name!", "", "__consumer_offsets"):
        found = ask(9, {"name": name}).topics[0]
        head = f"{name.replace(x.prefix, '')!r} without auto creation"
        x.say(head, error_name(found.error_code), found.is_internal, len(found.partitions) > 0)
    found = ask(12, {"name": None, "topic_id": UNKNOWN_ID}).topics[0]
    x.say("unknown topic id", error_name(found.error_code), repr(found.name))
    found = ask(12, {"name": None, "topic_id": x.topic_id(t)}).topics[0]
    x.say("by id", error_name(found.error_code), found.name)
    reply = ask(12)
    cluster = "set" if reply.cluster_id else "null"
    x.say("no topics asked", len(reply.topics), f"brokers={len(reply.brokers)}", f"cluster={cluster}", "ops=-")
    x.say("same topic twice", len(ask(12, {"name": t}, {"name": t}).topics))


@scenario("admin")
def topics_delete(x: Conversation) -> None:
    t, u = x.topic("a"), x.topic("b")
    found = x.call("DeleteTopics", 5, topic_names=[t, x.name("nosuch"), ""], timeout_ms=5000).responses
    x.say("delete v5", sorted(f"{each.name.replace(x.prefix, '')}={error_name(each.error_code)}" for each in found))
    asked = [{"name": None, "topic_id": x.topic_id(u)}, {"name": None, "topic_id": UNKNOWN_ID}]
    found = x.call("DeleteTopics", 6, topics=asked, timeout_ms=5000).responses
    x.say("delete v6 by id", sorted(f"{each.name}={error_name(each.error_code)}" for each in found))
    for name in (t, u):

        def gone(name: str = name) -> Any:
            request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            return x.call("Metadata", 9, **request).topics[0].error_code or None

        x.say("after", error_name(x.until(gone)))
    found = x.call("DeleteTopics", 5, topic_names=[t], timeout_ms=5000).responses
    x.say("again", [error_name(each.error_code) for each in found])
    x.topic("a")
    x.marks(t)


def describe_configs(x: Conversation, keys: list[str], name: str, kind: int = TOPIC) -> Any:
    asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
    return x.call("DescribeConfigs", 4, resources=asked).results[0]


@scenario("admin")
def configs_topic(x: Conversation) -> None:
    t = x.topic("a")

    def show(keys: list[str], name: str = t, kind: int = TOPIC) -> None:
        found = describe_configs(x, keys, name, kind)
        rows = sorted((c.name, c.value, c.config_source, c.read_only, c.is_sensitive) for c in found.configs)
        x.say(f"describe-configs {kind}/{name}", error_name(found.error_code), rows)

    def alter(*changes: tuple[str, int, str | None], name: str = t, kind: int = TOPIC, validate: bool = False) -> None:
        entries = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
        asked = [{"resource_type": kind, "resource_name": name, "configs": entries}]
        found = x.call("IncrementalAlterConfigs", 1, resources=asked, validate_only=validate).responses
        head = f"alter {kind}/{name} {list(changes)}{' validate' if validate else ''}"
        x.say(head, [error_name(each.error_code) for each in found])

    def wait_for(value: str) -> None:
        x.until(lambda: describe_configs(x, ["retention.ms"], t).configs[0].value == value or None)

    show(["retention.ms", "cleanup.policy", "max.message.bytes", "no.such"])
    alter(("retention.ms", SET, "1234567"))
    wait_for("1234567")
    show(["retention.ms"])
    alter(("retention.ms", SET, "abc"))
    alter(("no.such", SET, "1"))
    alter(("retention.ms", SET, None))
    alter(("retention.ms", 9, "1"))
    alter(("retention.ms", APPEND, "5"))
    alter(("cleanup.policy", APPEND, "compact"))
    alter(("cleanup.policy", SUBTRACT, "delete"))
    alter(("retention.ms", SET, "5"), ("retention.ms", DELETE, None))
    alter(("retention.ms", SET, "5"), validate=True)
    alter(("retention.ms", DELETE, None))
    wait_for("604800000")
    show(["retention.ms", "cleanup.policy"])
    show(["retention.ms"], name=x.name("nosuch"))
    alter(("retention.ms", SET, "5"), name=x.name("nosuch"))
    show(["x"], name="bad name!")
    show(["x"], kind=99)
    alter(("retention.ms", SET, "5"), name="")
    alter(("x", SET, "5"), kind=99)


@scenario("admin")
def cluster_describe(x: Conversation) -> None:
    for v in (0, 1, 2):
        for endpoint in (1,) if v == 0 else (1, 2, 7):
            fields = {"endpoint_type": endpoint} if v >= 1 else {}
            reply = x.call("DescribeCluster", v, **fields, **({"include_fenced_brokers": True} if v >= 2 else {}))
            cluster = "cluster id" if reply.cluster_id else "no cluster id"
            x.say(f"v{v} endpoint {endpoint}", error_name(reply.error_code), len(reply.brokers), cluster)


def update_features(x: Conversation, changes: Sequence[tuple[str, int, int]], v: int, label: str = "") -> None:
    """Only validated from v1 on; v0 cannot ask for that, so its changes must be harmless."""
    kind = (lambda how: {"upgrade_type": how}) if v >= 1 else (lambda how: {"allow_downgrade": how != 1})
    asked = [{"feature": name, "max_version_level": level, **kind(how)} for name, level, how in changes]
    reply = x.call("UpdateFeatures", v, feature_updates=asked, **({"validate_only": True} if v >= 1 else {}))
    results = [f"{each.feature}={error_name(each.error_code)}" for each in reply.results]
    head = f"update-features v{v} {list(changes)}{' validate' if v >= 1 else ''}{label}"
    x.say(head, error_name(reply.error_code), *results)


@scenario("admin")
def features_validation(x: Conversation) -> None:
    for v in (0, 1, 2):
        update_features(x, [("transaction.version", 2, 1)], v, label=" same level")
        update_features(x, [("transaction.version", 3, 1)], v, label=" too high")
        update_features(x, [("transaction.version", -1, 1)], v, label=" negative")
        update_features(
            x,
            [("no.such.feature", 1, 1)],
            v,
        )
    update_features(x, [("transaction.version", 1, 1)], 1, label=" downgrade as upgrade")
    update_features(x, [("transaction.version", 1, 2)], 1, label=" safe downgrade")
    update_features(x, [("transaction.version", 1, 3)], 1, label=" unsafe downgrade")
    update_features(x, [("transaction.version", 0, 2)], 1, label=" disable")
    update_features(x, [("transaction.version", 1, 9)], 1, label=" unknown type")
    update_features(x, [("transaction.version", 1, 2), ("transaction.version", 1, 2)], 1, label=" twice")
    update_features(x, [("transaction.version", 1, 2), ("no.such", 1, 1)], 1, label=" one bad of two")
    update_features(x, [("transaction.version", 1, 2), ("no.such", 1, 1)], 2, label=" one bad of two")
    update_features(x, [], 1, label=" none")
