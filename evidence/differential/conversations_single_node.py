"""What an administrator may ask of a cluster that is one node: quotas, SCRAM, leaders, replicas, quorum, tokens."""

from __future__ import annotations

from typing import Any

from evidence.differential.batches import batch_of
from evidence.differential.conversation import Conversation, produce_request
from evidence.differential.scenario import family, scenario

EXACT, DEFAULT, ANY = 0, 1, 2
SHA_256, SHA_512 = 1, 2


def entity(**names: str | None) -> list[dict[str, Any]]:
    return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()]


def set_quota(key: str, value: float) -> dict[str, Any]:
    return {"key": key, "value": value, "remove": False}


@family("core", range(2))
def client_quotas(x: Conversation, v: int) -> None:
    user, client = x.name("user"), x.name("client")

    def alter(label: str, who: list[dict[str, Any]], *ops: dict[str, Any], validate: bool = False) -> None:
        entries = [{"entity": who, "ops": list(ops)}]
        x.ask("AlterClientQuotas", v, label, entries=entries, validate_only=validate)

    def describe(label: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        asked = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        x.ask("DescribeClientQuotas", v, label, components=asked, strict=strict)

    alter(" only validated", entity(user=user), set_quota("producer_byte_rate", 1000.0), validate=True)
    alter(" of a user", entity(user=user), set_quota("producer_byte_rate", 1000.0))
    alter(" of both", entity(user=user, client_id=client), set_quota("consumer_byte_rate", 2000.5))
    alter(" unknown key", entity(user=user), set_quota("no_such_rate", 1.0))
    alter(" negative", entity(user=user), set_quota("producer_byte_rate", -1.0))
    alter(" zero", entity(user=user), set_quota("producer_byte_rate", 0.0))
    alter(" a fraction of bytes", entity(user=user), set_quota("producer_byte_rate", 0.5))
    alter(" unknown kind of entity", entity(group="g"), set_quota("producer_byte_rate", 1.0))
    alter(" nobody", [], set_quota("producer_byte_rate", 1.0))
    alter(" empty name", entity(user=""), set_quota("producer_byte_rate", 1.0))
    alter(" an address and a user", entity(user=user, ip="127.0.0.1"), set_quota("connection_creation_rate", 1.0))
    x.pause(0.2)
    describe(" of the user", ("user", EXACT, user))
    describe(" of the user, strictly", ("user", EXACT, user), strict=True)
    describe(" of the user and any client", ("user", EXACT, user), ("client-id", ANY, None))
    describe(" of an unknown user", ("user", EXACT, x.name("nobody")))
    describe(" unknown kind", ("group", EXACT, "g"))
    describe(" unknown way to match", ("user", 9, user))
    describe(" a kind twice", ("user", EXACT, user), ("user", EXACT, user))
    for who in (entity(user=user), entity(user=user, client_id=client)):
        for key in ("producer_byte_rate", "consumer_byte_rate"):
            alter(" removes", who, {"key": key, "value": 0.0, "remove": True})
    x.pause(0.2)
    describe(" afterwards", ("user", EXACT, user))


@scenario("core")
def scram_credentials(x: Conversation) -> None:
    user = x.name("user")

    def upsert(label: str, name: str = user, mechanism: int = SHA_256, iterations: int = 4096, **more: bytes) -> None:
        fields = {"name": name, "mechanism": mechanism, "iterations": iterations}
        entry = fields | {"salt": more.get("salt", b"salt"), "salted_password": more.get("password", b"p" * 32)}
        x.ask("AlterUserScramCredentials", 0, label, upsertions=[entry], deletions=[])

    def describe(label: str, *names: str) -> None:
        x.ask("DescribeUserScramCredentials", 0, label, users=[{"name": name} for name in names])

    def delete(label: str, name: str = user, mechanism: int = SHA_256) -> None:
        x.ask("AlterUserScramCredentials", 0, label, deletions=[{"name": name, "mechanism": mechanism}], upsertions=[])

    describe(" before", user)
    upsert("")
    upsert(" another mechanism", mechanism=SHA_512, iterations=8192)
    upsert(" unknown mechanism", mechanism=9)
    upsert(" too few iterations", iterations=4095)
    upsert(" too many iterations", iterations=16385)
    upsert(" empty name", name="")
    upsert(" no salt", salt=b"")
    upsert(" no password", password=b"")
    x.pause(0.3)
    describe(" of the user", user)
    describe(" twice", user, user)
    describe(" unknown", x.name("nobody"))
    describe(" empty name", "")
    delete(" of nobody", x.name("nobody"))
    delete(" unknown mechanism", mechanism=9)
    both = {"name": user, "mechanism": SHA_256}
    x.ask(
        "AlterUserScramCredentials",
        0,
        " deletes and sets one",
        deletions=[both],
        upsertions=[both | {"iterations": 4096, "salt": b"s", "salted_password": b"p" * 32}],
    )
    delete("")
    delete(" the other", mechanism=SHA_512)
    x.pause(0.3)
    describe(" afterwards", user)


@family("core", range(3))
def elect_leaders(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)
    for kind in (0, 1, 7) if v >= 1 else (0,):
        x.ask(
            "ElectLeaders",
            v,
            f" type {kind}",
            election_type=kind,
            topic_partitions=[{"topic": t, "partitions": [0, 1]}],
        )
    for name, index in ((t, 9), (x.name("nosuch"), 0), ("bad name!", 0)):
        x.ask("ElectLeaders", v, " unknown", topic_partitions=[{"topic": name, "partitions": [index]}])
    x.ask("ElectLeaders", v, " nothing", topic_partitions=[])


@family("core", range(2))
def alter_partition_reassignments(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)

    def ask(label: str, name: str, index: int, replicas: list[int] | None) -> None:
        partitions = [{"partition_index": index, "replicas": replicas}]
        x.ask("AlterPartitionReassignments", v, label, topics=[{"name": name, "partitions": partitions}])

    ask(" as it is", t, 0, [1])
    ask(" to nobody", t, 0, [])
    ask(" to an unknown broker", t, 0, [9])
    ask(" to one twice", t, 0, [1, 1])
    ask(" negative", t, 0, [-1])
    ask(" cancels what is not under way", t, 0, None)
    ask(" unknown partition", t, 7, [1])
    ask(" unknown topic", x.name("nosuch"), 0, [1])
    ask(" unknown topic, cancels", x.name("nosuch"), 0, None)
    x.ask("AlterPartitionReassignments", v, " nothing", topics=[])


@scenario("core")
def list_partition_reassignments(x: Conversation) -> None:
    t = x.topic("a")
    x.ask("ListPartitionReassignments", 0, topics=[{"name": t, "partition_indexes": [0, 9]}])
    x.ask("ListPartitionReassignments", 0, " unknown", topics=[{"name": x.name("nosuch"), "partition_indexes": [0]}])
    x.ask("ListPartitionReassignments", 0, " all", topics=None)
    x.ask("ListPartitionReassignments", 0, " nothing", topics=[])


@family("core", (1, 2))
def alter_replica_log_dirs(x: Conversation, v: int) -> None:
    t = x.topic("a")
    for path in ("/no/such/directory", "relative", ""):
        x.ask(
            "AlterReplicaLogDirs", v, f" {path!r}", dirs=[{"path": path, "topics": [{"name": t, "partitions": [0, 5]}]}]
        )
    unknown = [{"name": x.name("nosuch"), "partitions": [0]}]
    x.ask("AlterReplicaLogDirs", v, " unknown topic", dirs=[{"path": "/no/such/directory", "topics": unknown}])
    x.ask("AlterReplicaLogDirs", v, " nothing", dirs=[])


@family("core", range(3))
def describe_quorum(x: Conversation, v: int) -> None:
    for name, index in (("__cluster_metadata", 1), (x.name("nosuch"), 0)):
        topics = [{"topic_name": name, "partitions": [{"partition_index": index}]}]
        x.ask("DescribeQuorum", v, f" {name.replace(x.prefix, '')}-{index}", topics=topics)
    x.ask("DescribeQuorum", v, " nothing", topics=[])
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    reply = x.call("DescribeQuorum", v, topics=topics)
    found = reply.topics[0].partitions[0]
    x.say(f"v{v}", found.error_code, f"leader={found.leader_id}", f"epoch={found.leader_epoch > 0}")
    x.say(
        f"   high watermark {found.high_watermark > 0}", f"voters={[each.replica_id for each in found.current_voters]}"
    )
    x.say(
        "   observers", [each.replica_id for each in found.observers], "nodes", [each.node_id for each in reply.nodes]
    )


@family("core", (1, 2, 3))
def delegation_tokens(x: Conversation, v: int) -> None:
    """On a plain connection nobody has a token."""
    x.ask(
        "CreateDelegationToken",
        v,
        renewers=[],
        max_lifetime_ms=-1,
        owner_principal_type=None,
        owner_principal_name=None,
    )
    x.ask("DescribeDelegationToken", v, owners=None)
    x.ask("DescribeDelegationToken", v, " of nobody", owners=[])
    if v < 3:
        x.ask("RenewDelegationToken", v, hmac=b"h", renew_period_ms=1000)
        x.ask("ExpireDelegationToken", v, hmac=b"h", expiry_time_period_ms=1000)


@scenario("core")
def unregister_a_broker(x: Conversation) -> None:
    for broker_id in (99, -1):
        x.ask("UnregisterBroker", 0, f" {broker_id}", broker_id=broker_id)


@family("core", range(2))
def sasl_on_a_plain_connection(x: Conversation, v: int) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "NONSENSE", ""):
        x.ask("SaslHandshake", v, f" {mechanism!r}", mechanism=mechanism)
    x.ask("SaslAuthenticate", v, auth_bytes=b"\0user\0password")


