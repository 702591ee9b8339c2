"""In which order a broker starts and stops: the table `STEPS`, and what each step does to the data directory.

Nothing is served before everything is recovered and loaded. Markers of decided transactions are sent again only when the
metadata is wholly known: a partition that is merely unknown yet must not be taken for a deleted one (observed R4).
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from oncelog.broker.config.addresses import address_from
from oncelog.broker.config.config import ConfigInvalid, properties_from
from oncelog.broker.gauges import watch_event_loop
from oncelog.core.metadata.features import INITIAL
from oncelog.errors import CorruptBatch, DamagedLog, MalformedMessage, StorageError
from oncelog.host.randomness import random_uuid
from oncelog.log.checkpoint_files import take_clean_shutdown, write_clean_shutdown
from oncelog.log.files import Files
from oncelog.wire.log_records.cluster_metadata import FeatureLevelRecord

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

_log = logging.getLogger("oncelog.startup")

META_PROPERTIES = "meta.properties"


async def assemble(broker: Broker) -> None:
    """Make the parts."""
    broker.assemble()


async def take_lock(broker: Broker) -> None:
    """One server per data directory."""
    make_durable_directory(broker.host.files, broker.data_directory)
    broker.lock = broker.host.files.lock(f"{broker.data_directory}/.lock")


def make_durable_directory(files: Files, path: str) -> None:
    """Make a directory and its missing parents, and sync their names: a power cut must not take the whole of it."""
    missing: list[str] = []
    while path and not files.exists(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    for each in reversed(missing):
        files.make_directory(each)
        parent, slash, _ = each.rpartition("/")
        files.sync_directory(parent or slash)


async def read_meta_properties(broker: Broker) -> None:
    """Who this directory belongs to; a new one is given a cluster id."""
    path = f"{broker.data_directory}/{META_PROPERTIES}"
    files = broker.host.files
    if files.exists(path):
        values = properties_from(files.read_whole(path).decode("utf-8", "replace"))
        broker.cluster_id = values.get("cluster.id", "")
        if values.get("node.id") != str(broker.node_id) or not broker.cluster_id:
            raise ConfigInvalid(f"{path}: written by node {values.get('node.id')}, and this is node {broker.node_id}")
        return
    broker.cluster_id = urlsafe_b64encode(random_uuid(broker.host.random)).decode("ascii").rstrip("=")
    text = f"version=1\ncluster.id={broker.cluster_id}\nnode.id={broker.node_id}\n"
    files.replace_whole(path, text.encode("ascii"))


async def load_cluster_metadata(broker: Broker) -> None:
    """Topics, configs, features; a new directory gets the features' initial levels."""
    broker.is_clean_start = take_clean_shutdown(broker.host.files, broker.data_directory)
    try:
        broker.store.open(is_clean=broker.is_clean_start)
    except (MalformedMessage, CorruptBatch) as error:
        raise DamagedLog(f"cluster metadata: {error}") from error
    async with broker.store.changing() as metadata:
        missing = {name: level for name, level in INITIAL.items() if name not in metadata.features}
        if missing:
            feature_epoch = metadata.features_epoch + 1
            await broker.store.append(
                [
                    FeatureLevelRecord(name=name, level=level, features_epoch=feature_epoch)
                    for name, level in missing.items()
                ]
            )
    broker.configs_changed()


async def recover_partitions(broker: Broker) -> None:
    """Open every partition that has data."""
    await broker.partitions.open_all(is_clean=broker.is_clean_start)


async def load_coordinators(broker: Broker) -> None:
    """Transactions and groups, through the `apply` that runs live."""
    broker.transactions.load_all()
    broker.groups.load_all()


async def start_flusher(broker: Broker) -> None:
    """From here on appends can be committed."""
    broker.tasks.start(broker.flusher.run(), name="flusher")
    broker.tasks.start(broker.flusher.run_leftovers(), name="flusher-leftovers")


async def listen(broker: Broker) -> None:
    """Accept connections."""
    for address in broker.wanted_addresses():
        await broker.server.listen(*address)
    broker.connect_to_itself()


async def resume_transactions(broker: Broker) -> None:
    """Send the markers that a crash may have kept from their partitions."""
    broker.tasks.start(broker.gate.run(), name="gate")
    broker.tasks.start(broker.marker_sender.run(), name="markers")
    broker.transactions.resume()


async def start_timers(broker: Broker) -> None:
    """What happens from time to time."""
    config, clock = broker.config, broker.host.clock
    timers: tuple[tuple[int, Callable[[], object]], ...] = (
        (config.transaction_abort_timed_out_transaction_cleanup_interval_ms, broker.transactions.abort_timed_out),
        (config.transaction_remove_expired_transaction_cleanup_interval_ms, broker.transactions.remove_expired),
        (config.producer_id_expiration_check_interval_ms, lambda: broker.partitions.expire_producers(clock.now_ms())),
        (config.log_retention_check_interval_ms, lambda: apply_retention(broker)),
        (config.log_flush_offset_checkpoint_interval_ms, broker.partitions.checkpoint_aside),
    )
    for interval_ms, act in timers:
        broker.tasks.start(_every(interval_ms, act))
    broker.tasks.start(broker.partitions.deleted.run(), name="deleted-files")
    broker.tasks.start(broker.log_cleaner.run(), name="log-cleaner")
    broker.tasks.start(broker.server.sweep(), name="sweep")
    if config.metrics_listen:
        broker.tasks.start(watch_event_loop(broker.metrics), name="event-loop-lag")


async def apply_retention(broker: Broker) -> None:
    """Give up what retention no longer asks for."""
    count = await broker.partitions.apply_retention(broker.host.clock.now_ms())
    broker.metrics.add("log_segments_given_up", count)


async def listen_for_metrics(broker: Broker) -> None:
    """Prometheus and health checks, where `metrics.listen` asks for them."""
    if broker.config.metrics_listen:
        from oncelog.broker.metrics.metrics_endpoint import MetricsEndpoint

        address = address_from(broker.config.metrics_listen)
        endpoint = MetricsEndpoint(broker.metrics, lambda: broker.is_ready)
        listener = await broker.host.network.listen(*address, endpoint)
        broker.metrics_listener = listener


async def _every(interval_ms: int, act: Callable[[], object]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            done = act()
            if isinstance(done, Awaitable):
                await done
        except StorageError as error:
            _log.error("housekeeping failed: %s", error)


STEPS: tuple[tuple[str, Callable[[Broker], Awaitable[None]]], ...] = (
    ("assemble the parts", assemble),
    ("lock the data directory", take_lock),
    ("meta.properties", read_meta_properties),
    ("cluster metadata", load_cluster_metadata),
    ("recover partitions", recover_partitions),
    ("load coordinators", load_coordinators),
    ("start the flusher", start_flusher),
    ("listen", listen),
    ("resume transactions", resume_transactions),
    ("start timers", start_timers),
    ("listen for metrics", listen_for_metrics),
)


async def close_directory(broker: Broker) -> None:
    """After everything was synced: close the logs with snapshots, and say so. Raises StorageError."""
    is_clean = await broker.partitions.close()
    if broker.store.close() and is_clean:
        write_clean_shutdown(broker.host.files, broker.data_directory)
