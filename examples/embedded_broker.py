"""A broker, a transaction, a reader: everything in one process, nothing to install beside oncelog."""

import asyncio

from oncelog import Broker, Consumer, Producer


async def main() -> list[bytes | None]:
    async with Broker() as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="orders") as producer:
            async with producer.transaction():  # commits at the end, aborts on an exception
                await producer.send("orders", key=b"4711", value=b"3 apples")
            try:
                async with producer.transaction():
                    await producer.send("orders", key=b"4712", value=b"never to be seen")
                    raise RuntimeError("the customer changed their mind")
            except RuntimeError:
                pass
        async with Consumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            return [record.value for record in await consumer.poll(timeout_ms=10_000)]


if __name__ == "__main__":
    print(asyncio.run(main()))  # [b'3 apples']
