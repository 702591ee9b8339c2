"""Reading transactions as they are committed: a long-running one delays nobody else's (docs/transaction-order.md)."""

import asyncio

from oncelog import Broker, Consumer, Producer


async def main() -> tuple[list[bytes | None], list[bytes | None]]:
    async with Broker() as broker:
        servers = broker.bootstrap_servers
        async with (
            Producer(bootstrap_servers=servers, transactional_id="month-end") as month_end,
            Producer(bootstrap_servers=servers, transactional_id="sales") as sales,
            Consumer(
                "bookings",
                bootstrap_servers=servers,
                isolation_level="read_committed",
                order="transaction",
                auto_offset_reset="earliest",
            ) as consumer,
        ):
            month_end.begin_transaction()  # takes its time
            await (await month_end.send("bookings", value=b"month end: interest"))
            async with sales.transaction():
                await sales.send("bookings", value=b"sale 1")
                await sales.send("bookings", value=b"sale 2")
            meanwhile = [record.value for record in [await anext(consumer), await anext(consumer)]]
            await month_end.send("bookings", value=b"month end: fees")
            await month_end.commit_transaction()
            afterwards = [record.value for record in [await anext(consumer), await anext(consumer)]]
    return meanwhile, afterwards


if __name__ == "__main__":
    print(*asyncio.run(main()), sep="\n")
