"""Which quota holds for a client id whose user is not known."""

from __future__ import annotations

import pytest

from oncelog.core.diagnosis.quotas import RATE, quota_of, reading_quotas, slowest_of_users

Told = list[tuple[dict[str, str | None], dict[str, float]]]
Part = tuple[str, str | None]
EVERY_USER: Part = ("user", None)
USER_A: Part = ("user", "ann")
EVERY_CLIENT: Part = ("client-id", None)
CLIENT_C: Part = ("client-id", "c")
CLIENT_D: Part = ("client-id", "d")
ORDER: tuple[tuple[Part, ...], ...] = (
    (EVERY_USER, CLIENT_C),
    (EVERY_USER, EVERY_CLIENT),
    (EVERY_USER,),
    (CLIENT_C,),
    (EVERY_CLIENT,),
)


def told(*quotas: tuple[tuple[Part, ...], float], rate: str = RATE) -> Told:
    return [(dict(parts), {rate: value}) for parts, value in quotas]


@pytest.mark.parametrize("index", range(len(ORDER)))
def test_the_users_part_wins_then_the_name(index: int) -> None:
    quotas = reading_quotas((dict(entity), {RATE: 1.0}) for entity in ORDER[index:][::-1])
    found = quota_of(quotas, "c")
    assert found is not None
    assert set(found.entity) == set(ORDER[index])


def test_another_clients_or_another_kind_of_quota_is_none() -> None:
    others = [*told(((CLIENT_D,), 1.0), ((("ip", None),), 1.0)), *told(((CLIENT_C,), 1.0), rate="producer_byte_rate")]
    assert quota_of(reading_quotas(others), "c") is None


def test_the_slowest_of_what_may_hold_for_a_named_user() -> None:
    quotas = reading_quotas(
        told(((USER_A,), 9.0), ((USER_A, CLIENT_C), 5.0), ((USER_A, CLIENT_D), 1.0), ((EVERY_USER,), 1.0))
    )
    found = slowest_of_users(quotas, ["c"])
    assert found is not None
    assert (found.bytes_per_second, dict(found.entity)) == (5.0, {"user": "ann", "client-id": "c"})
    assert slowest_of_users(quotas[3:], ["c"]) is None
