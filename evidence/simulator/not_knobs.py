"""Numbers of modules that are no knobs, each with the reason: another value would break a protocol, a format or a promise."""

from __future__ import annotations

import re

# By name, wherever they are.
PATTERNS: dict[str, str] = {
    r"_?(INT|INT16|INT32|INT64|UINT32|LONG|DOUBLE|FRACTION|COUNT)_MAX": "the bounds of a number's type",
    r".*SINCE|.*SINCE_VERSION|FIRST_.*_WITH_.*|FIRST_VERSION_.*|.*_VERSION_WITH\w*|.*VERSION|.*VERSION_MAX|BY_NAME_VERSION_MAX": (
        "a version of the protocol or of a record"
    ),
    r"EPOCH_BUMPED_FROM_VERSION|NEW_PROTOCOL|ENDED_BY_OLD_PROTOCOL|TWO_PHASE_LEVEL": "a version of the protocol or of a record",
    r"NO_\w+|NONE|UNDEFINED|AT_ONCE|FULL|FOREVER|NEVER_MS|_LAST_EPOCH_ABSENT|EMPTY_LOG_LEADER_EPOCH": "says that there is none",
    r"\w*_EPOCH|\w*EPOCH_MAX": "an epoch that means something (KIP-360, KIP-848, KIP-227)",
    r"SEQUENCE_COUNT|_SEQUENCE_MODULUS": "sequences begin again there",
    r"\w*CREATE_TIME|LOG_APPEND_TIME|CODEC_MASK|\w+_BIT|\w+_POSITION|_CRC_END|LENGTH_END|MAGIC": "the layout of a batch or file",
    r"HEADER_\w*BYTES|\w*_OVERHEAD_BYTES|\w*RECORD_BYTES_MIN|ENTRY_SIZE_BYTES|HASH_BYTES": "the layout of a batch, file or hash",
    r"KEYLESS|RECORD_BYTES|LENGTH_BYTES_MAX|TIMESTAMP_MAX_MS|PLACED_FIELDS": "the layout of a record",
    r"_HEADER_UP_TO_MAGIC_BYTES|_ATTRIBUTES_LOW_BYTE|SECTOR_SIZE_BYTES": "the layout of a batch, or of a disk",
    r"LATEST|EARLIEST|LARGEST_TIMESTAMP|TO_HIGH_WATERMARK|CONSUMER|FIRST_GROUP_EPOCH": "a number of Kafka's with a meaning",
    r"_EXACT|_DEFAULT|_ANY|_SET|_DELETE|_BROKERS|_CONTROLLERS|_GROUP|_TRANSACTION|TRANSACTION": "a code of the protocol",
    r"DYNAMIC_\w+|STATIC_BROKER|DEFAULT|TOPIC|BROKER|BROKER_LOGGER|CLIENT_METRICS|GROUP|\w+_RESOURCE": "a code of the protocol",
    r"UPGRADE|SAFE_DOWNGRADE|UNSAFE_DOWNGRADE|ABORT|COMMIT": "a code of the protocol",
    r"SCRAM_SHA_\d+|MEMBER_TYPE_\w+|_ELECTION_TYPES": "a code of the protocol",
    r"(SQLITE|MYSQL)_\w+": "a setting of a database",
    r"INT32_BYTES_MAX|KAFKAS_LEVEL": "a number of the protocol",
    r"\w+_KEYS?|_TAG_\d+": "a key of a record or a tag",
    r"\w*ITERATION_COUNT_M\w+|_?SALT_SIZE_BYTES\w*": "KIP-554's bounds",
    r"\w*MINUTE_MS|DAY_MS": "a length of time by its name",
    r"_MASK|_SEED|_M|HASH_SEED|HASH_FACTOR|_POLYNOMIAL_REVERSED": "an algorithm's numbers (murmur2, CRC-32C)",
}
PROTOCOL = "Kafka's own number, which clients or operators see"
LIMIT = "a limit that is promised (docs/limits.md): its refusal is seen"
ELSEWHERE = "nothing of it runs in a simulated cluster"
REPORT = "how a metric is shown"
SAID = "how much of a line or a log is said"
NAMED: dict[str, str] = {
    "oncelog.broker.admission.deeds.NAMED_MAX": SAID,
    "oncelog.broker.coordinators.transactions.NAMED_MAX": SAID,
    "oncelog.broker.partitions.local_partition.DAMAGE_SAID_MAX": SAID,
    "oncelog.client.arguments.REPR_LENGTH_MAX": SAID,
    "oncelog.client.cluster.cluster.TOLD_MAX": SAID,
    "oncelog.core.producer.unheard.KEPT_MAX": SAID,
    "oncelog.core.producer.record_buffer.FIRST_BYTES": "a C constant where it is compiled: nothing can draw it",
    "oncelog.client.arguments.TEXT_BYTES_MAX": PROTOCOL,
    "oncelog.client.admin.clients._ITERATIONS_MAX": ELSEWHERE,
    "oncelog.client.cluster.each_leader.LOOKS": ELSEWHERE,
    "oncelog.wire.compression._LZ4_GROWTH": "a format's number",
    "oncelog.wire.compression._LZ4_ROOM_BYTES_MIN": "room for what a frame gives: any value gives the same bytes",
    "oncelog.broker.metrics.histogram.REQUEST_MS": REPORT,
    "oncelog.broker.metrics.histogram.SYNC_MS": REPORT,
    "oncelog.broker.metrics.histogram.LAG_MS": REPORT,
    "oncelog.broker.metrics.histogram.COUNTS": REPORT,
    "oncelog.broker.config.loggers._TRACE": "a level of a logging library",
    "oncelog.broker.metadata.metadata_store.SIZE_BYTES_MAX": "the default of a key that is a knob",
    "oncelog.broker.metrics.metrics_endpoint.REQUEST_SIZE_BYTES_MAX": ELSEWHERE,
    "oncelog.broker.metrics.metrics_endpoint.CONNECTIONS_MAX": ELSEWHERE,
    "oncelog.broker.metrics.metrics_endpoint.DEADLINE_S": ELSEWHERE,
    "oncelog.broker.network.peer.RESPONSE_SIZE_BYTES_MAX": "a bound that no answer of a broker to itself reaches",
    "oncelog.client.admin.hanging.TRANSACTION_TIMEOUT_MAX_MS": PROTOCOL,
    "oncelog.client.admin.transactions.DESCRIBED_AT_ONCE": ELSEWHERE,
    "oncelog.client.producer.arrow_sending.BATCH_BYTES_MAX": ELSEWHERE,
    "oncelog.client.cluster.cluster.UNKNOWN_TOPIC_PATIENCE_MS": "how long a missing topic is believed to come: a promise",
    "oncelog.client.consumer.consumer.ARROW_RECORDS_MAX": "the interface: a parameter's default",
    "oncelog.client.consumer.iteration.LENT_RECORDS_MAX": "only what oncelog.sync lends its callers' threads",
    "oncelog.client.consumer.consumer.POLL_TIMEOUT_MS": "the interface: a parameter's default",
    "oncelog.core.metadata.acls.DEFAULT_COUNT_MAX": "the default of a key that is a limit",
    "oncelog.core.metadata.quotas.DEFAULT_COUNT_MAX": "the default of a key that is a limit",
    "oncelog.core.metadata.credentials.DEFAULT_COUNT_MAX": "the default of a key that is a limit",
    "oncelog.core.metadata.configs.VALUE_SIZE_BYTES_MAX": LIMIT,
    "oncelog.core.groups.consumer.change.REGEX_RESOLVE_INTERVAL_MIN_MS": PROTOCOL,
    "oncelog.core.two_phase.dual_write.COMPLETE_ATTEMPTS_MAX": ELSEWHERE,
    "oncelog.core.two_phase.dual_write.ROUNDS_MAX": ELSEWHERE,
    "oncelog.core.metadata.features.INIT_PRODUCER_ID_VERSION_WITHOUT_TWO_PHASE": "a version of the protocol",
    "oncelog.core.leader.fetch_session.PARTITIONS_MAX": "the default of a key that is a limit",
    "oncelog.core.groups.config.NEW_MEMBER_JOIN_TIMEOUT_MS": PROTOCOL,
    "oncelog.core.groups.offsets.TIMESTAMP_MS_MAX": "the bounds of a number's type",
    "oncelog.core.name_pattern.REPEAT_MAX": LIMIT,
    "oncelog.core.name_pattern.INSTRUCTIONS_MAX": LIMIT,
    "oncelog.core.leader.partition.LATE_TRANSACTION_PADDING_MS": PROTOCOL,
    "oncelog.core.leader.producer_state.WINDOW_BATCH_COUNT": "the protocol: what a client may have in flight is looked for in it",
    "oncelog.core.producer.in_flight.IN_FLIGHT_MAX_WITH_IDEMPOTENCE": PROTOCOL,
    "oncelog.core.metadata.resource_configs._INTERVAL_MS_MIN": PROTOCOL,
    "oncelog.core.metadata.resource_configs._INTERVAL_MS_MAX": PROTOCOL,
    "oncelog.core.metadata.topics.PARTITION_COUNT_MAX": LIMIT,
    "oncelog.core.metadata.topic_configs.NAME_LENGTH_MAX": PROTOCOL,
    "oncelog.core.producer.transaction_manager.TIMEOUT_WITHOUT_TRANSACTIONS_MS": PROTOCOL,
    "oncelog.core.producer.requests.BUMP_PRIORITY": "an order among requests",
    "oncelog.core.leader.guards.VERIFICATION_MS_MAX": "how long a slow Produce of the old protocol may take: a promise",
    "oncelog.log.journal.SEGMENTS_MAX": LIMIT,
    "oncelog.log.journal_entries.SEGMENT_HEADER_BYTES": "the layout of a file",
    "oncelog.log.producer_windows.PRODUCER_COUNT_MAX": "after a restart retries are known for so many producers: a promise",
    "oncelog.log.torn_tail._SEARCH_BYTES_MAX": "acknowledged batches behind damage are found so far: a promise",
    "oncelog.host.memory.KEPT_SIZE_BYTES": ELSEWHERE,
    "oncelog.host.memory.OWN_MAPPING_SIZE_BYTES": ELSEWHERE,
    "oncelog.host.memory._M_TRIM_THRESHOLD": ELSEWHERE,
    "oncelog.host.memory._M_MMAP_THRESHOLD": ELSEWHERE,
    "oncelog.host.syncer.THREADS_MAX": ELSEWHERE,
    "oncelog.host.worker.SLICE_S": ELSEWHERE,
    "oncelog.host.worker.REST_S": ELSEWHERE,
    "oncelog.wire.arrow_codec.MILLISECONDS_MAX": "the bounds of a number's type",
    "oncelog.wire.arrow_records.SECTION_BYTES_MAX": ELSEWHERE,
    "oncelog.wire.codec_source.STRING_SIZE_BYTES_MAX": PROTOCOL,
    "oncelog.wire.codec_source.ITEMS_MAX": LIMIT,
    "oncelog.wire.codec_source.TAGS_MAX": LIMIT,
    "oncelog.wire.compression._SNAPPY_GROWTH_MAX": "how far Snappy can grow",
    "oncelog.wire.compression._FRAMES_MAX": LIMIT,
    "oncelog.wire.compression._ZSTD_WINDOW_BYTES_MAX": LIMIT,
    "oncelog.wire.frame.SIZE_BYTES_MAX": "the default of a key that is a limit",
    "oncelog.wire.frame_buffer.KEPT_BYTES_MIN": "together with two others; they bound what is kept for the next frame",
    "oncelog.wire.frame_buffer.KEPT_BYTES_MAX": "together with two others; they bound what is kept for the next frame",
    "oncelog.wire.frame_buffer.KEPT_COUNT_MAX": "together with two others; they bound what is kept for the next frame",
    "oncelog.wire.log_records.transaction_state.TWO_PHASE_TIMEOUT_MS": PROTOCOL,
    "oncelog.wire.log_records.transaction_state.SHORT_ID_LENGTH_MAX": "the layout of a record",
    "oncelog.wire.record_batch.DECOMPRESSED_BYTES_MAX": LIMIT,
    "oncelog.recipes.database.TRANSACTIONAL_ID_LENGTH_MAX": "the layout of a table",
    "oncelog.recipes.database.STALL_LIMIT_MS": ELSEWHERE,
    "oncelog.recipes.endings.RECOVERY_TIMEOUT_MS": ELSEWHERE,
    "oncelog.recipes.endings.BACKOFF_MS": ELSEWHERE,
    "oncelog.recipes.endings.BACKOFF_MAX_MS": ELSEWHERE,
    "oncelog.recipes.endings.STOP_TIMEOUT_MS": ELSEWHERE,
    "oncelog.recipes.endings.STOP_SETTLE_TIMEOUT_MS": ELSEWHERE,
    "oncelog.recipes.sqlite.BUSY_TIMEOUT_MS": ELSEWHERE,
}
_ANY_PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS))


def reason_for(module: str, name: str) -> str | None:
    """Why a number is no knob; None where nobody has said."""
    named = NAMED.get(f"{module}.{name}")
    if named is not None or _ANY_PATTERN.fullmatch(name) is None:
        return named
    return next(reason for pattern, reason in PATTERNS.items() if re.fullmatch(pattern, name))
