"""Feature levels: what ApiVersions tells, which changes are allowed (Apache Kafka's answers, kafka-notes C24)."""

from __future__ import annotations

import pytest

from oncelog.core.metadata import features
from oncelog.core.metadata.features import FeatureUpdate, levels_at_start, update_features
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def test_a_new_directory_offers_two_phase_commit() -> None:
    assert levels_at_start({})["transaction.version"] == 3
    assert features.api_version_max(22, 6, levels_at_start({})) == 6
    assert features.api_version_max(22, 6, {**levels_at_start({}), "transaction.version": 2}) == 5
    assert features.api_version_max(26, 5, {}) == 5


def test_a_minimum_of_0_is_not_shown_to_old_decoders() -> None:
    """KAFKA-17011."""
    assert {f.name for f in features.supported_features(3)} == {"metadata.version", "oncelog.operator.abort"}
    shown = {f.name: (f.min_version, f.max_version) for f in features.supported_features(4)}
    assert shown["transaction.version"] == (0, 3)
    assert set(shown) == set(features.SUPPORTED)


def test_level_0_is_not_shown() -> None:
    shown = features.finalized_features({"transaction.version": 2, "group.version": 0})
    assert [(f.name, f.min_version_level, f.max_version_level) for f in shown] == [("transaction.version", 2, 2)]
    assert features.level_of({}, "transaction.version") == 0


def update(
    *updates: tuple[str, int, int],
    version: int = 1,
    level: int = 2,
    validate: bool = False,
    open_ids: tuple[str, ...] = (),
) -> FeatureUpdate:
    keys = [FeatureUpdateKey(feature=name, max_version_level=to, upgrade_type=kind) for name, to, kind in updates]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate)
    return update_features(request, version, {**levels_at_start({}), "transaction.version": level}, open_ids)


TXN = "transaction.version"


@pytest.mark.parametrize(
    "allowed",
    [(TXN, 2, 1), (TXN, 3, 1), (TXN, 1, 2), (TXN, 1, 3), (TXN, 0, 2), ("group.version", 0, 2)],
)
def test_allowed(allowed: tuple[str, int, int]) -> None:
    outcome = update(allowed)
    assert (outcome.reply.error_code, outcome.reply.error_message) == (0, None)
    assert [(r.feature, r.error_code, r.error_message) for r in outcome.reply.results] == [(allowed[0], 0, None)]
    assert outcome.changes == ({} if allowed[:2] == (TXN, 2) else {allowed[0]: allowed[1]})


@pytest.mark.parametrize(
    "refused",
    [
        (TXN, 4, 1),
        (TXN, -1, 1),
        (TXN, 1, 1),
        (TXN, 3, 2),
        (TXN, 1, 9),
        ("no.such.feature", 1, 1),
        ("metadata.version", 29, 2),
        ("oncelog.operator.abort", 0, 2),
    ],
)
def test_refused_as_a_whole(refused: tuple[str, int, int]) -> None:
    for version in (1, 2):
        outcome = update((TXN, 1, 2), refused, version=version)
        assert outcome.reply.error_code == 95
        assert refused[0] in (outcome.reply.error_message or "")
        assert (outcome.reply.results, outcome.changes) == ([], {})


def test_validation_changes_nothing() -> None:
    assert update((TXN, 1, 2), validate=True).changes == {}


def test_version_0_says_allow_downgrade() -> None:
    for allow, error_code in ((True, 0), (False, 95)):
        key = FeatureUpdateKey(feature=TXN, max_version_level=1, allow_downgrade=allow)
        request = UpdateFeaturesRequest(feature_updates=[key])
        assert update_features(request, 0, {TXN: 2}, ()).reply.error_code == error_code


def test_nothing_and_the_same_twice() -> None:
    assert update().reply.error_code == 0
    assert len(update((TXN, 1, 2), (TXN, 1, 2)).reply.results) == 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_upgrade_to_kafkas_level_finds_it_in_force(version: int) -> None:
    """What provisioning scripts ask of a new directory; an open two-phase transaction is no hindrance."""
    outcome = update((TXN, 2, 1), version=version, level=3, open_ids=("pay",))
    assert (outcome.reply.error_code, outcome.changes) == (0, {})
    assert update((TXN, 1, 1), version=version, level=3).reply.error_code == 95, "as Kafka answers at level 2"
    assert update((TXN, 2, 1), version=version, level=1).changes == {TXN: 2}
    assert update((TXN, 2, 2), level=3).changes == {TXN: 2}


@pytest.mark.parametrize("kind", [2, 3])
@pytest.mark.parametrize("to", [0, 1, 2])
def test_open_two_phase_transactions_keep_their_level(to: int, kind: int) -> None:
    refused = update((TXN, to, kind), level=3, open_ids=("orders", "pay"))
    assert refused.reply.error_code == 95
    assert "orders, pay" in (refused.reply.error_message or "")
    assert refused.changes == {}
    assert update((TXN, to, kind), level=3).changes == {TXN: to}
    assert update((TXN, 3, 1), level=3, open_ids=("pay",)).reply.error_code == 0
