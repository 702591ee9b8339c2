"""One sentence about each config that DescribeConfigs can be asked about; "" where the name says all there is."""

from __future__ import annotations

_TEXTS = {
    "cleanup.policy": "What becomes of old segments: delete goes by age and size, compact keeps each key's newest record.",
    "compression.type": "The codec of all batches: others are compressed anew; producer leaves them as they came.",
    "compression.gzip.level": "With compression.type=gzip, zlib's level: 1 to 9, -1 is its default.",
    "compression.lz4.level": "With compression.type=lz4, the level: 1 to 17.",
    "compression.zstd.level": "With compression.type=zstd, the level: -131072 to 22.",
    "delete.retention.ms": "How long compaction keeps tombstones and transaction markers, in ms.",
    "file.delete.delay.ms": "How long a removed segment's files stay, in ms.",
    "index.interval.bytes": "At least so many bytes of records lie between two entries of the offset index.",
    "max.compaction.lag.ms": "A record is compacted at the latest after this time, in ms.",
    "max.message.bytes": "The largest record batch that is accepted, in bytes as it was sent.",
    "message.timestamp.after.max.ms": "How far in the future a record's timestamp may lie, in ms.",
    "message.timestamp.before.max.ms": "How far in the past a record's timestamp may lie, in ms.",
    "message.timestamp.type": "Whose clock stamps records: CreateTime the producer's, LogAppendTime the broker's.",
    "min.cleanable.dirty.ratio": "Compaction begins when this share of the log has not been compacted yet.",
    "min.compaction.lag.ms": "A record is not compacted before this time has passed, in ms.",
    "min.insync.replicas": "Produce with acks=all is refused with fewer replicas in sync; one node has one.",
    "retention.bytes": "The oldest segments go when a partition is larger, in bytes; -1 is no bound.",
    "retention.ms": "Segments go when their newest record is older, in ms; -1 keeps them for ever.",
    "segment.bytes": "A segment ends at this size, in bytes.",
    "segment.index.bytes": "A segment ends when its offset index has this size, in bytes.",
    "segment.jitter.ms": "Segments end up to this much earlier than segment.ms, so that not all do at once.",
    "segment.ms": "A segment ends after this time, in ms.",
    "consumer.session.timeout.ms": "A consumer group's member that is silent longer is removed, in ms.",
    "consumer.heartbeat.interval.ms": "How often the members of a consumer group send heartbeats, in ms.",
    "consumer.assignment.interval.ms": "A consumer group's assignment is computed at most this often, in ms.",
    "flush.policy": "When an acknowledgement may be given: fsync after the sync, interval and os before it.",
    "journal": "Whether one sync of a journal commits what was appended to all partitions; only with flush.policy=fsync.",
    "oncelog.journal.max.bytes": "How much of the journal may wait for the data files' sync, in bytes; at least 256 MiB.",
    "flush.interval.ms": "With flush.policy=interval, how often files are synced, in ms.",
    "authorizer.class.name": "Kafka's StandardAuthorizer switches access rules on; empty allows everything.",
    "super.users": "Principals that may do everything, as User:name, separated by semicolons.",
    "allow.everyone.if.no.acl.found": "Whether a resource that no access rule is about is open to all.",
    "transaction.max.timeout.ms": "The longest transaction timeout a producer may ask for, in ms.",
    "transaction.two.phase.commit.enable": "Whether producers may prepare transactions that have no timeout (KIP-939).",
    "transaction.partition.verification.enable": "Whether old clients' batches are verified with the coordinator (KIP-890).",
    "transactional.id.expiration.ms": "A transactional id without a transaction is forgotten after this time, in ms.",
    "producer.id.expiration.ms": "A partition forgets a silent producer's sequences after this time, in ms.",
    "num.partitions": "Partitions of a topic that is created without a count.",
    "auto.create.topics.enable": "Whether asking for the metadata of a missing topic creates it.",
    "metrics.listen": "Where Prometheus metrics and health checks are served, as host:port; empty is nowhere.",
}


def documentation_of(key: str) -> str:
    """What is said about a config's key; "" where nothing is."""
    return _TEXTS.get(key, "")
