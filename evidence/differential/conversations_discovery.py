"""ApiVersions, FindCoordinator and Metadata in every version."""

from __future__ import annotations

from evidence.differential.connection import field_names
from evidence.differential.conversation import Conversation, error_name
from evidence.differential.scenario import family, scenario
from oncelog.wire.schema import ZERO_UUID

UNKNOWN_ID = bytes(15) + b"\xf1"


@family("core", range(5))
def api_versions(x: Conversation, v: int) -> None:
    fields = {"client_software_name": "differential", "client_software_version": "1.0"} if v >= 3 else {}
    reply = x.call("ApiVersions", v, **fields)
    x.say(f"v{v}", error_name(reply.error_code), field_names("ApiVersions", v))
    keys = {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys}
    for key in (0, 1, 3, 18, 22, 24, 26, 27, 28):
        x.say(f"   key {key}", keys.get(key))
    x.say("   telemetry", 71 in keys, 72 in keys)
    supported = {each.name: (each.min_version, each.max_version) for each in reply.supported_features}
    x.say("   features with minimum 0", any(low == 0 for low, _ in supported.values()))


@family("core", ("letters", "empty", "blank", "dash_first", "dash_last", "inner", "umlaut", "one"))
def client_software(x: Conversation, kind: str) -> None:
    """[a-zA-Z0-9](?:[a-zA-Z0-9\\-.]*[a-zA-Z0-9])? or INVALID_REQUEST."""
    text = {
        "letters": "librdkafka",
        "empty": "",
        "blank": "a b",
        "dash_first": "-ab",
        "dash_last": "ab-",
        "inner": "a.b-c",
        "umlaut": "\u00e4",
        "one": "x",
    }[kind]
    for v in (3, 4):
        for name, version in ((text, "1.0"), ("ok", text)):
            reply = x.call("ApiVersions", v, client_software_name=name, client_software_version=version)
            x.say(f"v{v} name {name!r} version {version!r}", error_name(reply.error_code), len(reply.api_keys) > 0)


@family("core", range(7))
def find_coordinator(x: Conversation, v: int) -> None:
    x.find_group("g")
    for kind in (0, 1, 2, 7):
        if v == 0 and kind:
            continue
        keys = [x.name("one"), x.name("two")] if v >= 4 else []
        x.ask("FindCoordinator", v, f" type {kind}", key=x.name("k"), key_type=kind, coordinator_keys=keys)


@family("core", range(14))
def metadata(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)
    off = {"allow_auto_topic_creation": False}
    x.ask("Metadata", v, topics=[{"name": t}], **off)
    x.ask("Metadata", v, topics=[{"name": x.name("nosuch")}, {"name": "bad name!"}], **off)
    x.ask("Metadata", v, " with operations", topics=[{"name": t}], **off, include_topic_authorized_operations=True)
    if v >= 1:
        x.ask("Metadata", v, " of nothing", topics=[], **off)
        everything = x.call("Metadata", v, topics=None)
        x.say(f"v{v} everything has it", t in [each.name for each in everything.topics])
    if v >= 10:
        x.ask("Metadata", v, " by id", topics=[{"name": None, "topic_id": x.topic_id(t)}], **off)
        x.ask("Metadata", v, " unknown id", topics=[{"name": None, "topic_id": UNKNOWN_ID}], **off)
        x.ask("Metadata", v, " neither name nor id", topics=[{"name": None, "topic_id": ZERO_UUID}], **off)
    if 8 <= v <= 10:
        x.ask("Metadata", v, " of the cluster", topics=[], **off, include_cluster_authorized_operations=True)


@family("core", (0, 3, 4, 9, 13))
def metadata_creates_topics(x: Conversation, v: int) -> None:
    """auto.create.topics.enable, where the request allows it."""
    wanted = x.name("made")
    fields = {"allow_auto_topic_creation": True} if v >= 4 else {}

    def made() -> object:
        found = x.call("Metadata", v, topics=[{"name": wanted}], **fields).topics[0]
        return found if found.error_code == 0 else None

    found = x.until(made)
    x.say(f"v{v}", error_name(found.error_code), f"partitions={len(found.partitions)}")
    for name in ("bad name!", "", "."):
        found = x.call("Metadata", v, topics=[{"name": name}], **fields).topics[0]
        x.say(f"v{v} {name!r}", error_name(found.error_code))


@scenario("core")
def metadata_of_deleted_topics(x: Conversation) -> None:
    t = x.topic("a")
    topic_id = x.topic_id(t)
    x.call("DeleteTopics", 5, topic_names=[t], timeout_ms=5000)

    def gone() -> object:
        found = x.call("Metadata", 9, topics=[{"name": t}], allow_auto_topic_creation=False).topics[0]
        return found.error_code or None

    x.until(gone)
    topics = [{"name": None, "topic_id": topic_id}]
    x.ask("Metadata", 12, " its id", topics=topics, allow_auto_topic_creation=False)
    x.fetch(topic_id, 0, 0, 0, v=13, name="its id")
    x.fetch(t, 0, 0, 0, v=12)
    x.produce(t, 0, [b"v"])
    x.produce(topic_id, 0, [b"v"], v=13)


@scenario("core")
def nullable_lengths_and_trailing_bytes(x: Conversation) -> None:
    """kafka-notes A1: a request may be followed by more bytes, and any negative length is null."""
    connection = x.connection()
    frame = connection.frame("Metadata", 4, {"topics": [], "allow_auto_topic_creation": False})
    longer = (len(frame) - 4 + 3).to_bytes(4, "big") + frame[4:] + b"abc"
    x.probe("three bytes too many", longer, ("Metadata", 4), lambda reply: f"topics={len(reply.topics)}")
    frame = connection.frame("Metadata", 4, {"topics": None, "allow_auto_topic_creation": False})
    minus_two = frame.replace(b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe")
    x.probe("length -2", minus_two, ("Metadata", 4), lambda reply: f"topics={len(reply.topics) > 0}")


@scenario("core")
def strings_that_are_not_utf8(x: Conversation) -> None:
    frame = x.connection().frame("FindCoordinator", 1, {"key": "abcd", "key_type": 1})
    broken = frame.replace(b"abcd", b"a\xff\xfed")
    x.probe("key", broken, ("FindCoordinator", 1), lambda reply: error_name(reply.error_code))


@scenario("core")
def describe_topic_partitions(x: Conversation) -> None:
    t, u = x.topic("a", 3), x.topic("b")
    x.ask("DescribeTopicPartitions", 0, topics=[{"name": t}, {"name": u}])
    x.ask("DescribeTopicPartitions", 0, " unknown", topics=[{"name": x.name("nosuch")}, {"name": "bad name!"}])
    x.ask("DescribeTopicPartitions", 0, " two at most", topics=[{"name": t}, {"name": u}], response_partition_limit=2)


@family("core", range(1, 6))
def describe_log_dirs(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)
    topics = [{"topic": t, "partitions": [0, 1, 5]}, {"topic": x.name("nosuch"), "partitions": [0]}]
    x.ask("DescribeLogDirs", v, topics=topics)
