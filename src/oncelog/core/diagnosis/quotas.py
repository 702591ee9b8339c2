"""Which quota holds for a member of whom only the client id is known: which user it is, only its broker knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.lazy_dataclass import dataclass

RATE = "consumer_byte_rate"
USER, CLIENT_ID = "user", "client-id"


@dataclass(frozen=True, slots=True)
class ReadingQuota:
    """What an entity may read a second: parts of kind and name, None for whoever has none of its own."""

    entity: tuple[tuple[str, str | None], ...]
    bytes_per_second: float


def reading_quotas(told: Iterable[tuple[Mapping[str, str | None], Mapping[str, float]]]) -> list[ReadingQuota]:
    """Those among all quotas that limit reading."""
    return [ReadingQuota(tuple(entity.items()), values[RATE]) for entity, values in told if RATE in values]


def quota_of(quotas: Iterable[ReadingQuota], client_id: str) -> ReadingQuota | None:
    """The one that holds for the client id, if its user has none of its own: Kafka's order, the user first."""
    by_entity = {frozenset(each.entity): each for each in quotas}
    names: tuple[str | None, str | None] = (client_id, None)
    order = (
        *(frozenset({(USER, None), (CLIENT_ID, name)}) for name in names),
        frozenset({(USER, None)}),
        *(frozenset({(CLIENT_ID, name)}) for name in names),
    )
    return next((by_entity[each] for each in order if each in by_entity), None)


def slowest_of_users(quotas: Iterable[ReadingQuota], client_ids: Iterable[str]) -> ReadingQuota | None:
    """The least of what named users may read with one of these client ids: it wins over `quota_of`, where it is theirs."""
    known = {*client_ids, None}
    found = [
        each for each in quotas if (parts := dict(each.entity)).get(USER) is not None and parts.get(CLIENT_ID) in known
    ]
    return min(found, key=lambda each: each.bytes_per_second, default=None)
