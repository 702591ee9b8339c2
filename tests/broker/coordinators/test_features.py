"""UpdateFeatures over the wire: levels change under open transactions, but not under two-phase ones (KIP-939)."""

from __future__ import annotations

import pytest
from evidence.world.broker import broker_and_client, run

from oncelog.errors import ErrorCode
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

E = ErrorCode
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


async def level(client, wanted, kind, *, validate_only=False):
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=wanted, upgrade_type=kind)
    reply = await client.call(UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only))
    return E(reply.error_code), reply.error_message


async def finalized(client):
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    reply = await client.call(request, 4)
    levels = {each.name: each.max_version_level for each in reply.finalized_features}
    return levels.get("transaction.version", 0), reply.finalized_features_epoch


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_an_open_two_phase_transaction_keeps_level_3_and_is_named(tmp_path, kind):
    async def work():
        async with broker_and_client(tmp_path, transaction_two_phase_commit_enable=True) as (_, client):
            await client.create("t")
            producer = await client.init("prepared-orders", version=6, enable_2pc=True)
            options = {"producer": producer, "sequence": 0, "transactional_id": "prepared-orders"}
            assert (await client.produce("t", "a", **options)).error_code == E.NONE
            for validate_only in (True, False):
                code, message = await level(client, 2, kind, validate_only=validate_only)
                assert code is E.INVALID_UPDATE_VERSION
                assert "prepared-orders" in message
            assert (await finalized(client))[0] == 3
            assert (await client.end("prepared-orders", producer, commit=True)).error_code == E.NONE
            assert await level(client, 2, kind, validate_only=True) == (E.NONE, None)
            assert (await finalized(client))[0] == 3
            assert await level(client, 2, kind) == (E.NONE, None)
            assert (await finalized(client))[0] == 2

    run(work())


def test_levels_up_and_down_under_an_open_transaction(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init("x")
            options = {"producer": producer, "transactional_id": "x"}
            assert (await client.produce("t", "a", sequence=0, **options)).error_code == E.NONE
            epochs = [(await finalized(client))[1]]
            for sequence, (wanted, kind) in enumerate(((2, 2), (1, 2), (2, 1), (3, 1)), 1):
                assert await level(client, wanted, kind) == (E.NONE, None)
                found, features_epoch = await finalized(client)
                assert found == wanted
                epochs.append(features_epoch)
                assert (await client.produce("t", str(sequence), sequence=sequence, **options)).error_code == E.NONE
            assert epochs == sorted(set(epochs)), "clients take only what is newer"
            assert (await client.end("x", producer, commit=True)).error_code == E.NONE
            while len(await client.read("t", wait_ms=50)) < 5:
                pass

    run(work())
