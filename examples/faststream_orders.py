"""A FastStream service whose handlers take effect once, whatever is killed: an order is priced, and noted, or neither.

`python faststream_orders.py BROKER`, as often as you like: the members share the partitions of `orders`. Ctrl-C ends it.
"""

import asyncio
import sys
from typing import Any

from faststream import FastStream
from pydantic import BaseModel, PositiveInt

from oncelog.faststream import OncelogBroker, OncelogMessage, OncelogResponse, OncelogRouter


class Order(BaseModel):
    what: str
    count: PositiveInt


router = OncelogRouter()
notes = router.publisher("notes")


@router.subscriber("orders", group_id="pricing", dead_letter_topic="orders.dead")
@router.publisher("priced")
async def price(order: Order, message: OncelogMessage) -> OncelogResponse:
    await notes.publish(f"{order.count} {order.what}")  # in the same transaction
    return OncelogResponse({**order.model_dump(), "price": order.count * 2}, key=message.raw_message.key)


def application(bootstrap_servers: str, **options: Any) -> FastStream:
    return FastStream(OncelogBroker(bootstrap_servers, routers=[router], **options))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python examples/faststream_orders.py BOOTSTRAP_SERVERS")
    asyncio.run(application(sys.argv[1]).run())
