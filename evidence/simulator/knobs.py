"""Every number that only tunes, in one table: a run draws some of them from its seed, extremes included.

A knob is a constant of a module, a key of the broker or an option of a client. What must hold, holds with any of its
values, one lane or one byte a chunk; `not_knobs.py` names the numbers that are part of a protocol or of a promise, and
`test_knobs.py` that no constant is in neither. A drawn constant is set in every module that imported it by name, for one
run only.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from oncelog.core.metadata.topic_configs import TOPIC_CONFIGS

PACKAGE = "oncelog"
SHARES = (0.0, 0.03, 0.03, 0.1, 0.3)  # of the knobs, that a run turns
LOW, HIGH, BETWEEN = "low", "high", "between"
CLIENT_KINDS = ("client", "producer", "consumer")


@dataclass(frozen=True)
class Knob:
    """A number between `low` and `high`. `name`: "oncelog.package.module.CONSTANT", "broker:key" or "producer:option"."""

    name: str
    low: float
    high: float

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant of a module."""
        return ":" not in self.name

    @property
    def place(self) -> tuple[str, str]:
        """Module and attribute; or "broker", "client", "producer", "consumer" and the key."""
        if self.is_constant:
            module, _, attribute = self.name.rpartition(".")
            return module, attribute
        kind, _, key = self.name.partition(":")
        return kind, key

    @property
    def is_float(self) -> bool:
        """Whether values between whole numbers are meant."""
        return isinstance(self.low, float)

    def between(self, rng: random.Random) -> float:
        """Some value between the extremes, small ones as likely as large ones."""
        low = max(self.low, 0.001 if self.is_float else 1)
        value = low * (self.high / low) ** rng.random()
        return min(round(value, 3), self.high) if self.is_float else int(value)

    def level(self, value: float) -> str:
        """Where in its range a value is."""
        return LOW if value == self.low else HIGH if value == self.high else BETWEEN

    def read(self, text: str) -> float:
        """A value as it is written in a seed's changes."""
        return float(text) if self.is_float else int(text)


def _constants(module: str, **ranges: tuple[float, float]) -> Iterator[Knob]:
    for name, (low, high) in ranges.items():
        yield Knob(f"{module}.{name}", low, high)


def _keys(kind: str, **ranges: tuple[float, float]) -> Iterator[Knob]:
    for name, (low, high) in ranges.items():
        yield Knob(f"{kind}:{name.replace('_', '.') if kind == 'broker' else name}", low, high)


def _table() -> Iterator[Knob]:
    yield from _broker_constants()
    yield from _other_constants()
    yield from _broker_keys()
    yield from _client_options()
    yield from _journal_constants()  # late, so that what a seed draws of the others stays what it was
    yield from _large_request_constants()
    yield from _constants("oncelog.log.recovery", READ_AGAIN_SIZE_BYTES_MAX=(0, 1 << 20))
    yield from _constants("oncelog.broker.partitions.log_starts", LOOKED_AT_TOGETHER=(1, 32))
    yield from _constants("oncelog.core.producer.conditional_commit", FRUITLESS_MAX=(0, 1000))  # 0: never tried
    yield from _constants("oncelog.core.known_coordinators", COORDINATORS_MAX=(1, 4096))
    yield from _constants("oncelog.client.config", METADATA_IDLE_MS=(1, 300_000))
    yield from _keys("producer", metadata_max_idle_ms=(5000, 300_000))
    yield from _constants("oncelog.broker.partitions.deleted_files", REMOVE_AGAIN_S=(0.01, 60.0))
    yield from _constants("oncelog.core.consumer.membership", ASKED_SOON=(0, 20))
    yield from _constants("oncelog.broker.admission.deeds", UNHEARD_MAX=(0, 20))


