"""UpdateFeatures: finalized feature levels, all of the request or none."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import update_features
from oncelog.wire.log_records.cluster_metadata import FeatureLevelRecord
from oncelog.wire.messages.update_features import UpdateFeaturesResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, UpdateFeaturesResponse]:
    """Refused where open two-phase transactions would be harmed."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> UpdateFeaturesResponse:
    async with node.store.changing() as metadata:
        update = update_features(
            request.message, request.api_version, metadata.features, node.transactions.two_phase_transactions()
        )
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
