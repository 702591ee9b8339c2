"""Writes docs/protocol.md from the tables the broker itself runs on: what is served, in which versions, and what is not and why.

`python tools/protocol_page.py`; a test says when the page is old. Apache Kafka 4.3's ranges are what a node of it answers
to ApiVersions, which `make conformance` asks again.
"""

from __future__ import annotations

import pathlib

from oncelog.broker.handlers import MODULES
from oncelog.core.metadata.features import SUPPORTED
from oncelog.wire.api import APIS, Api, ApiKey
from oncelog.wire.wire_types import FOREVER

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "protocol.md"

# key: name, first and last version that a released Apache Kafka 4.3 advertises to clients
APACHE_KAFKA: dict[int, tuple[str, int, int]] = {
    0: ("Produce", 0, 13),
    1: ("Fetch", 4, 18),
    2: ("ListOffsets", 1, 11),
    3: ("Metadata", 0, 13),
    8: ("OffsetCommit", 2, 10),
    9: ("OffsetFetch", 1, 10),
    10: ("FindCoordinator", 0, 6),
    11: ("JoinGroup", 0, 9),
    12: ("Heartbeat", 0, 4),
    13: ("LeaveGroup", 0, 5),
    14: ("SyncGroup", 0, 5),
    15: ("DescribeGroups", 0, 6),
    16: ("ListGroups", 0, 5),
    17: ("SaslHandshake", 0, 1),
    18: ("ApiVersions", 0, 4),
    19: ("CreateTopics", 2, 7),
    20: ("DeleteTopics", 1, 6),
    21: ("DeleteRecords", 0, 2),
    22: ("InitProducerId", 0, 5),
    23: ("OffsetForLeaderEpoch", 2, 4),
    24: ("AddPartitionsToTxn", 0, 5),
    25: ("AddOffsetsToTxn", 0, 4),
    26: ("EndTxn", 0, 5),
    27: ("WriteTxnMarkers", 1, 2),
    28: ("TxnOffsetCommit", 0, 5),
    29: ("DescribeAcls", 1, 3),
    30: ("CreateAcls", 1, 3),
    31: ("DeleteAcls", 1, 3),
    32: ("DescribeConfigs", 1, 4),
    33: ("AlterConfigs", 0, 2),
    34: ("AlterReplicaLogDirs", 1, 2),
    35: ("DescribeLogDirs", 1, 5),
    36: ("SaslAuthenticate", 0, 2),
    37: ("CreatePartitions", 0, 3),
    38: ("CreateDelegationToken", 1, 3),
    39: ("RenewDelegationToken", 1, 2),
    40: ("ExpireDelegationToken", 1, 2),
    41: ("DescribeDelegationToken", 1, 3),
    42: ("DeleteGroups", 0, 2),
    43: ("ElectLeaders", 0, 2),
    44: ("IncrementalAlterConfigs", 0, 1),
    45: ("AlterPartitionReassignments", 0, 1),
    46: ("ListPartitionReassignments", 0, 0),
    47: ("OffsetDelete", 0, 0),
    48: ("DescribeClientQuotas", 0, 1),
    49: ("AlterClientQuotas", 0, 1),
    50: ("DescribeUserScramCredentials", 0, 0),
    51: ("AlterUserScramCredentials", 0, 0),
    55: ("DescribeQuorum", 0, 2),
    57: ("UpdateFeatures", 0, 2),
    60: ("DescribeCluster", 0, 2),
    61: ("DescribeProducers", 0, 0),
    64: ("UnregisterBroker", 0, 0),
    65: ("DescribeTransactions", 0, 0),
    66: ("ListTransactions", 0, 2),
    68: ("ConsumerGroupHeartbeat", 0, 1),
    69: ("ConsumerGroupDescribe", 0, 1),
    74: ("ListConfigResources", 0, 1),
    75: ("DescribeTopicPartitions", 0, 0),
    76: ("ShareGroupHeartbeat", 1, 1),
    77: ("ShareGroupDescribe", 1, 1),
    78: ("ShareFetch", 1, 2),
    79: ("ShareAcknowledge", 1, 2),
    80: ("AddRaftVoter", 0, 1),
    81: ("RemoveRaftVoter", 0, 0),
    83: ("InitializeShareGroupState", 0, 0),
    84: ("ReadShareGroupState", 0, 0),
    85: ("WriteShareGroupState", 0, 1),
    86: ("DeleteShareGroupState", 0, 0),
    87: ("ReadShareGroupStateSummary", 0, 1),
    88: ("StreamsGroupHeartbeat", 0, 0),
    89: ("StreamsGroupDescribe", 0, 0),
    90: ("DescribeShareGroupOffsets", 0, 1),
    91: ("AlterShareGroupOffsets", 0, 0),
    92: ("DeleteShareGroupOffsets", 0, 0),
}