def _large_request_constants() -> Iterator[Knob]:
    yield from _constants("oncelog.broker.network.connection", STAGE_SIZE_BYTES=(16, 1 << 18))
    yield from _constants("oncelog.wire.frame", OWN_MEMORY_SIZE_BYTES_MIN=(16, 1 << 20), OWN_MEMORY_FACTOR=(2, 1 << 10))
    yield from _constants("oncelog.log.partition_log", WRITTEN_LATER_SIZE_BYTES_MIN=(1, 1 << 20))


def _journal_constants() -> Iterator[Knob]:
    yield from _constants(
        "oncelog.log.journal",
        SEGMENT_SIZE_BYTES=(4096, 64 << 20),
        SEGMENTS_KEPT=(1, 8),
        FILL_SIZE_BYTES=(1, 1 << 20),
        COPIED_BYTES_MAX=(61, 1 << 20),
    )
    yield from _constants(
        "oncelog.broker.partitions.journal_flusher",
        DATA_SYNC_INTERVAL_S=(0.01, 5.0),
        DATA_SYNC_BYTES=(1, 32 << 20),
        UNSYNCED_PARTITIONS_MAX=(1, 256),
        SYNCED_TOGETHER_MAX=(1, 64),
        HANDED_OUT_TOGETHER_MAX=(1, 64),
    )
    yield from _constants("oncelog.log.journal_replay", WRITTEN_MAX=(1, 256))
    yield from _constants(
        "oncelog.broker.partitions.partition_files", COORDINATOR_SEGMENT_SIZE_BYTES_MAX=(4096, 64 << 20)
    )
    yield from _constants(
        "oncelog.broker.partitions.partitions",
        OPENED_TOGETHER=(1, 64),
        OPEN_PAUSE_S=(0.0, 10.0),
    )
    yield from _constants("oncelog.broker.partitions.partition_settings", KNOWN_SETTINGS_MAX=(0, 1000))


def _broker_constants() -> Iterator[Knob]:
    yield from _constants("oncelog.broker.broker", DRAIN_TIMEOUT_S=(0.05, 10.0))
    yield from _constants("oncelog.broker.network.connection", JOINED_SIZE_BYTES_MAX=(0, 1 << 20))
    yield from _constants("oncelog.broker.partitions.flusher", LEFTOVER_INTERVAL_S=(0.01, 2.0))
    yield from _constants("oncelog.broker.gauges", LAGGING_PARTITIONS_MAX=(1, 1000), LAG_INTERVAL_S=(0.01, 10.0))
    yield from _constants("oncelog.broker.handlers.metadata.create_topics", TOPICS_OF_CHANGE_MAX=(1, 1000))
    yield from _constants("oncelog.broker.network.log_budget", WINDOW_S=(0.1, 60.0))
    yield from _constants("oncelog.broker.share.share_partition", ROUNDS_MAX=(1, 100))
    yield from _constants(
        "oncelog.broker.share.share_coordinators", PRUNED_RECORDS_MIN=(1, 10_000), PRUNED_RECORDS_PER_STATE=(1, 100)
    )
    yield from _constants("oncelog.core.share.states", RECORDS_PER_DECISION_MAX=(1, 1000))
    yield from _constants("oncelog.broker.partitions.log_cleaner", LOOKED_AT_TOGETHER=(1, 64))
    yield from _constants(
        "oncelog.broker.coordinators.marker_sender",
        RETRY_DELAY_S=(0.001, 0.5),
        RETRY_DELAY_S_MAX=(0.01, 2.0),
        REQUEST_MARKER_COUNT_MAX=(1, 1000),
    )
    yield from _constants("oncelog.broker.metadata.metadata_store", SNAPSHOT_BATCH_COUNT=(1, 1000))
    yield from _constants("oncelog.broker.metrics.metrics", TOPICS_MAX=(1, 1000))
    yield from _constants("oncelog.broker.partitions.partitions", TOGETHER_MAX=(1, 64), STEP_PARTITIONS=(1, 32))
    yield from _constants(
        "oncelog.broker.admission.population", COUNTED_PER_S=(1, 1_000_000), RECOUNT_S_MAX=(0.0, 10.0)
    )
    yield from _constants("oncelog.broker.admission.quotas", THROTTLE_MS_MAX=(1, 1000))
    yield from _constants(
        "oncelog.broker.network.server",
        SLOWEST_BYTES_PER_S=(1, 1 << 20),
        SWEEP_INTERVAL_S=(0.05, 30.0),
        FETCH_BYTES_MIN=(1, 1 << 20),
    )
    yield from _constants("oncelog.broker.coordinators.transaction_gate", LANE_COUNT=(1, 4096))


