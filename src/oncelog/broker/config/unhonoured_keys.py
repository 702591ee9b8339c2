"""Kafka's broker keys that oncelog does not honour: read without error, named in a warning.

Taken from what Apache Kafka 4.3 lists for a broker, less the keys of `config.BrokerConfig`; whole families by prefix.
"""

from __future__ import annotations

_FAMILIES = (
    "alter.log.dirs.replication.",
    "broker.heartbeat.",
    "broker.session.",
    "config.providers.",
    "controller.",
    "delegation.token.",
    "group.coordinator.",
    "group.share.",
    "kafka.metrics.",
    "leader.imbalance.",
    "listener.name.",
    "metadata.log.dir",
    "metadata.log.max.snapshot.",
    "metadata.log.segment.",
    "metadata.max.",
    "principal.builder.",
    "quota.",
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
_HONOURED = frozenset(
    """
    controller.listener.names
    delegation.token.secret.key delegation.token.max.lifetime.ms delegation.token.expiry.time.ms
    delegation.token.expiry.check.interval.ms
    sasl.enabled.mechanisms sasl.jaas.config sasl.server.max.receive.size
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    group.share.session.timeout.ms group.share.min.session.timeout.ms group.share.max.session.timeout.ms
    group.share.heartbeat.interval.ms group.share.min.heartbeat.interval.ms group.share.max.heartbeat.interval.ms
    group.share.assignment.interval.ms group.share.min.assignment.interval.ms group.share.max.assignment.interval.ms
    group.share.record.lock.duration.ms group.share.min.record.lock.duration.ms group.share.max.record.lock.duration.ms
    group.share.delivery.count.limit group.share.min.delivery.count.limit group.share.max.delivery.count.limit
    group.share.partition.max.record.locks group.share.min.partition.max.record.locks
    group.share.max.partition.max.record.locks group.share.max.size group.share.max.share.sessions
    share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.num.partitions
    share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.segment.bytes
    ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.key.password ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
    telemetry.max.bytes
    """.split()  # noqa: SIM905
)
_KEYS = frozenset(
    """
    alter.config.policy.class.name auto.include.jmx.reporter auto.leader.rebalance.enable
    background.threads broker.id.generation.enable broker.rack client.quota.callback.class config.providers
    controlled.shutdown.enable controlled.shutdown.max.retries cordoned.log.dirs
    create.topic.policy.class.name default.replication.factor delete.records.purgatory.purge.interval.requests
    early.start.listeners fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    initial.broker.registration.timeout.ms inter.broker.listener.name inter.broker.protocol.version
    log.cleaner.io.buffer.size
    log.cleaner.threads log.dir.failure.timeout.ms log.flush.interval.messages log.flush.interval.ms
    log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms log.local.retention.bytes
    log.local.retention.ms log.message.format.version log.preallocate
    metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.commit.timeout.ms offsets.load.buffer.size offsets.topic.compression.codec
    offsets.topic.replication.factor process.roles producer.purgatory.purge.interval.requests queued.max.request.bytes
    request.logger.level
    reserved.broker.max.id socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
    transaction.state.log.load.buffer.size transaction.state.log.replication.factor unclean.leader.election.enable
    unstable.api.versions.enable unstable.feature.versions.enable
    """.split()  # noqa: SIM905
)


# Those that Kafka lets be changed while it runs, by type: they are stored, and shown, without an effect.
_DYNAMIC = {
    "int": """
        background.threads
        group.coordinator.cached.buffer.max.bytes
        log.cleaner.io.buffer.size log.cleaner.threads num.io.threads
        num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers remote.fetch.max.wait.ms
        remote.log.manager.copier.thread.pool.size remote.log.manager.expiration.thread.pool.size
        remote.log.manager.follower.thread.pool.size remote.log.reader.threads
        share.coordinator.cached.buffer.max.bytes
    """,
    "list": """
        config.providers cordoned.log.dirs metric.reporters
        sasl.kerberos.principal.to.local.rules
    """,
    "boolean": """
        follower.fetch.last.tiered.offset.enable log.preallocate unclean.leader.election.enable
    """,
    "string": """
        sasl.kerberos.kinit.cmd sasl.kerberos.service.name
        sasl.mechanism.inter.broker.protocol ssl.endpoint.identification.algorithm
        ssl.keymanager.algorithm ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm
    """,
    "long": """
        log.flush.interval.messages log.flush.interval.ms log.local.retention.bytes
        log.local.retention.ms remote.list.offsets.request.timeout.ms
        remote.log.index.file.cache.total.size.bytes remote.log.manager.copy.max.bytes.per.second
        remote.log.manager.fetch.max.bytes.per.second leader.replication.throttled.rate
        follower.replication.throttled.rate replica.alter.log.dirs.io.max.bytes.per.second
        sasl.kerberos.min.time.before.relogin
    """,
    "double": """
        sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    """,
    "short": """
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    """,
    "class": """
        principal.builder.class ssl.engine.factory.class
    """,
}
DYNAMIC_KINDS: dict[str, str] = {key: kind for kind, keys in _DYNAMIC.items() for key in keys.split()}
_LONG_MAX = 2**63 - 1
_DOUBLE_MAX = int(1.7976931348623157e308)
# What the numbers among them may be, as Apache Kafka 4.3 answered; any other from 0 on.
DYNAMIC_BOUNDS: dict[str, tuple[int, int]] = {
    "background.threads": (1, 1_000),
    "group.coordinator.cached.buffer.max.bytes": (524_288, 2**31 - 1),
    "log.cleaner.threads": (1, 1_000),
    "log.flush.interval.messages": (1, _LONG_MAX),
    "log.flush.interval.ms": (-_LONG_MAX - 1, _LONG_MAX),
    "log.local.retention.bytes": (-2, _LONG_MAX),
    "log.local.retention.ms": (-2, _LONG_MAX),
    "num.io.threads": (1, 1_000),
    "num.network.threads": (1, 1_000),
    "num.recovery.threads.per.data.dir": (1, 1_000),
    "num.replica.fetchers": (1, 1_000),
    "remote.fetch.max.wait.ms": (1, 2**31 - 1),
    "remote.list.offsets.request.timeout.ms": (1, _LONG_MAX),
    "remote.log.index.file.cache.total.size.bytes": (1, _LONG_MAX),
    "remote.log.manager.copier.thread.pool.size": (1, 2**31 - 1),
    "remote.log.manager.copy.max.bytes.per.second": (1, _LONG_MAX),
    "remote.log.manager.expiration.thread.pool.size": (1, 2**31 - 1),
    "remote.log.manager.fetch.max.bytes.per.second": (1, _LONG_MAX),
    "remote.log.manager.follower.thread.pool.size": (1, 2**31 - 1),
    "remote.log.reader.threads": (1, 2**31 - 1),
    "sasl.kerberos.min.time.before.relogin": (-_LONG_MAX - 1, _LONG_MAX),
    "sasl.login.refresh.buffer.seconds": (-32_768, 32_767),
    "sasl.login.refresh.min.period.seconds": (-32_768, 32_767),
    "share.coordinator.cached.buffer.max.bytes": (524_288, 2**31 - 1),
}
DYNAMIC_BOUNDS |= {
    f"sasl.{name}": (-_DOUBLE_MAX, _DOUBLE_MAX)
    for name in (
        "kerberos.ticket.renew.jitter",
        "kerberos.ticket.renew.window.factor",
        "login.refresh.window.factor",
        "login.refresh.window.jitter",
    )
}
_ONE_BROKERS_FAMILIES = ("cordoned.log.dirs", "listener.", "sasl.", "ssl.", "principal.builder.")


def is_of_one_broker(key: str) -> bool:
    """True where Kafka lets a key be changed for one broker only, not for all."""
    return key.startswith(_ONE_BROKERS_FAMILIES)


def is_known_to_kafka(key: str) -> bool:
    """True where Apache Kafka has such a broker key."""
    return key not in _HONOURED and (key in _KEYS or key in DYNAMIC_KINDS or key.startswith(_FAMILIES))
