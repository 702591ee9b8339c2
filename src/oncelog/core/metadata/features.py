"""Feature levels: what is supported, what is finalized, and which changes are allowed (KIP-584, KIP-890 §0).

`transaction.version`: 0 and 1 are Kafka's old protocol (1 writes tagged fields, KIP-915), 2 is KIP-890, 3 is two-phase
commit (KIP-939), which Apache Kafka does not have: clients that look for InitProducerId v6 take level 3 as its sign.
A change is decided here; the shell writes it to the cluster's metadata, whose features epoch grows with each change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.api_versions import FinalizedFeatureKey, SupportedFeatureKey
from oncelog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
METADATA_VERSION = "metadata.version"
STREAMS_VERSION = "streams.version"
SHARE_VERSION = "share.version"
OPERATOR_ABORT = "oncelog.operator.abort"  # WriteTxnMarkers may carry the transaction's start offset (KIP-664)
CONDITIONAL_COMMIT = "oncelog.conditional.commit"  # EndTxn may name the records that it must find
KAFKAS_LEVEL = 2  # of transaction.version: the last one that Apache Kafka has
TWO_PHASE_LEVEL = 3

INIT_PRODUCER_ID_KEY = 22
INIT_PRODUCER_ID_VERSION_WITHOUT_TWO_PHASE = 5

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Levels:
    """Supported levels of a feature, both inclusive, and the one that a new data directory begins with."""

    first: int
    last: int
    initial: int


SUPPORTED: dict[str, Levels] = {
    CONDITIONAL_COMMIT: Levels(0, 1, 0),  # what a broker can, not what a cluster has agreed on: no directory keeps it
    GROUP_VERSION: Levels(0, 1, 1),
    METADATA_VERSION: Levels(30, 30, 30),  # 4.3-IV0: what clients and tools may expect of this broker
    OPERATOR_ABORT: Levels(1, 1, 1),
    STREAMS_VERSION: Levels(0, 1, 1),
    SHARE_VERSION: Levels(0, 1, 1),
    TRANSACTION_VERSION: Levels(0, 3, 3),
}


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The answer to UpdateFeatures, and the levels to write before it is sent (none when refused or only validated)."""

    reply: UpdateFeaturesResponse
    changes: Mapping[str, int] = field(default_factory=dict)


def level_of(finalized: Mapping[str, int], feature: str) -> int:
    """The finalized level of a feature; 0 where none was ever set."""
    return finalized.get(feature, 0)


def levels_at_start(finalized: Mapping[str, int]) -> dict[str, int]:
    """What a start sets: a new directory has no levels at all and gets the initial ones. One from before a feature was there
    stays at the first level: raising it is the operator's (docs/policy.md)."""
    if not finalized:
        return {name: levels.initial for name, levels in SUPPORTED.items()}
    return {name: levels.first for name, levels in SUPPORTED.items() if name not in finalized and levels.first > 0}


def supported_features(api_versions_version: int) -> list[SupportedFeatureKey]:
    """What ApiVersions tells. Below v4 a minimum of 0 would break the client's decoder (KAFKA-17011, KAFKA-17492)."""
    return [
        SupportedFeatureKey(name=name, min_version=levels.first, max_version=levels.last)
        for name, levels in SUPPORTED.items()
        if api_versions_version >= 4 or levels.first > 0
    ]


def finalized_features(finalized: Mapping[str, int]) -> list[FinalizedFeatureKey]:
    """What ApiVersions tells of the levels in force; level 0 is left out, as if the feature were not there."""
    return [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(finalized.items())
        if level > 0
    ]


def api_version_max(api_key: int, version_max: int, finalized: Mapping[str, int]) -> int:
    """The newest version of an API to advertise and accept: InitProducerId v6 belongs to two-phase commit."""
    if api_key == INIT_PRODUCER_ID_KEY and level_of(finalized, TRANSACTION_VERSION) < TWO_PHASE_LEVEL:
        return min(version_max, INIT_PRODUCER_ID_VERSION_WITHOUT_TWO_PHASE)
    return version_max


def update_features(
    request: UpdateFeaturesRequest,
    version: int,
    finalized: Mapping[str, int],
    two_phase_transactions: Sequence[str],
) -> FeatureUpdate:
    """Decide UpdateFeatures: all updates or none. `two_phase_transactions`: open ones, of all coordinators.

    A refusal is one error for the whole request, also in v0 and v1, as Apache Kafka answers (docs/kafka-notes.md C24).
    """
    changes: dict[str, int] = {}
    for update in request.feature_updates:
        refusal = _refusal(update, version, finalized, two_phase_transactions)
        if refusal is not None:
            message = f"The update failed for all features since the following feature had an error: {refusal}"
            reply = UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message)
            return FeatureUpdate(reply)
        if not _is_in_force(update, _kind_of(update, version), level_of(finalized, update.feature)):
            changes[update.feature] = update.max_version_level
    results = [UpdatableFeatureResult(feature=u.feature, error_message=None) for u in request.feature_updates]
    reply = UpdateFeaturesResponse(error_message=None, results=results)
    return FeatureUpdate(reply, {} if request.validate_only else changes)


def _kind_of(update: FeatureUpdateKey, version: int) -> int:
    if version >= 1:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def _is_in_force(update: FeatureUpdateKey, kind: int, present: int) -> bool:
    """Whether nothing is to be changed. Who upgrades to Kafka's newest level has it at level 3, which is 2 and more."""
    if update.max_version_level == present:
        return True
    has_more = update.max_version_level == KAFKAS_LEVEL and present == TWO_PHASE_LEVEL
    return update.feature == TRANSACTION_VERSION and kind == UPGRADE and has_more


def _refusal(
    update: FeatureUpdateKey, version: int, finalized: Mapping[str, int], two_phase_transactions: Sequence[str]
) -> str | None:
    name, level = update.feature, update.max_version_level
    supported = SUPPORTED.get(name)
    present = level_of(finalized, name)
    kind = _kind_of(update, version)
    if supported is None:
        return f"Invalid update version {level} for feature {name}. Local controller 1 does not support this feature."
    if not supported.first <= level <= supported.last:
        return (
            f"Invalid update version {level} for feature {name}. "
            f"Local controller 1 only supports versions {supported.first}-{supported.last}"
        )
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"Invalid upgrade type {kind} for feature {name}."
    if _is_in_force(update, kind, present):
        return None
    if level < present and kind == UPGRADE:
        return (
            f"Invalid update version {level} for feature {name}. Can't downgrade the version of this feature without "
            "setting the upgrade type to either safe or unsafe downgrade."
        )
    if level > present and kind != UPGRADE:
        return f"Invalid update version {level} for feature {name}. Can't downgrade to a newer version than {present}."
    if name == TRANSACTION_VERSION and level < TWO_PHASE_LEVEL <= present and two_phase_transactions:
        # Its Next pair would be lost, or a timeout would decide what only its owner may (KIP-939).
        named = ", ".join(two_phase_transactions)
        return f"Two-phase or kept transactions are open: {named}. Complete or force-terminate them first."
    return None