def _other_constants() -> Iterator[Knob]:
    yield from _constants(
        "oncelog.client.cluster.anybody",
        SILENCE_MS=(1, 20_000),
        SILENT_FOR_MS=(0, 60_000),
        SILENCES_OF_A_TIMEOUT=(1, 100),
    )
    yield from _constants("oncelog.client.cluster.connection", THROTTLE_MS_MAX=(1, 540_000))
    yield from _constants("oncelog.client.consumer.group", STALE_EPOCH_RETRIES=(0, 10), STALE_EPOCH_WAIT_S=(0.01, 2.0))
    yield from _constants("oncelog.client.consumer.classic_protocol", JOIN_SLACK_MS=(500, 20_000), JOINS_AT_ONCE=(0, 5))
    yield from _constants("oncelog.client.consumer.iteration", LOOK_AROUND_MS=(0, 1000), LOOK_TIMEOUT_MS=(1, 5000))
    yield from _constants("oncelog.core.producer.accumulator", GRANT_BYTES=(1, 1 << 20))
    yield from _constants("oncelog.client.traffic", BROKERS_MAX=(1, 1000))
    yield from _constants("oncelog.core.access.authorizer", _DECISIONS_MAX=(1, 10_000))
    yield from _constants("oncelog.core.client_metrics.instances", LOOK_INTERVAL_MS=(0, 60_000))
    yield from _constants("oncelog.core.consumer.membership", SAYS_ALL_EVERY=(1, 100))
    yield from _constants("oncelog.core.leader.fetch_session", EVICTABLE_AFTER_MS=(0, 120_000))
    yield from _constants("oncelog.core.groups.config", REJOIN_CHECK_INTERVAL_MS=(10, 1000))
    yield from _constants("oncelog.core.groups.alarms", ALARMS_SPARE=(0, 64))
    yield from _constants("oncelog.core.groups.coordinator", EXPIRED_RECORDS_MAX=(1, 1000))
    yield from _constants("oncelog.core.name_pattern", _REMEMBERED_MAX=(1, 20_000))
    yield from _constants("oncelog.core.transactions.producer_ids", BLOCK_SIZE=(1, 1000))
    yield from _constants(
        "oncelog.core.metadata.quota_rates",
        WINDOW_COUNT=(2, 60),
        WINDOW_MS=(50, 5000),
        FORGET_AFTER_MS=(1, 3_600_000),
        CLIENTS_MAX=(1, 10_000),
    )
    yield from _constants(
        "oncelog.core.metadata.quota_turns",
        READERS_MAX=(1, 1_000),
        PRESENT_FOR_MS=(1, 5_000),
        FORGET_AFTER_MS=(1, 60_000),
    )
    yield from _constants("oncelog.core.placement", REMEMBERED_KEY_LENGTH_MAX=(0, 1000))
    yield from _constants("oncelog.core.transactions.timeouts", TOMBSTONES_PER_BATCH=(1, 1000))
    yield from _constants("oncelog.core.groups.consumer.uniform_balance", ROUNDS_MAX=(1, 100))
    yield from _constants("oncelog.core.leader.guards", VERIFICATION_COUNT_MAX=(10, 10_000))
    yield from _constants("oncelog.log.batch_scan", CHUNK_SIZE_BYTES=(100, 1 << 20))
    yield from _constants("oncelog.log.cleaner", WRITE_SIZE_BYTES=(1, 1 << 18), RECORDS_BETWEEN_PACES=(1, 1024))
    yield from _constants("oncelog.log.cleaning_plan", GROUP_SEGMENTS_MAX=(1, 64))
    yield from _constants("oncelog.log.failed_sync", CHUNK_SIZE_BYTES=(1, 1 << 20))
    yield from _constants("oncelog.log.index_mending", AT_ONCE_SIZE_BYTES=(0, 1 << 20))
    yield from _constants("oncelog.log.offset_map", KEY_BYTES_MAX=(0, 64), KEY_COST_BYTES=(1, 1000))
    yield from _constants("oncelog.log.open_files", OPEN_FILES_MAX=(1, 512))
    yield from _constants("oncelog.log.partition_log", SNAPSHOTS_KEPT=(1, 10))
    yield from _constants("oncelog.log.segment", _WALK_CHUNK_BYTES=(61, 1 << 20))
    yield from _constants("oncelog.log.time_proof", NEAR_SIZE_BYTES=(61, 1 << 20), ALL_SIZE_BYTES=(61, 1 << 20))
    yield from _constants("oncelog.wire.compression", _XERIAL_BLOCK_BYTES=(1, 1 << 20), _ZSTD_INPUT_BYTES=(1, 1 << 16))
    yield from _constants("oncelog.wire.frame", KEPT_SHARE=(1, 1 << 20))
    yield from _constants("oncelog.wire.frame_buffer", STAGE_BYTES=(64, 1 << 20), FIRST_BYTES=(16, 1 << 20))


