"""What may go wrong in one run: drawn from the seed, in swarm style (each kind of fault is there or not, and more or less).

The options say only probabilities and rates; `injector.py` makes them happen and `checkers/` knows nothing of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, fields

from evidence.simulator.knobs import Drawn, draw_knobs
from evidence.world.network import NetworkFaults

PROFILES = (
    "default",
    "network",
    "disk",
    "coordinator",
    "epochs",
    "old-clients",
    "two-phase",
    "compaction",
    "groups",
    "journal",
    "sessions",
    "shares",
)
STRANGER_KINDS = (
    "records",
    "reads",
    "transactions",
    "groups",
    "administration",
    "denied",
    "quota",
    "huge",
    "producers",
    "unloadable",
)
LAST_EPOCH = 32767
SEGMENT_SIZE = "oncelog.log.journal.SEGMENT_SIZE_BYTES"
DAY_MS = 86_400_000


@dataclass(frozen=True)
class GroupOptions:
    """A group of subscribing consumers. `mode`: "commit", "auto" or "copy" (`group_life.py`)."""

    protocol: str = "classic"
    strategy: str = "range,cooperative-sticky"
    mode: str = "commit"
    members: int = 2
    is_static: bool = False


@dataclass(frozen=True)
class ShareOptions:
    """A share group. `mode`: "implicit" or "explicit"; `slowness`: how much longer than others its members think."""

    mode: str = "implicit"
    members: int = 2
    slowness: float = 1.0


@dataclass
class FaultOptions:
    """Rates are mean seconds between two faults of a kind; 0 means never."""

    profile: str = "default"
    seconds: float = 12.0
    clients: int = 4
    operations: int = 16  # of each client
    think_mean: float = 0.3
    transaction_version: int = 3
    old_clients: int = 0
    two_phase_clients: int = 0
    first_epoch: int = -1
    same_transactional_id: float = 0.7  # a client that starts again keeps its transactional id
    transaction_timeout_ms: int = 4000
    request_timeout_ms: int = 3000
    sync_delay: float = 0.002
    log_roll_ms: int = -1
    network: NetworkFaults = field(default_factory=NetworkFaults)
    partition_every: float = 0.0
    partition_seconds: float = 2.0
    broker_kill_every: float = 0.0
    broker_pause_every: float = 0.0
    broker_restart_seconds: float = 0.5
    power_share: float = 0.0  # of the broker's ends: with a power cut (the rest keep the page cache)
    mid_operation_share: float = 0.0  # of the broker's ends: in the middle of a disk operation
    clean_share: float = 0.0  # of the broker's ends: an orderly stop
    client_kill_every: float = 0.0
    client_pause_every: float = 0.0
    clock_jump_every: float = 0.0
    clock_drift: float = 0.0  # of the broker's machine: the share by which it runs fast
    disk_fault_every: float = 0.0
    full_disk_every: float = 0.0
    slow_disk_every: float = 0.0
    read_fault_every: float = 0.0
    damage_every: float = 0.0  # a flipped bit or a misdirected sector, repaired after a while
    misdirected_share: float = 0.0  # of the unsynced writes that a power cut leaves
    groups: tuple[GroupOptions, ...] = ()
    sharers: tuple[ShareOptions, ...] = ()
    strangers: tuple[str, ...] = ()  # kinds of wrong requests (`strangers/crowd.py`)
    stranger_think_mean: float = 0.3
    knobs: Drawn = ()  # what is tuned otherwise than by default (`knobs.py`)
    skipped: tuple[str, ...] = ()  # single faults that do not happen (`shrink.py`)
    has_cleaner: bool = False
    has_compacted_topic: bool = False
    delete_retention_ms: int = DAY_MS
    has_journal: bool = False
    flush_policy: str = "fsync"
    session_ms: int = 0  # how long a login holds; 0: nobody has to say who it is
    revoke_every: float = 0.0  # the credentials of SCRAM are taken away for a while
    operator_every: float = 0.0  # somebody ends transactions that are open
    has_shortcut: bool = False  # the broker asks itself by plain calls, as it does outside of the simulator

    def describe(self) -> str:
        """One line: what differs from a calm run."""
        calm = FaultOptions()
        return ", ".join(
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)
            if getattr(self, each.name) != getattr(calm, each.name)
        )


def calm() -> FaultOptions:
    """No faults at all."""
    return FaultOptions()


def draw(seed: int, profile: str = "default") -> FaultOptions:
    """The faults of one seed."""
    assert profile in PROFILES, profile
    rng = random.Random(f"faults {profile} {seed}")
    options = FaultOptions(profile=profile)
    options.clients = rng.randint(2, 5)
    options.operations = rng.randint(10, 22)
    options.think_mean = rng.choice((0.02, 0.2, 0.5))
    options.transaction_version = rng.choice((2, 3, 3))
    options.same_transactional_id = rng.choice((0.0, 0.7, 1.0))
    options.sync_delay = rng.choice((0.0005, 0.002, 0.02))
    options.log_roll_ms = rng.choice((-1, -1, 700, 3000))
    options.two_phase_clients = rng.choice((0, 0, 1)) if options.transaction_version == 3 else 0
    _draw_network(options, rng, share=0.5)
    _draw_broker(options, rng, share=0.5)
    _draw_clients(options, rng, share=0.5)
    if rng.random() < 0.25:
        options.disk_fault_every = rng.uniform(3, 8)
    PROFILE_RULES[profile](options, rng)
    options.has_cleaner |= random.Random(f"cleaner {profile} {seed}").random() < 0.5
    # Of its own, so that the other draws of a seed stay what they were.
    options.has_shortcut = random.Random(f"shortcut {profile} {seed}").random() < 0.5
    _draw_strangers(options, random.Random(f"strangers {profile} {seed}"))
    _draw_disk(options, random.Random(f"disk {profile} {seed}"))
    options.knobs = draw_knobs(random.Random(f"knobs {profile} {seed}"))
    _draw_journal(options, random.Random(f"journal {profile} {seed}"))
    _draw_flush_policy(options, random.Random(f"flush policy {profile} {seed}"))
    _draw_operator(options, random.Random(f"operator {profile} {seed}"))
    return options


def _draw_operator(options: FaultOptions, rng: random.Random) -> None:
    """With the protocol in which an end names one transaction only (KIP-890), and where nobody has to log in."""
    if options.transaction_version >= 2 and not options.session_ms and rng.random() < 0.3:
        options.operator_every = rng.choice((0.05, 0.3, 1.5))


def _draw_flush_policy(options: FaultOptions, rng: random.Random) -> None:
    """Where the power stays, no commit need wait for the disk: what was acknowledged outlives its process all the same."""
    has_power = not options.power_share and not options.mid_operation_share and not options.disk_fault_every
    if has_power and rng.random() < 0.3:
        options.flush_policy, options.has_journal = rng.choice(("os", "os", "interval")), False


def _draw_journal(options: FaultOptions, rng: random.Random) -> None:
    """Half of the brokers have one; mostly of segments that are soon full, so that they are used again."""
    options.has_journal |= rng.random() < 0.5
    size_bytes = rng.choice((4096, 16384, 65536, 1 << 20))
    if options.has_journal and not any(SEGMENT_SIZE in each for each in options.knobs):
        options.knobs += (f"{SEGMENT_SIZE}:{size_bytes}",)


def _draw_disk(options: FaultOptions, rng: random.Random) -> None:
    """What disks and clocks do beside single failures. The profile of networks has a machine without faults."""
    if options.profile == "network":
        return
    share = 0.4 if options.profile in ("disk", "compaction") else 0.15
    if rng.random() < share:
        options.full_disk_every = rng.uniform(2, 8)
    if rng.random() < share:
        options.slow_disk_every = rng.uniform(2, 8)
    if rng.random() < share:
        options.read_fault_every = rng.uniform(2, 8)
    if rng.random() < share:
        options.damage_every = rng.uniform(1.5, 5)
    if rng.random() < share:
        options.misdirected_share = rng.choice((0.1, 0.5))
    if rng.random() < share:
        options.clock_drift = rng.choice((-0.5, -0.01, 0.01, 0.5))


def _draw_strangers(options: FaultOptions, rng: random.Random) -> None:
    share = rng.choice((0.0, 0.2, 0.5))
    options.strangers = tuple(kind for kind in STRANGER_KINDS if rng.random() < share)
    options.stranger_think_mean = rng.choice((0.1, 0.3, 0.8))
    if "unloadable" in options.strangers:
        options.has_shortcut = False  # the broker asks itself over the network


def _draw_network(options: FaultOptions, rng: random.Random, *, share: float) -> None:
    faults = NetworkFaults(delay_mean=rng.choice((0.0003, 0.001, 0.01)))
    if rng.random() < share:
        faults.cut = rng.choice((0.002, 0.01, 0.03))
    if rng.random() < share:
        faults.slow, faults.slow_delay = rng.choice((0.01, 0.05)), rng.choice((0.5, 2.0, 5.0))
    if rng.random() < share:
        faults.late, faults.late_delay = rng.choice((0.005, 0.02, 0.05)), rng.choice((0.5, 5.0))
    if rng.random() < share:
        faults.split = rng.choice((0.05, 0.5))
    options.network = faults
    if rng.random() < share / 2:
        options.partition_every, options.partition_seconds = rng.uniform(2, 6), rng.choice((0.5, 2.0, 5.0))


def _draw_broker(options: FaultOptions, rng: random.Random, *, share: float) -> None:
    if rng.random() < share:
        options.broker_kill_every = rng.uniform(1.5, 6)
        options.power_share = rng.choice((0.0, 0.5, 1.0))
        options.mid_operation_share = rng.choice((0.0, 0.5))
        options.clean_share = rng.choice((0.0, 0.2))
        options.broker_restart_seconds = rng.choice((0.05, 0.5, 3.0))
    if rng.random() < share / 2:
        options.broker_pause_every = rng.uniform(3, 8)


def _draw_clients(options: FaultOptions, rng: random.Random, *, share: float) -> None:
    if rng.random() < share:
        options.client_kill_every = rng.uniform(0.7, 4)
    if rng.random() < share / 2:
        options.client_pause_every = rng.uniform(1, 5)
    if rng.random() < share / 2:
        options.clock_jump_every = rng.uniform(2, 6)


def _network(options: FaultOptions, rng: random.Random) -> None:
    options.broker_kill_every = options.disk_fault_every = 0.0
    _draw_network(options, rng, share=0.8)


def _disk(options: FaultOptions, rng: random.Random) -> None:
    _draw_broker(options, rng, share=1.0)
    options.broker_kill_every = rng.uniform(1, 4)
    options.disk_fault_every = rng.choice((0.0, rng.uniform(1.5, 4)))


def _coordinator(options: FaultOptions, rng: random.Random) -> None:
    # Kills at every stage of an end: fast restarts, many short transactions, syncs that take long.
    options.broker_kill_every = rng.uniform(0.4, 2)
    options.mid_operation_share, options.power_share = rng.choice((0.3, 0.8)), rng.choice((0.0, 0.5, 1.0))
    options.broker_restart_seconds = 0.05
    options.think_mean, options.sync_delay = 0.02, rng.choice((0.002, 0.02))
    options.operations = 18


def _epochs(options: FaultOptions, rng: random.Random) -> None:
    options.first_epoch = LAST_EPOCH - rng.randint(1, 8)
    options.think_mean = 0.05


def _old_clients(options: FaultOptions, rng: random.Random) -> None:
    # The old protocol has a hole (KAFKA-17754): what arrives after its sender has given up can decide a later
    # transaction. That is `test_delayed_messages.py`; here nothing outlives the request that sent it.
    options.transaction_version = rng.choice((0, 1, 1))
    options.two_phase_clients = 0
    options.old_clients = rng.randint(1, 2)
    options.network.late = options.partition_every = options.broker_pause_every = 0.0
    options.network.slow_delay = min(options.network.slow_delay, 0.5)


def _two_phase(options: FaultOptions, rng: random.Random) -> None:
    options.transaction_version = 3
    options.two_phase_clients = rng.randint(1, 3)
    options.clients = rng.randint(1, 2)
    options.client_kill_every = rng.uniform(0.5, 3)


def _compaction(options: FaultOptions, rng: random.Random) -> None:
    options.has_cleaner = options.has_compacted_topic = True
    options.log_roll_ms = rng.choice((150, 500, 1500))
    options.delete_retention_ms = rng.choice((0, 500, 3000, DAY_MS))
    options.think_mean = rng.choice((0.1, 0.4, 0.8))
    options.transaction_timeout_ms = rng.choice((1000, 4000))  # an open transaction holds cleaning back
    if rng.random() < 0.5:
        options.broker_kill_every, options.mid_operation_share = rng.uniform(0.8, 3), rng.choice((0.3, 0.8))
        options.broker_restart_seconds = 0.05
    if rng.random() < 0.3:
        options.disk_fault_every = rng.uniform(1.5, 5)


def _groups(options: FaultOptions, rng: random.Random) -> None:
    options.clients = rng.randint(1, 3)
    options.two_phase_clients = 0
    options.think_mean = rng.choice((0.1, 0.3, 0.6))
    options.groups = tuple(
        GroupOptions(
            protocol=(protocol := rng.choice(("classic", "consumer"))),
            strategy=rng.choice(("range", "cooperative-sticky", "sticky", "range,cooperative-sticky")),
            mode=rng.choice(("commit", "auto", "copy", "copy")),
            members=rng.randint(1, 3),
            is_static=protocol == "classic" and rng.random() < 0.3,
        )
        for _ in range(rng.randint(1, 2))
    )


def _journal(options: FaultOptions, rng: random.Random) -> None:
    # Power cuts at every stage of an entry, a data sync and a recycled segment, with pages that the system wrote on its own.
    options.has_journal = True
    options.broker_kill_every = rng.uniform(0.4, 2.5)
    options.power_share = rng.choice((0.5, 0.8, 1.0))
    options.mid_operation_share, options.broker_restart_seconds = rng.choice((0.3, 0.8)), 0.05
    options.think_mean, options.sync_delay = rng.choice((0.02, 0.2)), rng.choice((0.0005, 0.002, 0.02))


def _sessions(options: FaultOptions, rng: random.Random) -> None:
    options.session_ms = rng.choice((300, 1000, 3000))
    options.revoke_every = rng.choice((0.0, 2.0, 5.0))
    if rng.random() < 0.5:
        options.broker_kill_every = rng.uniform(1, 4)


def _shares(options: FaultOptions, rng: random.Random) -> None:
    options.clients = rng.randint(1, 3)
    options.two_phase_clients = 0
    options.think_mean = rng.choice((0.1, 0.3, 0.6))
    options.sharers = tuple(
        ShareOptions(rng.choice(("implicit", "explicit")), rng.randint(1, 3), rng.choice((0.2, 1.0, 1.0, 3.0)))
        for _ in range(rng.randint(1, 2))
    )


def _default(options: FaultOptions, rng: random.Random) -> None:
    del options, rng


PROFILE_RULES = {
    "default": _default,
    "network": _network,
    "disk": _disk,
    "coordinator": _coordinator,
    "epochs": _epochs,
    "old-clients": _old_clients,
    "two-phase": _two_phase,
    "compaction": _compaction,
    "groups": _groups,
    "journal": _journal,
    "sessions": _sessions,
    "shares": _shares,
}
