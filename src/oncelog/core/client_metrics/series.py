"""The numbers that clients have pushed, as they are shown: so many at most, each client's gone with it.

A push replaces what its client had pushed before: a gauge or a sum that is not in it any more is not shown any more. What
comes as deltas is added up, and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from oncelog.core.client_metrics.subscriptions import ClientInstance
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.metrics_data import Attributes, DataPoint, MetricKind, Pace, no_pace

TEXT_LENGTH_MAX = 1_000  # of one number's name and attributes


class _Key(NamedTuple):
    name: str
    attributes: str
    is_counter: bool


@dataclass(slots=True)
class _Number:
    value: float
    is_delta: bool

    def after(self, known: _Number | None) -> _Number:
        """This number, where `known` is what was told before: deltas are added to it."""
        return self if known is None or not self.is_delta else _Number(self.value + known.value, self.is_delta)


@dataclass(frozen=True, slots=True)
class Push:
    """The numbers of one push; those whose text is too long are left out."""

    numbers: dict[_Key, _Number]
    left_out_count: int


@dataclass(frozen=True, slots=True)
class Series:
    """One number of one client. `attributes` as `name=value,...`."""

    metric: str
    client_id: str
    instance_name: str
    attributes: str
    is_counter: bool
    value: float


class SeriesTable:
    """All of them, `count_max()` at most."""

    def __init__(self, count_max: Callable[[], int]) -> None:
        self._count_max = count_max
        self._clients: dict[bytes, tuple[ClientInstance, dict[_Key, _Number]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def now(self) -> Iterator[Series]:
        """All of them as they are now, also where they are read later: what is taken replaces what was there."""
        return _series(tuple(self._clients.values()))

    def take(self, client: ClientInstance, push: Push) -> int:
        """Take over a push; says how many numbers were left out because there were too many, or their text is too long."""
        _, before = self._clients.get(client.instance_id, (client, {}))
        numbers = {key: number for key, number in before.items() if number.is_delta}
        room = self._count_max() - (self._count - len(before))
        left_out_count = push.left_out_count
        if not numbers and len(push.numbers) <= room:
            numbers = push.numbers
        else:
            for key, number in push.numbers.items():
                if key not in numbers and len(numbers) >= room:
                    left_out_count += 1
                else:
                    numbers[key] = number.after(numbers.get(key))
        self._count += len(numbers) - len(before)
        self._clients[client.instance_id] = client, numbers
        return left_out_count

    def forget(self, instance_id: bytes) -> None:
        """A client is no more."""
        _, numbers = self._clients.pop(instance_id, (None, {}))
        self._count -= len(numbers)


def _series(clients: Iterable[tuple[ClientInstance, dict[_Key, _Number]]]) -> Iterator[Series]:
    for client, numbers in clients:
        name = client.instance_name
        for key, number in numbers.items():
            yield Series(key.name, client.client_id, name, key.attributes, key.is_counter, number.value)


def push_of(points: Iterable[DataPoint], pace: Pace = no_pace) -> Push:
    """What a push says. `pace` is called after each of the points."""
    numbers: dict[_Key, _Number] = {}
    left_out_count = 0
    for point in points:
        key = _key_of(point)
        if key is None:
            left_out_count += 1
        else:
            numbers[key] = _Number(point.value, point.kind is MetricKind.DELTA).after(numbers.get(key))
        pace(0)
    return Push(numbers, left_out_count)


def _key_of(point: DataPoint) -> _Key | None:
    """What tells a number from others; None where its text is too long to be shown."""
    length = len(point.name) + sum(len(name) + len(text) + 2 for name, text in point.attributes)
    if length > TEXT_LENGTH_MAX or not point.name:
        return None
    return _Key(point.name, text_of(point.attributes), point.kind is not MetricKind.GAUGE)


def text_of(attributes: Attributes) -> str:
    """Attributes in one text, in one order."""
    return ",".join(f"{name}={text}" for name, text in sorted(attributes))
