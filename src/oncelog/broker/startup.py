"""In which order a broker starts and stops: the table `STEPS`, and what each step does to the data directory.

Nothing is served before everything is recovered and loaded. Markers of decided transactions are sent again only when the
metadata is wholly known: a partition that is merely unknown yet must not be taken for a deleted one
(docs/kafka-notes.md R4).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from oncelog.broker.assembly import Assembly
from oncelog.broker.config.addresses import address_from, listen_addresses
from oncelog.broker.config.config import ConfigInvalid, properties_from
from oncelog.broker.gauges import watch_event_loop
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.broker.partitions.partition_directories import owners
from oncelog.core.metadata.delegation_tokens import expired_tokens
from oncelog.core.metadata.features import SHARE_VERSION, levels_at_start
from oncelog.core.processes.process_plan import FOLLOWERS_FOLDER, begun_mark, directory_of, move_under_way
from oncelog.errors import CorruptBatch, DamagedLog, MalformedMessage, StorageError
from oncelog.host.randomness import random_uuid
from oncelog.log.checkpoint_files import CLEAN_SHUTDOWN, RECOVERY_POINTS, take_clean_shutdown, write_clean_shutdown
from oncelog.log.files import Files
from oncelog.log.journal import has_journal, remove_journal
from oncelog.log.journal_entries import UNKNOWN_BOOT, sixteen_bytes_of
from oncelog.log.journal_reading import DamagedJournal, JournalFound, MissingJournal, read_journal
from oncelog.wire.log_records.cluster_metadata import FeatureLevelRecord
from oncelog.wire.uuids import uuid_text

_log = logging.getLogger("oncelog.startup")

META_PROPERTIES = "meta.properties"
BEGUN_BY = (META_PROPERTIES, RECOVERY_POINTS)  # what a process's directory has as soon as it may have data
PROCESSES = "oncelog.processes"  # there, where they are several
ORPHAN_LOOKS = 150
ORPHAN_LOOK_S = 0.1
OFFLINE_TOLD_EVERY_MS = 1_000
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
META_VERSIONS = ("", "0", "1")
RAN_ON = (
    "The system has run on since it was begun, so the logs have what it had, unless the disk failed: move the files"
    " oncelog.journal.* out of the directory to start with the logs"
)
MEND_AND_START = (
    "put right what this names (room on the disk, rights, a file from a copy), and start again (docs/runbook.md)"
)
START_AGAIN = f"what the journal has of it is kept for the next start: {MEND_AND_START}"
THREE_LINES = (
    "three lines: version=1, cluster.id=, node.id= (both ids are in the line `ready` of each start before), and of several"
    f" processes {PROCESSES}="
)
KAFKAS = (
    "if Apache Kafka wrote this directory: oncelog reads its partitions' files, not its metadata;"
    " `oncelog migrate` copies its topics"
)


async def read_addresses(parts: Assembly) -> None:
    """A mistake in them is told before anything is made or recovered. Raises ConfigInvalid."""
    listen_addresses(parts.node.config, parts.listen)
    if told := parts.node.config.metrics_listen:
        address_from(told, "metrics.listen")


async def take_lock(parts: Assembly) -> None:
    """One server per data directory. Of several processes one may outlive a starter that was killed, until its last request is
    answered: the next start waits for it."""
    if (root := root_of_process(parts)) is not None:
        refuse_lost_process(parts.host.files, root, parts.peers.processes.index)
    make_durable_directory(parts.host.files, parts.node.data_directory)
    path, looks = f"{parts.node.data_directory}/.lock", ORPHAN_LOOKS if parts.peers.processes.count > 1 else 1
    for look in range(1, looks + 1):
        try:
            parts.lock = parts.host.files.lock(path)
            return
        except StorageError as error:
            if look == looks:
                raise
            if look == 1:
                _log.warning(
                    "%s; if it is a process of the broker before, it ends within seconds: waiting for it", error
                )
        await asyncio.sleep(ORPHAN_LOOK_S)


def root_of_process(parts: Assembly) -> str | None:
    """The first process's data directory; None where this is the first, or it keeps its data in another place."""
    path, index = parts.node.data_directory, parts.peers.processes.index
    end = f"/{FOLLOWERS_FOLDER}/{index}"
    return path.removesuffix(end) if index and path.endswith(end) else None


def has_begun(files: Files, path: str) -> bool:
    """Whether a process's directory may have data."""
    return any(files.exists(f"{path}/{each}") for each in BEGUN_BY)


