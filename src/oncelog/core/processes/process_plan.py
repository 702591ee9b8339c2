"""What each process of `oncelog serve --processes N` is started with, and when one that ended is started again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise

from oncelog.core.access.listeners import ListenerInvalid, NamedAddress, named_address
from oncelog.lazy_dataclass import dataclass

PROCESS_COUNT_MAX = 64
PORT_MAX = 65_535
RESTART_PAUSE_S = 0.1
RESTART_PAUSE_S_MAX = 10.0
STEADY_S = 30.0  # who lived that long is started again at once
FOLLOWERS_FOLDER = "processes"  # in the data directory; the first process has the directory itself
SHIFTED_KEYS = ("listeners", "advertised.listeners")


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One process: its number from 0 on, its node id, where its data is, where it listens, which keys are otherwise."""

    index: int
    node_id: int
    data_directory: str
    listen: tuple[str, ...]
    values: Mapping[str, str] = field(default_factory=dict)


def directory_of(data_directory: str, index: int) -> str:
    """Where a process keeps its data."""
    return data_directory if index == 0 else f"{data_directory}/{FOLLOWERS_FOLDER}/{index}"


def begun_mark(data_directory: str, index: int) -> str:
    """The file that says that a process other than the first has data: where its directory is gone, that is no first start. It
    lies outside that directory, and begins with the cluster's id."""
    return f"{data_directory}/.oncelog_process_{index}"


def metrics_socket(sockets: str, node_id: int) -> str:
    """Where a process answers /metrics and /readyz to the first one; none of the sockets has a longer path."""
    return f"{sockets}/metrics-{node_id}"


def move_under_way(data_directory: str) -> str:
    """The file that says that partitions are on their way to another number of processes: from how many to how many."""
    return f"{data_directory}/{FOLLOWERS_FOLDER}/sharing-out"


def process_plans(
    count: int, data_directory: str, listen: Sequence[str], values: Mapping[str, str]
) -> list[ProcessPlan]:
    """Every process's plan: each listens one port further than the one before it. Raises ListenerInvalid."""
    given = values.get("node.id") or values.get("broker.id") or "1"
    if not given.strip().isdecimal():
        raise ListenerInvalid(f"node.id={given}: the processes have ids in a row, name the first")
    node_id = int(given)
    shifted = {key: values[key] for key in SHIFTED_KEYS if values.get(key)}
    for own in (listen, *(text.split(",") for text in shifted.values())):
        _check_apart(own, count)
    return [
        ProcessPlan(
            index,
            node_id + index,
            directory_of(data_directory, index),
            tuple(_further(each, index) for each in listen),
            {key: ",".join(_further(each, index) for each in text.split(",")) for key, text in shifted.items()}
            | {key: str(node_id + index) for key in ("node.id", "broker.id") if key == "node.id" or key in values}
            | {"metrics.listen": ""},
        )
        for index in range(count)
    ]


def _check_apart(listeners: Sequence[str], count: int) -> None:
    """Listeners that are too near to one another would have ports of one another's processes."""
    found = sorted((named_address(text) for text in listeners if text.strip()), key=lambda each: each.port)
    for one, other in pairwise(found):
        if one.port and other.port - one.port < count and one.host == other.host:
            raise ListenerInvalid(
                f"{text_of(one)} and {text_of(other)}: from each of them {count} processes listen on ports in a row, so they "
                f"must be at least {count} apart"
            )


def _further(text: str, index: int) -> str:
    found = named_address(text.strip())
    if not found.port:
        raise ListenerInvalid(f"{text}: the processes listen on ports in a row, name the first")
    if found.port + index > PORT_MAX:
        raise ListenerInvalid(f"{text}: the processes listen on ports in a row, and there is none after {PORT_MAX}")
    return text_of(replace(found, port=found.port + index))


def text_of(address: NamedAddress) -> str:
    """As `listeners` has it."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{address.name}://{host}:{address.port}"


class Restarts:
    """When a process that ended is started again: at once, but slower and slower where it does not live long."""

    def __init__(self) -> None:
        self._pause_s = 0.0

    def pause_s(self, lived_s: float) -> float:
        """How long to wait now, of a process that lived so long."""
        if lived_s >= STEADY_S:
            self._pause_s = 0.0
        pause_s = self._pause_s
        self._pause_s = min(max(2 * pause_s, RESTART_PAUSE_S), RESTART_PAUSE_S_MAX)
        return pause_s
