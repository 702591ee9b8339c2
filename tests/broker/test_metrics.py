"""The numbers a broker shows, and the endpoint they are read from."""

import asyncio

from oncelog.broker.metrics import Metrics
from oncelog.broker.metrics_endpoint import exposition
from oncelog.wire.api import ApiKey
from tests.broker.world import broker_and_client, run


async def get(broker, path):
    listener = broker.metrics_listener
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer.split(" ")[1], answer.partition("\r\n\r\n")[2]


def test_the_endpoint(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, metrics_listen="127.0.0.1:0") as (broker, client):
            await client.create("t")
            await client.produce("t", "a", "b")
            status, body = await get(broker, "/metrics")
            assert status == "200"
            lines = body.splitlines()
            assert 'oncelog_requests_total{api="PRODUCE"} 1' in lines
            assert "oncelog_records_produced 2" in lines
            assert "# TYPE oncelog_partitions gauge" in lines
            assert await get(broker, "/readyz") == ("200", "ready\n")
            assert await get(broker, "/livez") == ("200", "alive\n")
            assert (await get(broker, "/else"))[0] == "404"

    run(work())


def test_exposition():
    metrics = Metrics()
    metrics.add("things", 2)
    metrics.count_request(ApiKey.FETCH)
    metrics.count_request(ApiKey.PRODUCE)
    metrics.gauge("level", lambda: 0.5)
    assert exposition(metrics) == (
        "# TYPE oncelog_things counter\noncelog_things 2\n"
        '# TYPE oncelog_requests_total counter\noncelog_requests_total{api="FETCH"} 1\n'
        'oncelog_requests_total{api="PRODUCE"} 1\n'
        "# TYPE oncelog_level gauge\noncelog_level 0.5\n"
    )
