"""AsyncAPI's document."""

from __future__ import annotations

from faststream import FastStream
from faststream.specification import AsyncAPI

from oncelog.faststream import OncelogRouter
from tests.faststream.world import Order, new_broker


def test_the_document_has_channels_payloads_and_the_server():
    router = OncelogRouter(prefix="shop.")

    @router.subscriber("orders", "returns", group_id="g", description="All that comes.")
    @router.publisher("priced", description="Behind it.")
    async def price(order: Order) -> Order:
        return order

    router.publisher("untyped", title="Anything", schema=int)
    hidden = router.publisher("hidden", include_in_schema=False)
    broker = new_broker("127.0.0.1:9092", routers=[router], description="The shop's log.")
    FastStream(broker, logger=None, specification=(api := AsyncAPI()))
    document = api.to_specification().to_jsonable()
    addresses = {name: channel["address"] for name, channel in document["channels"].items()}
    assert addresses == {
        "shop.orders:Price": "shop.orders",
        "shop.returns:Price": "shop.returns",
        "shop.priced:Publisher": "shop.priced",
        "Anything": "shop.untyped",
    }
    assert document["channels"]["shop.orders:Price"]["bindings"]["kafka"]["topic"] == "shop.orders"
    assert document["components"]["schemas"]["Order"]["properties"]["number"]["type"] == "integer"
    (server,) = document["servers"].values()
    assert (server["host"], server["protocol"], server["description"]) == ("127.0.0.1:9092", "kafka", "The shop's log.")
    assert {each["action"] for each in document["operations"].values()} == {"receive", "send"}
    assert hidden.specification.name == "shop.hidden:Publisher"
