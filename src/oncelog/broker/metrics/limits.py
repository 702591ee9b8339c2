"""Every limit that a client can meet: what it is named, what happens there, where it is counted.

docs/limits.md is this table; tests/broker/metrics/test_limits.py and those it names meet each of them over a socket. Kafka's
limits have Kafka's names and defaults; those that Kafka does not have begin with `oncelog.`.
"""

from __future__ import annotations

from oncelog.broker.config.config import BrokerConfig, rules, text_of
from oncelog.lazy_dataclass import dataclass

_HITS = 'oncelog_limits_hit_total{limit="%s"}'
_ERRORS = 'kafka_network_requestmetrics_errors_total{error="%s"}'


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit. `error` is the code that counts it where it is not counted by its own name."""

    key: str
    what: str
    then: str
    error: str = ""
    is_counted: bool = True  # where a client only asks again, nothing was refused

    @property
    def default(self) -> str:
        """The default, as Kafka writes values."""
        return text_of(getattr(BrokerConfig(), self.key.replace(".", "_")))

    @property
    def counted_in(self) -> str:
        """The metric that counts it."""
        if not self.is_counted:
            return ""
        return _ERRORS % self.error if self.error else _HITS % self.key

    @property
    def is_dynamic(self) -> bool:
        """Whether it can be altered while the broker runs."""
        return rules()[self.key][1].is_dynamic


LIMITS = (
    # connections
    Limit("max.connections", "open connections", "a new one is closed at once"),
    Limit("max.connections.per.ip", "open connections of one address", "a new one is closed at once"),
    Limit(
        "max.connections.per.ip.overrides",
        "the same for named addresses, `127.0.0.1:10,::1:20`",
        "a new one is closed at once",
    ),
    Limit("max.connection.creation.rate", "new connections per second", "a new one is not read until its time comes"),
    Limit("connections.max.idle.ms", "silence, of a client or of one that does not read its replies", "closed"),
    # before authentication
    Limit(
        "oncelog.authentication.timeout.ms",
        "time from a connection's arrival until it has authenticated, whatever it sends",
        "closed",
    ),
    Limit(
        "oncelog.max.unauthenticated.connections",
        "connections that have not authenticated yet",
        "one that is refused already is closed, else the one that came first",
    ),
    Limit(
        "oncelog.max.unauthenticated.connections.per.ip",
        "the same of one address",
        "one that is refused already is closed, else the one that came first",
    ),
    Limit(
        "oncelog.max.unauthenticated.bytes",
        "bytes that all such connections have sent and nobody has looked at",
        "closed",
    ),
    Limit(
        "sasl.server.max.receive.size",
        "size of a request before the authentication",
        "the connection is closed before anything is read",
    ),
    # requests
    Limit("socket.request.max.bytes", "size of a request", "the connection is closed before anything is read"),
    Limit(
        "oncelog.first.request.max.bytes",
        "size of a connection's first request (at least twice message.max.bytes)",
        "the connection is closed before anything is read",
    ),
    Limit("oncelog.request.max.items", "items in all arrays of a request together", "the connection is closed"),
    Limit(
        "oncelog.request.receive.timeout.ms",
        "time for a request to come whole, unless it comes with 1 KiB a second",
        "the connection is closed",
    ),
    Limit("oncelog.connection.max.in.flight", "requests of a connection that are not answered", "it is not read"),
    Limit(
        "queued.max.requests",
        "requests of all connections that wait for the one before them",
        "a connection with such requests is not read until they have begun, or there are fewer",
    ),
    Limit("oncelog.connection.max.unsent.bytes", "replies that a client has not read", "nothing more is begun for it"),
    Limit(
        "oncelog.replies.max.unsent.bytes",
        "the memory that replies of all clients take until they are read",
        "from half of it on fetches answer with 64 KiB; at three quarters whoever has read nothing for longest is closed",
    ),
    Limit(
        "max.request.partition.size.limit",
        "partitions in a DescribeTopicPartitions response",
        "the rest comes with the next request",
        is_counted=False,
    ),
    Limit(
        "request.timeout.ms",
        "the wait of a change of the metadata for those before it; CreateTopics, DeleteTopics, CreatePartitions and "
        "UpdateFeatures name a time of their own",
        "REQUEST_TIMED_OUT, nothing is changed; what the broker changes itself is tried again",
    ),
    # records
    Limit("message.max.bytes", "size of a batch (a topic's max.message.bytes)", "MESSAGE_TOO_LARGE"),
    Limit(
        "oncelog.message.max.decompressed.bytes",
        "size of a batch once decompressed; stopped there",
        "MESSAGE_TOO_LARGE",
    ),
    Limit(
        "fetch.max.bytes",
        "records in a fetch response; one batch always",
        "the rest comes with the next fetch",
        is_counted=False,
    ),
    Limit("max.incremental.fetch.session.cache.slots", "fetch sessions", "a fetch gets no session; it is answered"),
    # what is remembered
    Limit("oncelog.max.topics", "topics", "POLICY_VIOLATION, also for automatic creation"),
    Limit("oncelog.max.partitions", "partitions of all topics", "POLICY_VIOLATION, also for automatic creation"),
    Limit("oncelog.max.transactional.ids", "transactional ids known", "POLICY_VIOLATION for a new one"),
    Limit("oncelog.max.producer.ids.per.partition", "producer ids known", "POLICY_VIOLATION for a new one"),
    Limit("oncelog.max.groups", "groups known", "GROUP_MAX_SIZE_REACHED for a new one"),
    Limit(
        "oncelog.max.group.members",
        "members of all groups, with ids that were given to those who come back with them",
        "GROUP_MAX_SIZE_REACHED for a new one",
    ),
    Limit(
        "oncelog.max.committed.offsets",
        "offsets of all groups, pending ones of transactions included; for themselves: partitions of all share groups",
        "POLICY_VIOLATION where the group has none of the partition yet",
    ),
    Limit("group.share.max.share.sessions", "sessions of share groups' members", "SHARE_SESSION_LIMIT_REACHED"),
    Limit(
        "oncelog.max.fetch.session.partitions",
        "partitions of all fetch sessions, existing or not; for themselves: those of all share sessions",
        "a fetch gets no session; one that grows beyond it begins anew (FETCH_SESSION_ID_NOT_FOUND); SHARE_SESSION_LIMIT_REACHED",
    ),
    Limit(
        "oncelog.journal.max.bytes",
        "the journal's segments that wait for the data files' sync (at least four of 64 MiB)",
        "from half of it on commits wait for a data sync; a partition that appends at the bound goes offline until a restart",
    ),
    Limit("oncelog.max.acls", "access rules", "POLICY_VIOLATION for a new one"),
    Limit("oncelog.max.scram.credentials", "SCRAM credentials", "POLICY_VIOLATION for a new one"),
    Limit("oncelog.max.delegation.tokens", "delegation tokens", "POLICY_VIOLATION for a new one"),
    Limit("oncelog.max.client.quotas", "entities that have quotas", "POLICY_VIOLATION for a new one"),
    Limit(
        "oncelog.max.config.resources",
        "groups and client-metrics subscriptions with configs of their own",
        "POLICY_VIOLATION for a new one",
    ),
    Limit(
        "telemetry.max.bytes",
        "metrics that a client pushes at once, as they come",
        "TELEMETRY_TOO_LARGE; the client tries again at its next interval",
    ),
    Limit(
        "oncelog.telemetry.max.decompressed.bytes",
        "the same once decompressed, 100,000 fields and `oncelog.max.client.metrics.series` numbers at most",
        "TELEMETRY_TOO_LARGE; the client tries again at its next interval",
    ),
    Limit(
        "oncelog.max.client.metrics.series",
        "numbers that all clients have pushed, the text of each at most 1,000 characters long",
        "a number beyond it is left out",
    ),
    Limit(
        "oncelog.max.client.instances",
        "clients that push metrics, or have asked whether they are to",
        "the one silent longest is forgotten, with its numbers",
        is_counted=False,
    ),
    Limit(
        "oncelog.max.clients.under.quota",
        "clients whose rate is remembered, for each quota",
        "the one silent longest is forgotten",
    ),
    Limit(
        "oncelog.log.max.lines.per.minute",
        "lines in the log about what clients did wrong",
        "left out, and counted in the next line",
    ),
    Limit("group.max.size", "members of a group", "GROUP_MAX_SIZE_REACHED", "GROUP_MAX_SIZE_REACHED"),
    Limit("group.max.session.timeout.ms", "a member's timeout", "INVALID_SESSION_TIMEOUT", "INVALID_SESSION_TIMEOUT"),
    Limit(
        "offset.metadata.max.bytes", "text beside an offset", "OFFSET_METADATA_TOO_LARGE", "OFFSET_METADATA_TOO_LARGE"
    ),
    Limit(
        "transaction.max.timeout.ms",
        "a transaction's timeout",
        "INVALID_TRANSACTION_TIMEOUT",
        "INVALID_TRANSACTION_TIMEOUT",
    ),
)


def table() -> str:
    """docs/limits.md's table."""
    rows = ["| key | default | while it runs | bounds | what happens there | counted in |", "|---|---|---|---|---|---|"]
    for limit in LIMITS:
        dynamic = "yes" if limit.is_dynamic else ""
        counted = f"`{limit.counted_in}`" if limit.is_counted else ""
        rows.append(f"| `{limit.key}` | {limit.default} | {dynamic} | {limit.what} | {limit.then} | {counted} |")
    return "\n".join(rows)
