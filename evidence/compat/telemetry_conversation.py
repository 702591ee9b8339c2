"""One conversation about a client's metrics (KIP-714) with a broker that takes at most 300 bytes at once: who may ask and push
when, the order of refusals, and which subscriptions are about a client. What is said is compared between two brokers.
"""

from __future__ import annotations

import asyncio
from typing import Any

from evidence.world.broker import Client
from oncelog.errors import ErrorCode
from oncelog.wire.compression import Codec, compress
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.push_telemetry import PushTelemetryRequest
from oncelog.wire.metrics_data import DataPoint, encode_metrics

CLIENT_METRICS, SET, DELETE = 16, 0, 1
NEW, ONE, OWN = bytes(16), bytes(15) + b"\x01", bytes(range(16))
PLAIN = encode_metrics([DataPoint("a", 1)], (), 0, 1)
INTERVAL_MS, TOO_LARGE = 3_000, bytes(301)
ABOUT_ME = "client_software_name=me,client_software_version=1.*,client_source_address=127\\.0\\.0\\.1,client_source_port=[0-9]+"


class Talk:
    """Says what the broker answers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.said: list[tuple[Any, ...]] = []

    async def ask(self, label: str, instance_id: bytes = NEW) -> Any:
        reply = await self._client.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id))
        told = (sorted(reply.requested_metrics), list(reply.accepted_compression_types), reply.push_interval_ms)
        has_id = reply.client_instance_id != NEW
        self.said.append((label, ErrorCode(reply.error_code).name, has_id, *told, reply.telemetry_max_bytes))
        return reply

    async def push(self, label: str, asked: Any, **changes: Any) -> None:
        sent = {
            "client_instance_id": asked.client_instance_id,
            "subscription_id": asked.subscription_id,
            "compression_type": Codec.ZSTD,
            "metrics": compress(Codec.ZSTD, PLAIN),
        }
        reply = await self._client.call(PushTelemetryRequest(**(sent | changes)))
        self.said.append((label, ErrorCode(reply.error_code).name))

    async def subscribe(self, name: str, until: list[str], **configs: str | None) -> None:
        """Change a subscription and wait until a new client is told so."""
        changes = [
            AlterableConfig(name=key.replace("_", "."), value=value, config_operation=DELETE if value is None else SET)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=changes)
        reply = await self._client.call(IncrementalAlterConfigsRequest(resources=[resource]))
        assert reply.responses[0].error_code == ErrorCode.NONE
        while True:
            reply = await self._client.call(GetTelemetrySubscriptionsRequest(client_instance_id=NEW))
            if sorted(reply.requested_metrics) == until:
                return
            await asyncio.sleep(0.05)

    async def tell_software(self) -> None:
        await self._client.call(ApiVersionsRequest(client_software_name="me", client_software_version="1.2"))


async def talk(client: Client) -> list[tuple[Any, ...]]:
    """The whole of it."""
    x = Talk(client)
    await _times(x)
    await _refusals(x)
    await _matching(x)
    return x.said


async def _times(x: Talk) -> None:
    first = await x.ask("nothing subscribed")
    await x.ask("again", first.client_instance_id)
    await x.push("without a subscription", first)
    await x.push("again", first)
    await x.ask("an id of its own", OWN)
    await x.ask("a reserved id", ONE)
    await x.subscribe("s1", ["a.", "b."], metrics="b.,a.", interval_ms=str(INTERVAL_MS))
    await x.subscribe("s2", ["a.", "b."], metrics="a.,c", match="client_id=nobody")
    now = await x.ask("subscribed", first.client_instance_id)
    x.said.append(("another subscription id", now.subscription_id != first.subscription_id))
    await x.push("the old subscription", now, subscription_id=first.subscription_id)
    await x.ask("at once", first.client_instance_id)
    await x.ask("and again", first.client_instance_id)
    await x.push("soon after", now)
    await asyncio.sleep(INTERVAL_MS / 1000 + 0.1)
    await x.push("at its time", now)
    await x.push("too early", now)


async def _refusals(x: Talk) -> None:
    for label, changes in (
        ("codec 5", {"compression_type": 5}),
        ("codec -1 and another subscription", {"compression_type": -1, "subscription_id": 1}),
        ("too large", {"metrics": TOO_LARGE}),
        ("codec 9 and too large", {"compression_type": 9, "metrics": TOO_LARGE}),
        ("not compressed", {"compression_type": 0, "metrics": PLAIN}),
        ("empty", {"metrics": b""}),
    ):
        asked = await x.ask("new")
        await x.push(label, asked, **changes)
        await x.ask("asks again", asked.client_instance_id)
    asked = await x.ask("new")
    await x.push("a push", asked)
    await x.push("the last one", asked, terminating=True)
    await x.push("after it", asked)
    await x.push("once more", asked)
    await x.ask("asks after it", asked.client_instance_id)
    asked = await x.ask("new")
    await x.push("the last one, of another subscription", asked, terminating=True, subscription_id=3)
    await x.push("after it", asked)
    for instance_id in (NEW, ONE, bytes(range(1, 17))):
        await x.push(f"id {instance_id.hex()}", asked, client_instance_id=instance_id)


async def _matching(x: Talk) -> None:
    await x.subscribe("s3", ["*"], metrics="*", interval_ms="60000")
    await x.ask("everything")
    await x.subscribe("s3", ["a.", "b."], metrics="x", match=ABOUT_ME)
    await x.ask("software not told")
    await x.tell_software()
    await x.ask("software told")
    await x.subscribe("s1", ["x"], metrics=None, interval_ms=None)
    await x.ask("less")
