"""UpdateFeatures: finalized feature levels, all of the request or none."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import update_features
from oncelog.wire.log_records.cluster_metadata import FeatureLevelRecord
from oncelog.wire.messages.update_features import UpdateFeaturesResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, UpdateFeaturesResponse]:
    """Refused where open two-phase transactions would be harmed."""
    return _handle(broker, request)


async def _handle(broker: Broker, request: Request) -> UpdateFeaturesResponse:
    async with broker.store.changing() as metadata:
        update = update_features(
            request.message, request.api_version, metadata.features, broker.transactions.two_phase_transactions()
        )
        if update.changes:
            features_epoch = metadata.features_epoch + 1
            refusal = await broker.store.append_or_refuse(
                [
                    FeatureLevelRecord(name=name, level=level, features_epoch=features_epoch)
                    for name, level in update.changes.items()
                ]
            )
            if refusal is not None:
                return UpdateFeaturesResponse(error_code=refusal.error_code, error_message=refusal.message)
    return update.reply