_SHARE_STATE = "between the brokers of a cluster with share groups; here one node keeps their state itself"
_TELEMETRY = (
    "KIP-714; Apache Kafka offers it where a plugin receives metrics, oncelog where `metrics.listen` shows them"
)
NOT_SERVED: dict[int, str] = {
    **dict.fromkeys((83, 84, 85, 86, 87), _SHARE_STATE),
}
# Keys that Apache Kafka does not offer to its clients either
NOT_FOR_CLIENTS = (
    ("4 to 7", "LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown", "retired in Apache Kafka 4.0"),
    (
        "52, 53, 54, 59, 82",
        "Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot, UpdateRaftVoter",
        "between controllers",
    ),
    (
        "56, 58, 62, 63, 70, 73",
        "AlterPartition, Envelope, registrations and heartbeats, AssignReplicasToDirs",
        "from brokers to controllers",
    ),
    ("67", "AllocateProducerIds", "from brokers to controllers; oncelog takes blocks from its own metadata log"),
)
REMARKS: dict[int, str] = {
    ApiKey.PRODUCE: "0 to 2 are advertised and not served, as in Apache Kafka: librdkafka asks for it (KAFKA-18659)",
    ApiKey.INIT_PRODUCER_ID: "6 (two-phase commit, KIP-939) while `transaction.version` is 3",
    ApiKey.ADD_PARTITIONS_TO_TXN: "4 and 5 between brokers, and for whoever verifies",
    ApiKey.WRITE_TXN_MARKERS: "with a tag of our own for operators' aborts (feature `oncelog.operator.abort`)",
    ApiKey.END_TXN: "with a tag of our own for commits right behind their records (feature `oncelog.conditional.commit`)",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _TELEMETRY,
    ApiKey.PUSH_TELEMETRY: _TELEMETRY,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "KIP-848",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "KIP-848",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "KIP-1071: Kafka Streams with `group.protocol=streams`",
    ApiKey.STREAMS_GROUP_DESCRIBE: "KIP-1071",
}
FEATURES_OF_APACHE_KAFKA = {
    "group.version": "0 to 1",
    "metadata.version": "7 to 30",
    "streams.version": "0 to 1",
    "transaction.version": "0 to 2",
}


def span(first: int, last: int) -> str:
    """ "3" or "0 to 3" """
    return str(first) if first == last else f"{first} to {last}"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """In Markdown."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows))


def served_rows() -> list[list[str]]:
    """One row per API that the broker advertises."""
    rows = []
    for key in sorted(MODULES):
        api: Api = APIS[key]
        theirs = APACHE_KAFKA.get(key)
        flexible = "-" if api.request.FLEXIBLE == FOREVER else str(api.request.FLEXIBLE)
        rows.append(
            [
                str(int(key)),
                api.name,
                span(api.advertised_min_version, api.max_version),
                span(theirs[1], theirs[2]) if theirs else "-",
                flexible,
                REMARKS.get(key, ""),
            ]
        )
    return rows


def not_served_rows() -> list[list[str]]:
    """One row per API of Apache Kafka 4.3 that the broker does not advertise."""
    return [
        [str(key), name, span(first, last), NOT_SERVED.get(key, "")]
        for key, (name, first, last) in sorted(APACHE_KAFKA.items())
        if key not in MODULES
    ]


def feature_rows() -> list[list[str]]:
    """One row per feature level."""
    return [
        [f"`{name}`", span(levels.first, levels.last), str(levels.initial), FEATURES_OF_APACHE_KAFKA.get(name, "-")]
        for name, levels in sorted(SUPPORTED.items())
    ]


def render() -> str:
    """The page."""
    served, not_served = served_rows(), not_served_rows()
    same = sum(row[2] == row[3] for row in served)
    return f"""# The protocol that oncelog speaks
Written by `tools/protocol_page.py` from the broker's own tables; a test fails if this page is out of date. Beside each range is
that of Apache Kafka 4.3 (one node, release 4.3.0, as it answers ApiVersions; `make conformance` asks it again). Which
versions widely used clients send: [compatibility](compatibility.md).
Where an answer differs: [differences-from-kafka](differences-from-kafka.md).

## Served
{len(served)} APIs, {same} of them in exactly the versions of Apache Kafka 4.3. *Flexible*: the first version with
compact strings and tagged fields.

{table(["key", "API", "oncelog", "Apache Kafka 4.3", "flexible", ""], served)}

## Not served
A request of an API or version that is not advertised closes the connection, as in Apache Kafka; ApiVersions alone is
answered in version 0 with UNSUPPORTED_VERSION (KIP-511).

{table(["key", "API", "Apache Kafka 4.3", "why not"], not_served)}

Not offered to clients by Apache Kafka either:

{table(["keys", "APIs", ""], [list(row) for row in NOT_FOR_CLIENTS])}

## Features
`kafka-features describe`. A new data directory begins with the level in the third column.

{table(["feature", "levels", "at first", "Apache Kafka 4.3"], feature_rows())}

`transaction.version` 0 and 1 are the old protocol (1 writes tagged fields, KIP-915), 2 is KIP-890, 3 is two-phase
commit (KIP-939). An upgrade to 2 at level 3 (provisioning scripts do that) is answered as Kafka answers for a level that is
in force: without error, and nothing changes. To go to 2: `kafka-features downgrade --feature transaction.version=2` or
`oncelog features downgrade transaction.version=2`; refused while a two-phase or kept transaction is open, naming the ids.
"""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"written: {PAGE}")