def refuse_lost_process(files: Files, root: str, index: int) -> None:
    """A process that had data, and whose directory is gone, must not begin anew in silence. Raises ConfigInvalid."""
    path, mark, own = directory_of(root, index), begun_mark(root, index), f"{root}/{META_PROPERTIES}"
    if has_begun(files, path) or not files.exists(mark):
        return
    cluster_id = meta_properties(files, own).get("cluster.id", "") if files.exists(own) else ""
    if files.read_whole(mark).decode("utf-8", "replace").strip() == cluster_id:
        raise ConfigInvalid(
            f"{path} is gone, with the partitions that process {index} leads: put it back; if it is lost, remove {mark},"
            " and they begin anew, empty (docs/processes.md)"
        )


def note_process(files: Files, root: str, index: int, cluster_id: str) -> None:
    """From now on the process has a directory that may be missed. Raises StorageError."""
    mark, content = begun_mark(root, index), f"{cluster_id}\n".encode()
    if not files.exists(mark) or files.read_whole(mark) != content:
        files.replace_whole(mark, content)


def make_durable_directory(files: Files, path: str) -> None:
    """Make a directory and its missing parents, and sync their names: a power cut must not take the whole of it."""
    missing: list[str] = []
    while path and not files.exists(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    for each in reversed(missing):
        files.make_directory(each)
        parent, slash, _ = each.rpartition("/")
        try:
            files.sync_directory(parent or slash)
        except StorageError:  # the next start must not find it, and take its name for durable
            with contextlib.suppress(StorageError):
                files.remove_directory(each)
            raise


async def recovered_by(step: Callable[[Assembly], Awaitable[None]], parts: Assembly) -> None:
    """Take one step; where the disk refuses a file, with what can be done. Raises StorageError."""
    try:
        await step(parts)
    except StorageError as error:
        # As it comes from the door: nobody has said it yet. Of a full disk `oncelog serve` says more.
        cause = error.__cause__
        if step is not take_lock and isinstance(cause, OSError) and cause.errno not in DISK_IS_FULL:
            raise StorageError(f"{error}; {MEND_AND_START}") from error
        raise


async def read_meta_properties(parts: Assembly) -> None:
    """Who this directory belongs to; a new one is given a cluster id."""
    await _read_meta_properties(parts)
    if (root := root_of_process(parts)) is not None:
        note_process(parts.host.files, root, parts.peers.processes.index, parts.node.cluster_id)


async def _read_meta_properties(parts: Assembly) -> None:
    path = f"{parts.node.data_directory}/{META_PROPERTIES}"
    files, store, count = parts.host.files, parts.node.store, parts.peers.processes.count
    followed_id = ""
    if not isinstance(store, MetadataStore):
        await store.open()
        followed_id = store.cluster_id
    if files.exists(path):
        values = meta_properties(files, path)
        if (version := values.get("version", "")) not in META_VERSIONS:
            raise ConfigInvalid(f"{path}: version {version} is not known to this oncelog: restore it, {THREE_LINES}")
        if lacking := [each for each in ("cluster.id", "node.id") if not values.get(each)]:
            raise ConfigInvalid(f"{path} is damaged: it says no {' and no '.join(lacking)}: restore it, {THREE_LINES}")
        parts.node.cluster_id = values["cluster.id"]
        if values["node.id"] != str(parts.node.node_id):
            raise ConfigInvalid(
                f"{path}: written by node {values['node.id']}, and this is node {parts.node.node_id}: set node.id"
            )
        if followed_id not in ("", parts.node.cluster_id):
            raise ConfigInvalid(f"{path}: of cluster {parts.node.cluster_id}, and the others are of {followed_id}")
        before = values.get(PROCESSES, "1")
        if before != str(count) or files.exists(move_under_way(parts.node.data_directory)):
            raise ConfigInvalid(
                f"{path}: its partitions are shared out to {before} processes, and this is one of {count}: "
                f"start it with oncelog serve --processes {before}, or --processes {count} to share them out anew"
            )
        if not files.exists(f"{parts.node.data_directory}/{CLEAN_SHUTDOWN}"):
            # The sync of its name may have failed in the start that wrote it: without it, the data would be nobody's.
            files.replace_whole(path, files.read_whole(path))
        return
    has_partitions = files.exists(f"{parts.node.data_directory}/{RECOVERY_POINTS}")
    if has_partitions and not followed_id and has_journal(files, parts.node.data_directory):
        raise ConfigInvalid(
            f"{path} is missing, and the journal beside it is of the cluster that it named: restore it, {THREE_LINES}"
        )
    parts.node.cluster_id = followed_id or uuid_text(random_uuid(parts.host.random))
    if has_partitions:
        _log.warning(
            "%s is missing beside partitions: this is cluster %s now; stop the broker and restore it, if there is a copy",
            path,
            parts.node.cluster_id,
        )
    text = f"version=1\ncluster.id={parts.node.cluster_id}\nnode.id={parts.node.node_id}\n"
    if count > 1:
        text += f"{PROCESSES}={count}\n"
    files.replace_whole(path, text.encode("ascii"))


def meta_properties(files: Files, path: str) -> dict[str, str]:
    """What the file says. Raises ConfigInvalid, naming it, and StorageError."""
    try:
        return properties_from(files.read_whole(path).decode("utf-8", "replace"))
    except StorageError as error:
        raise StorageError(f"{error}: restore it, {THREE_LINES}") from error
    except ConfigInvalid as error:
        where = str(error).partition(":")[0]
        raise ConfigInvalid(f"{path} is damaged ({where} is no key=value): restore it, {THREE_LINES}") from error


def process_count_of(values: Mapping[str, str], path: str) -> int:
    """To how many processes the directory is shared out. Raises ConfigInvalid."""
    told = values.get(PROCESSES, "1")
    if not (told.isascii() and told.isdigit()):
        raise ConfigInvalid(f"{path} is damaged: {PROCESSES} is no number: restore it")
    return int(told)


async def load_cluster_metadata(parts: Assembly) -> None:
    """Topics, configs, features; a new directory gets the features' initial levels.

    What refuses the start because it cannot be read does so before the mark of a clean stop is taken: the next start of a
    directory in which nothing was changed must not treat it as after a crash.
    """
    files, directory, store = parts.host.files, parts.node.data_directory, parts.node.store
    partitions = parts.node.partitions
    noted_end_offset = partitions.read_checkpoints()
    if isinstance(store, MetadataStore):
        try:
            is_clean = files.exists(f"{directory}/{CLEAN_SHUTDOWN}")
            of_directories = partial(owners, files, directory)
            store.open(is_clean=is_clean, owners=of_directories, noted_end_offset=noted_end_offset)
        except (MalformedMessage, CorruptBatch) as error:
            raise DamagedLog(f"cluster metadata: {error}; {KAFKAS}") from error
        partitions.metadata_synced_end = lambda: store.applied_offset
    parts.is_clean_start = take_clean_shutdown(files, directory)
    if not isinstance(store, MetadataStore):  # it is followed already, for the cluster's id
        parts.node.configs_changed()
        return
    async with store.changing() as metadata:
        missing = levels_at_start(metadata.features)
        if parts.metadata_leader is not None and metadata.features.get(SHARE_VERSION, 1):
            missing[SHARE_VERSION] = 0  # a share partition and its coordinator would have to be one process's
        if missing:
            feature_epoch = metadata.features_epoch + 1
            await store.append(
                [
                    FeatureLevelRecord(name=name, level=level, features_epoch=feature_epoch)
                    for name, level in missing.items()
                ]
            )
    parts.node.configs_changed()
    if parts.metadata_leader is not None:
        await parts.metadata_leader.listen(
            parts.host.network, parts.peers.processes.metadata_host, parts.node.cluster_id
        )


async def recover_partitions(parts: Assembly) -> None:
    """Open every partition that has data; what the journal of an unclean end holds is put back before. A file that the disk
    refuses ends the start, whoever's it is: the journal, which goes when all is recovered, may be all that has its records."""
    found = None if parts.is_clean_start else _found_journal(parts)
    is_cut = found is not None and not _is_of_this_boot(parts, found.boot)
    if found is not None:
        if found.torn:
            _log.warning("%s", found.torn)
        entries = f"entries {found.needed_from} to {found.last_sequence} are put back"
        _log.warning(
            "the journal's %s%s",
            entries if found.last_sequence >= found.needed_from else "entries are all in the logs",
            "; the power went, every log is cut where they end" if is_cut else "",
        )
    try:
        await parts.node.partitions.open_all(is_clean=parts.is_clean_start, journal=found, is_cut=is_cut)
    except StorageError as error:
        if found is None:
            raise
        raise StorageError(f"{error}; {START_AGAIN}") from error


def _found_journal(parts: Assembly) -> JournalFound | None:
    try:
        return read_journal(parts.host.files, parts.node.data_directory, _directory_id(parts))
    except MissingJournal as error:
        if not _is_of_this_boot(parts, error.boot):
            raise
        # What was appended is in the page cache at least: recovery writes and syncs it, as without a journal.
        _log.warning(
            "the journal of %s is missing%s: the system ran on since it was begun, so the logs have what it had, unless the disk"
            " failed",
            parts.node.data_directory,
            error.instead,
        )
        return None
    except DamagedJournal as error:
        if not _is_of_this_boot(parts, error.boot):
            raise
        raise DamagedJournal(f"{error}. {RAN_ON}", error.boot) from error


def _is_of_this_boot(parts: Assembly, boot: bytes) -> bool:
    return boot != UNKNOWN_BOOT and boot == sixteen_bytes_of(parts.host.boot_id())


async def begin_journal(parts: Assembly) -> None:
    """Everything is in the logs, and synced: the old journal goes, and a new one begins where `journal` asks for it."""
    remove_journal(parts.host.files, parts.node.data_directory)
    journal = parts.flusher.journal
    if journal is not None:
        boot = sixteen_bytes_of(parts.host.boot_id())
        journal.begin(_directory_id(parts), boot, int.from_bytes(parts.host.random.token_bytes(8), "big"))


def _directory_id(parts: Assembly) -> bytes:
    return sixteen_bytes_of(parts.node.cluster_id)


async def load_coordinators(parts: Assembly) -> None:
    """Transactions, groups and share partitions, through the `apply` that runs live."""
    parts.node.transactions.load_all()
    parts.node.groups.load_all()
    parts.node.share_groups.load_all()


async def pass_over_known_producer_ids(parts: Assembly) -> None:
    """Before one is handed out: the metadata may be older than the logs. (After a clean stop most are opened later: only where it
    says itself that it is older are they all opened before.)"""
    if isinstance(parts.node.store, MetadataStore) and parts.node.store.is_older:
        await parts.node.partitions.open_rest()
    known = max((each.rules.highest_producer_id for each in parts.node.partitions), default=-1)
    parts.node.producer_id_blocks.pass_over(max(known, parts.node.transactions.highest_producer_id))


async def start_flusher(parts: Assembly) -> None:
    """From here on appends can be committed."""
    parts.tasks.start(parts.flusher.run(), name="flusher")
    parts.tasks.start(parts.flusher.run_leftovers(), name="flusher-leftovers")


async def forget_orphans(parts: Assembly) -> None:
    """What no share group knows. Before anybody is heard: a group that begins stores its partitions' states first, and is known
    afterwards; to look in between took its states for orphans, and it never got them again (simulator, shares, seed 1643)."""
    parts.tasks.start(parts.node.share_groups.forget_orphans(parts.node.groups.may_have_begun), name="share-orphans")
    await asyncio.sleep(0)  # its first step does it; the rest waits for the sync


async def listen(parts: Assembly) -> None:
    """Accept connections: first those of the other processes, whose markers clients may be waiting for."""
    if parts.peers.processes.count > 1:
        tell_offline(parts)
        await parts.server.listen_to_peers(parts.peers.processes.requests_host(parts.node.node_id))
    for listener in parts.wanted_listeners():
        await parts.server.listen(listener)


async def resume_transactions(parts: Assembly) -> None:
    """Send the markers that a crash may have kept from their partitions."""
    parts.tasks.start(parts.node.gate.run(), name="gate")
    parts.tasks.start(parts.marker_sender.run(), name="markers")
    parts.node.transactions.resume()
    parts.tasks.start(parts.audit_topic.run(), name="audit-topic")


async def start_timers(parts: Assembly) -> None:
    """What happens from time to time."""
    config, clock = parts.node.config, parts.host.clock
    timers: tuple[tuple[int, Callable[[], object]], ...] = (
        (config.transaction_abort_timed_out_transaction_cleanup_interval_ms, parts.node.transactions.abort_timed_out),
        (config.transaction_remove_expired_transaction_cleanup_interval_ms, parts.node.transactions.remove_expired),
        (
            config.producer_id_expiration_check_interval_ms,
            lambda: parts.node.partitions.expire_producers(clock.now_ms()),
        ),
        (config.delegation_token_expiry_check_interval_ms, lambda: sweep_tokens(parts)),
        (config.log_retention_check_interval_ms, lambda: apply_retention(parts)),
        (config.share_coordinator_state_topic_prune_interval_ms, parts.node.share_groups.prune),
        (config.log_flush_offset_checkpoint_interval_ms, parts.node.partitions.checkpoint_aside),
    )
    if parts.peers.processes.count > 1:
        timers += ((OFFLINE_TOLD_EVERY_MS, lambda: tell_offline(parts)),)
    for interval_ms, act in timers:
        parts.tasks.start(_every(interval_ms, act))
    parts.tasks.start(parts.node.partitions.deleted.run(), name="deleted-files")
    parts.tasks.start(parts.node.partitions.open_rest(), name="open-partitions")
    parts.tasks.start(parts.log_cleaner.run(), name="log-cleaner")
    parts.tasks.start(parts.server.sweep(), name="sweep")
    if config.metrics_listen or parts.peers.processes.count > 1:
        parts.tasks.start(watch_event_loop(parts.node.metrics), name="event-loop-lag")


def tell_offline(parts: Assembly) -> None:
    """Which partitions cannot be served here: the other processes are asked for that, too."""
    node = parts.node
    if isinstance(node.store, MetadataStore):
        assert parts.metadata_leader is not None
        parts.metadata_leader.tell_offline(node.node_id, node.partitions.offline())
    else:
        node.store.tell_offline(node.partitions.offline())


async def sweep_tokens(parts: Assembly) -> None:
    """Forget delegation tokens that have expired, some at a time: others may change the metadata in between."""
    while True:
        async with parts.node.store.changing() as metadata:
            records = expired_tokens(metadata.delegation_tokens, parts.host.clock.now_ms())
            if not records:
                return
            await parts.node.store.append(records)
        parts.node.metrics.add("delegation_tokens_expired", len(records))


async def apply_retention(parts: Assembly) -> None:
    """Give up what retention no longer asks for."""
    partitions = parts.node.partitions
    count = await partitions.log_starts.apply_retention(partitions, parts.host.clock.now_ms())
    parts.node.metrics.add("log_segments_given_up", count)


async def listen_for_metrics(parts: Assembly) -> None:
    """Prometheus and health checks, where `metrics.listen` asks for them."""
    processes = parts.peers.processes
    if parts.node.config.metrics_listen or processes.count > 1:
        from oncelog.broker.metrics.metrics_endpoint import metrics_endpoint

        is_one_of_several = processes.count > 1  # whose numbers are shown together
        told = parts.node.config.metrics_listen
        address = (
            (processes.metrics_host(parts.node.node_id), 0)
            if is_one_of_several
            else address_from(told, "metrics.listen")
        )
        partitions = parts.node.partitions
        endpoint = metrics_endpoint(
            parts.node.metrics, parts.is_ready, lambda: partitions.offline_count, parts.host.worker
        )
        listener = await parts.host.network.listen(*address, endpoint)
        parts.metrics_listener = listener


async def _every(interval_ms: int, act: Callable[[], object]) -> None:
    told = ""  # a disk that stays full is one line, not one each time
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            done = act()
            if isinstance(done, Awaitable):
                await done
        except StorageError as error:
            if str(error) != told:
                _log.error("housekeeping failed, and is tried again every %d ms: %s", interval_ms, error)
            told = str(error)
        else:
            if told:
                _log.warning("housekeeping works again")
            told = ""


# Behind this step everything is recovered and loaded and can be synced: what refuses the start later ends it by an ordinary stop.
STOPPABLE_AFTER = "forget orphans of share groups"
Steps = tuple[tuple[str, Callable[[Assembly], Awaitable[None]]], ...]
RECOVERY_STEPS: Steps = (
    ("lock the data directory", take_lock),
    ("meta.properties", read_meta_properties),
    ("cluster metadata", load_cluster_metadata),
    ("recover partitions", recover_partitions),
)
STEPS: Steps = (
    ("read the addresses", read_addresses),
    *RECOVERY_STEPS,
    ("begin the journal", begin_journal),
    ("load coordinators", load_coordinators),
    ("start the flusher", start_flusher),
    ("producer ids", pass_over_known_producer_ids),
    (STOPPABLE_AFTER, forget_orphans),
    ("listen", listen),
    ("resume transactions", resume_transactions),
    ("start timers", start_timers),
    ("listen for metrics", listen_for_metrics),
)


async def close_directory(parts: Assembly) -> None:
    """After everything was synced: close the logs with snapshots, and say so. Raises StorageError."""
    is_clean = await parts.node.partitions.close()
    if parts.flusher.journal is not None:
        parts.flusher.journal.close()
    if parts.node.store.close() and is_clean:
        remove_journal(parts.host.files, parts.node.data_directory)
        write_clean_shutdown(parts.host.files, parts.node.data_directory)
