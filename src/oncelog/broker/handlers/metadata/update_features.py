"""UpdateFeatures: finalized feature levels, all of the request or none."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import (
    SHARE_VERSION,
    TRANSACTION_VERSION,
    TWO_PHASE_LEVEL,
    level_of,
    update_features,
)
from oncelog.core.metadata.refusal import ChangeTimedOut
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.cluster_metadata import FeatureLevelRecord
from oncelog.wire.messages.update_features import UpdateFeaturesResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, UpdateFeaturesResponse]:
    """Refused where open two-phase transactions would be harmed."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> UpdateFeaturesResponse:
    try:
        return await _update(node, request)
    except ChangeTimedOut:
        return UpdateFeaturesResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=None)


async def _update(node: Node, request: Request) -> UpdateFeaturesResponse:
    # Kafka reads no timeout here, so a client that gives none is not refused.
    timeout_ms = request.message.timeout_ms
    async with node.store.changing(timeout_ms if timeout_ms > 0 else None) as metadata:
        update = update_features(
            request.message, request.api_version, metadata.features, node.transactions.two_phase_transactions()
        )
        fault = "" if node.leadership.is_alone else _fault_of_several(metadata.features, update.changes)
        if fault:
            return UpdateFeaturesResponse(error_code=ErrorCode.FEATURE_UPDATE_FAILED, error_message=fault)
        if update.changes:
            features_epoch = metadata.features_epoch + 1
            refusal = await node.store.append_or_refuse(
                [
                    FeatureLevelRecord(name=name, level=level, features_epoch=features_epoch)
                    for name, level in update.changes.items()
                ]
            )
            if refusal is not None:
                return UpdateFeaturesResponse(error_code=refusal.error_code, error_message=refusal.message)
    return update.reply


def _fault_of_several(finalized: Mapping[str, int], changes: Mapping[str, int]) -> str:
    """Why several processes cannot take these levels, or ""."""
    if changes.get(SHARE_VERSION, 0) > 0:
        return "Share groups do not work with several processes (oncelog serve --processes) yet."
    if changes.get(TRANSACTION_VERSION, TWO_PHASE_LEVEL) < level_of(finalized, TRANSACTION_VERSION):
        return (
            "transaction.version is not lowered with several processes, as one does not know the two-phase transactions of "
            "another: start it with --processes 1, lower it, and share it out again."
        )
    return ""
