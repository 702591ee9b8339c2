"""Kafka's broker keys that oncelog does not honour: read without error, named in a warning.

Taken from what Apache Kafka 4.3 lists for a broker, less the keys of `config.BrokerConfig`; whole families by prefix.
"""

from __future__ import annotations

_FAMILIES = (
    "alter.log.dirs.replication.",
    "broker.heartbeat.",
    "broker.session.",
    "controller.",
    "delegation.token.",
    "group.consumer.",
    "group.coordinator.",
    "group.share.",
    "group.streams.",
    "kafka.metrics.",
    "leader.imbalance.",
    "listener.name.",
    "metadata.",
    "principal.builder.",
    "quota.",
    "queued.max.",
    "remote.",
    "replica.",
    "replication.quota.",
    "sasl.",
    "security.",
    "share.coordinator.",
    "share.fetch.",
    "socket.connection.",
    "ssl.",
    "telemetry.",
    "zookeeper.",
)
_KEYS = frozenset(
    """
    alter.config.policy.class.name auto.include.jmx.reporter auto.leader.rebalance.enable
    background.threads broker.id.generation.enable broker.rack client.quota.callback.class compression.gzip.level
    compression.lz4.level compression.zstd.level config.providers connection.failed.authentication.delay.ms
    connections.max.reauth.ms controlled.shutdown.enable controlled.shutdown.max.retries cordoned.log.dirs
    create.topic.policy.class.name default.replication.factor delete.records.purgatory.purge.interval.requests
    early.start.listeners fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    initial.broker.registration.timeout.ms inter.broker.listener.name inter.broker.protocol.version
    listener.security.protocol.map log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.min.cleanable.ratio
    log.cleaner.threads log.dir.failure.timeout.ms log.flush.interval.messages log.flush.interval.ms
    log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms log.local.retention.bytes
    log.local.retention.ms log.message.format.version log.preallocate log.roll.jitter.hours log.roll.jitter.ms
    metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.commit.timeout.ms offsets.load.buffer.size offsets.topic.compression.codec
    offsets.topic.replication.factor process.roles producer.purgatory.purge.interval.requests request.logger.level
    reserved.broker.max.id socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
    transaction.state.log.load.buffer.size transaction.state.log.replication.factor unclean.leader.election.enable
    unstable.api.versions.enable unstable.feature.versions.enable
    """.split()  # noqa: SIM905
)


def is_known_to_kafka(key: str) -> bool:
    """True where Apache Kafka has such a broker key."""
    return key in _KEYS or key.startswith(_FAMILIES)
