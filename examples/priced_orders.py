"""Consume, transform, produce, each order exactly once, whatever is killed: the lines of README.

`python priced_orders.py BROKER`. Start it as often as you like: the members share the partitions of `orders`.
"""

import asyncio
import json
import sys

import oncelog


async def priced(order: oncelog.ConsumerRecord) -> bytes:  # async or not; gives nothing, one or many records
    what = json.loads(order.value)
    return json.dumps({**what, "price": what["count"] * 2}).encode()


async def main(bootstrap_servers: str, until_end: bool = False) -> oncelog.ProcessMetrics:
    return await oncelog.process(
        "orders", into="priced", group_id="pricing", transform=priced, dead_letter_topic="orders.dead",
        permanent_errors=ValueError, bootstrap_servers=bootstrap_servers, until_end=until_end,
    )  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python examples/priced_orders.py BOOTSTRAP_SERVERS")
    print(asyncio.run(main(sys.argv[1])))