def _broker_keys() -> Iterator[Knob]:
    yield from _keys(
        "broker",
        add_partitions_to_txn_retry_backoff_ms=(1, 500),
        add_partitions_to_txn_retry_backoff_max_ms=(0, 1000),
        connections_max_idle_ms=(500, 600_000),
        fetch_max_bytes=(1024, 57_671_680),
        group_consumer_assignment_interval_ms=(0, 1000),
        group_initial_rebalance_delay_ms=(0, 500),
        log_cleaner_backoff_ms=(1, 2000),
        log_cleaner_dedupe_buffer_size=(1, 1 << 27),
        log_flush_offset_checkpoint_interval_ms=(50, 60_000),
        log_index_interval_bytes=(0, 4096),
        log_index_size_max_bytes=(64, 10_485_760),
        log_retention_check_interval_ms=(100, 300_000),
        log_segment_bytes=(65_536, 1 << 30),
        log_segment_delete_delay_ms=(0, 60_000),
        max_incremental_fetch_session_cache_slots=(0, 1000),
        metadata_log_max_record_bytes_between_snapshots=(1, 20_971_520),
        offsets_retention_check_interval_ms=(100, 600_000),
        offsets_topic_segment_bytes=(4096, 104_857_600),
        oncelog_connection_max_in_flight=(1, 100),
        oncelog_request_receive_timeout_ms=(500, 30_000),
        producer_id_expiration_check_interval_ms=(100, 600_000),
        queued_max_requests=(1, 500),
        request_timeout_ms=(
            2000,
            30_000,
        ),  # a write of markers takes longer than less on a slow disk, however often it is asked
        transaction_abort_timed_out_transaction_cleanup_interval_ms=(50, 1000),
        transaction_remove_expired_transaction_cleanup_interval_ms=(100, 3_600_000),
        transaction_state_log_segment_bytes=(4096, 104_857_600),
    )


def _client_options() -> Iterator[Knob]:
    yield from _keys(
        "client",
        metadata_max_age_ms=(200, 300_000),
        reconnect_backoff_ms=(1, 500),
        reconnect_backoff_max_ms=(10, 2000),
        retry_backoff_ms=(1, 500),
        retry_backoff_max_ms=(10, 2000),
    )
    yield from _keys(
        "producer",
        batch_size=(1, 1 << 20),
        buffer_memory=(4000, 33_554_432),
        linger_ms=(0, 300),
        max_in_flight_requests_per_connection=(1, 5),
    )
    yield from _keys(
        "consumer",
        fetch_max_bytes=(1, 52_428_800),
        fetch_max_wait_ms=(0, 500),
        fetch_min_bytes=(1, 100_000),
        max_partition_fetch_bytes=(1, 1 << 20),
        max_poll_records=(1, 10_000),
    )
    yield from _keys("producer", delivery_timeout_ms=(3300, 8000))  # no less than linger and request timeout


