"""Seeds of the simulated cluster of processes: nothing is wrong, the same seed is the same run, and planted defects are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evidence.cluster_kills.work import COMMITTED
from evidence.processes.simulation import run_seed
from oncelog.broker.coordinators.routes import RoutedGate, RoutedMarkers
from oncelog.broker.metadata.followed_metadata import FollowedMetadata
from oncelog.broker.metadata.metadata_leader import FollowerLink
from oncelog.core.transactions.coordinator import MarkerResult
from oncelog.wire.metadata_link import CaughtUp, Welcome

SEEDS_MAX = 25


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_wrong(seed: int) -> None:
    verdict = run_seed(seed)
    assert verdict.findings == [], f"make sim-processes SEED={seed}"
    assert verdict.outcomes[COMMITTED] > 5


def test_a_seed_is_a_run() -> None:
    assert run_seed(6).trace_hash == run_seed(6).trace_hash != run_seed(5).trace_hash


def markers_of_others_are_believed_written(patch: pytest.MonkeyPatch) -> None:
    whole = RoutedMarkers.send

    def send(self: RoutedMarkers, markers: Any) -> None:
        own = self._leadership.node_id
        for node_id, part in self._by_leader(markers):
            if node_id == own or not part.partitions:
                whole(self, part)
            else:
                self.written(replace(part), dict.fromkeys(part.partitions, MarkerResult()))

    patch.setattr(RoutedMarkers, "send", send)


def a_follower_that_comes_back_is_not_sent_what_it_missed(patch: pytest.MonkeyPatch) -> None:
    def greet(self: Any, hello: Any) -> None:
        self._send(Welcome(self._leader.cluster_id))
        self._sent_offset = hello.from_offset
        if hello.from_offset:
            self._sent_offset = self._store.applied_offset
        self.send_what_is_new()
        self._send(CaughtUp(self._sent_offset))

    patch.setattr(FollowerLink, "_greet", greet)


def a_refused_change_counts_as_made(patch: pytest.MonkeyPatch) -> None:
    async def append(self: Any, link: Any, records: Any) -> None:
        return None

    patch.setattr(FollowedMetadata, "_append", append)


def nobody_is_asked(patch: pytest.MonkeyPatch) -> None:
    """A partition's leader lets everybody write, whatever the coordinator in another process knows."""

    def begin(self: Any, _request: Any, _client: Any, _asked: Any, then: Callable[[Any], None]) -> int:
        then({})
        return 0

    patch.setattr(RoutedGate, "begin", begin)


DEFECTS = (
    markers_of_others_are_believed_written,
    a_follower_that_comes_back_is_not_sent_what_it_missed,
    a_refused_change_counts_as_made,
    nobody_is_asked,
)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_planted_defect_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    for seed in range(SEEDS_MAX):
        if run_seed(seed).findings:
            return
    pytest.fail(f"{defect.__name__} was not found in {SEEDS_MAX} seeds")