@family("core", range(2))
def raft_voters(x: Conversation, v: int) -> None:
    voter = {"voter_id": 9, "voter_directory_id": bytes(15) + b"\1", "cluster_id": None}
    listeners = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
    x.ask("AddRaftVoter", v, timeout_ms=100, listeners=listeners, **voter)
    x.ask("AddRaftVoter", v, " of another cluster", timeout_ms=100, listeners=listeners, **voter | {"cluster_id": "x"})
    if v == 0:
        x.ask("RemoveRaftVoter", v, **voter)
        x.ask("RemoveRaftVoter", v, " of another cluster", **voter | {"cluster_id": "x"})


@scenario("core")
def apis_between_brokers(x: Conversation) -> None:
    """AllocateProducerIds is the controller's."""
    frame = x.connection().frame("AllocateProducerIds", 0, {"broker_id": 1, "broker_epoch": -1})
    x.probe("AllocateProducerIds", frame)


@scenario("core")
def quotas_slow_clients_down(x: Conversation) -> None:
    """The answer comes at once, with the time that the client should wait; others are not touched."""
    t = x.topic("a")
    slow = x.name("slow")
    ops = [set_quota("producer_byte_rate", 10.0), set_quota("consumer_byte_rate", 10.0)]
    x.ask("AlterClientQuotas", 1, entries=[{"entity": entity(client_id=slow), "ops": ops}], validate_only=False)
    x.pause(0.5)
    for client_id in (slow, "another"):
        for round_ in range(2):
            connection = x.connection()
            batch = batch_of([b"v" * 2000], timestamp_ms=x.started_ms)
            frame = connection.frame("Produce", 9, produce_request(t, 0, batch, v=9), client_id=client_id)
            connection.send_bytes(frame)
            throttle_ms = connection.receive("Produce", 9)[1].throttle_time_ms
            x.say(f"produce of {client_id}, {round_}", f"throttled={throttle_ms > 0}")
    for client_id in (slow, "another"):
        connection = x.connection()
        where = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        fields = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "topics": [{"topic": t, "partitions": [where]}],
        }
        for round_ in range(2):
            connection.send_bytes(connection.frame("Fetch", 11, fields, client_id=client_id))
            reply = connection.receive("Fetch", 11)[1]
            found = len(reply.responses) and len(reply.responses[0].partitions[0].records or b"") > 0
            x.say(f"fetch of {client_id}, {round_}", f"throttled={reply.throttle_time_ms > 0} data={bool(found)}")
            connection = x.connection()
    removals = [{"key": each["key"], "value": 0.0, "remove": True} for each in ops]
    x.ask("AlterClientQuotas", 1, " removes", entries=[{"entity": entity(client_id=slow), "ops": removals}])