KNOBS = {knob.name: knob for knob in _table()}
Drawn = tuple[str, ...]  # "name:value"; a name may have a colon of its own
# Without it nearly nobody waits behind another's question to the coordinator, and a wake-up that is missing there is not missed.
OFTEN = frozenset({"oncelog.broker.coordinators.transaction_gate.LANE_COUNT"})  # at their lowest in at least ...
OFTEN_SHARE = 0.5  # ... of the runs


def draw_knobs(rng: random.Random) -> Drawn:
    """What a run turns: most runs few knobs, some of them many; extremes as often as what is between."""
    share, drawn = rng.choice(SHARES), []
    for knob in KNOBS.values():
        if rng.random() < share:
            level = rng.choice((LOW, LOW, HIGH, BETWEEN))
            value = knob.low if level == LOW else knob.high if level == HIGH else knob.between(rng)
            drawn.append(f"{knob.name}:{value!r}")
    # With numbers of their own, so that what is drawn besides stays as it is.
    missing = OFTEN.difference(name for name, _, _ in (each.rpartition(":") for each in drawn))
    for name in sorted(missing):
        if random.Random(f"{name} {rng.getstate()}").random() < OFTEN_SHARE:
            drawn.append(f"{name}:{KNOBS[name].low!r}")
    return tuple(drawn)


def value_of(drawn: str) -> tuple[Knob, float]:
    """A knob and its value. Raises ValueError."""
    name, _, text = drawn.rpartition(":")
    if name not in KNOBS:
        raise ValueError(f"{name!r} is no knob")
    return KNOBS[name], KNOBS[name].read(text)


def options_of(drawn: Drawn, *kinds: str) -> dict[str, Any]:
    """The drawn keys of the broker ("broker", as fields of its configuration) or options of clients."""
    found: dict[str, Any] = {}
    for knob, value in map(value_of, drawn):
        kind, key = knob.place
        if kind in kinds:
            found[key.replace(".", "_")] = value
    return found


@contextmanager
def turned(drawn: Drawn) -> Iterator[None]:
    """While this lasts the drawn constants have their values, in every module that has imported them by name."""
    before: list[tuple[str, str, Any]] = []
    segment_bytes = TOPIC_CONFIGS["segment.bytes"]
    TOPIC_CONFIGS["segment.bytes"] = replace(segment_bytes, least=1)  # smaller ones than anybody should want
    try:
        for knob, value in map(value_of, drawn):
            if knob.is_constant:
                module, attribute = knob.place
                before.append((module, attribute, getattr(import_module(module), attribute)))
                _set(module, attribute, value)
        yield
    finally:
        TOPIC_CONFIGS["segment.bytes"] = segment_bytes
        for module, attribute, value in reversed(before):
            _set(module, attribute, value)  # and where it was imported meanwhile


def _set(module: str, attribute: str, value: Any) -> None:
    for holder in holders(module, attribute):
        setattr(holder, attribute, value)


def holders(module: str, attribute: str) -> list[ModuleType]:
    """The loaded modules that have the constant: its own, and those that imported it."""
    found = [sys.modules[module]]
    for name, each in list(sys.modules.items()):
        if name.startswith(f"{PACKAGE}.") and name != module and attribute in vars(each):
            source = getattr(each, "__file__", None)
            if source is not None and (module, attribute) in imported_names(source):
                found.append(each)
    return found


@cache
def imported_names(source: str) -> frozenset[tuple[str, str]]:
    """(module, name) of what a file imports by name."""
    path = Path(source)
    if path.suffix != ".py":
        return frozenset()
    tree = ast.parse(path.read_text())
    return frozenset(
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    )
