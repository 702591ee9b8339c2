"""The numbers a broker shows, the endpoint they are read from, and that the documents name what there is."""

from __future__ import annotations

import asyncio
import math
import pathlib
import re

import pytest
from evidence.world.broker import broker_and_client, fetch_request, run

from oncelog.broker.coordinators.load_times import LoadTimes
from oncelog.broker.metrics.error_counts import errors_of
from oncelog.broker.metrics.histogram import Histogram
from oncelog.broker.metrics.metric_catalog import FAMILIES, table
from oncelog.broker.metrics.metrics import OTHER_TOPICS, TOPICS_MAX, Metrics
from oncelog.cli.commands.serve_processes import PROCESS_UP
from oncelog.core.exposition import exposition
from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse, AddPartitionsToTxnResult
from oncelog.wire.messages.end_txn import EndTxnResponse
from oncelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.wire.schema import Encoded

ROOT = pathlib.Path(__file__).parents[3]
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (-?[0-9.e+-]+|\+Inf|NaN)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\["\\n])*)"')


def parse(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The text format 0.0.4, read strictly: what is declared, in order, once, with sane histograms."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    kinds: dict[str, str] = {}
    family = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in kinds, f"{family} is declared twice"
            assert len(line.split(" ", 3)[3]) > 5
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family
            assert kind in ("counter", "gauge", "histogram")
            kinds[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            suffixes = ("_bucket", "_sum", "_count") if kinds[family] == "histogram" else ("",)
            assert name in [family + suffix for suffix in suffixes], line
            key = tuple(LABEL.findall(labels or ""))
            assert key not in found.setdefault(name, {}), f"{line} is there twice"
            found[name][key] = float(value)
            assert math.isfinite(float(value))
    for name, kind in kinds.items():
        if kind == "counter":
            assert name.endswith("_total")
        if kind == "histogram":
            check_histogram(name, found)
    return found


def check_histogram(name, found) -> None:
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for labels, value in found.get(f"{name}_bucket", {}).items():
        (bound,) = [text for label, text in labels if label == "le"]
        rest = tuple(each for each in labels if each[0] != "le")
        series.setdefault(rest, []).append((float(bound), value))
    assert series.keys() == found.get(f"{name}_count", {}).keys() == found.get(f"{name}_sum", {}).keys()
    for labels, buckets in series.items():
        assert [bound for bound, _ in buckets] == sorted({bound for bound, _ in buckets})
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert buckets[-1] == (math.inf, found[f"{name}_count"][labels])


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
            await client.call(fetch_request("t", 0, committed=True), 12)
            await client.call(fetch_request("t", 99, committed=True), 12)
            await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="?")]), 12)
            producer = await client.init("tx")
            await client.produce("t", "c", producer=producer, sequence=0, transactional_id="tx")
            status, body = await get(broker, "/metrics")
            assert status == "200"
            found = parse(body)
            requests = found["kafka_network_requestmetrics_requests_total"]
            assert requests[("request", "Produce"), ("version", "12")] == 2
            assert found["kafka_network_requestmetrics_errors_total"] == {
                (("request", "Fetch"), ("error", "OFFSET_OUT_OF_RANGE")): 1,
                (("request", "Metadata"), ("error", "INVALID_TOPIC_EXCEPTION")): 1,
            }
            assert found["kafka_network_requestmetrics_totaltimems_count"][(("request", "Fetch"),)] == 2
            assert found["kafka_server_brokertopicmetrics_messagesin_total"][(("topic", "t"),)] == 3
            size_bytes = found["kafka_server_brokertopicmetrics_bytesout_total"][(("topic", "t"),)]
            assert 0 < size_bytes < found["kafka_server_brokertopicmetrics_bytesin_total"][(("topic", "t"),)]
            assert found["kafka_server_replicamanager_partitioncount"][()] >= 2
            assert found["kafka_server_replicamanager_produceridcount"][()] == 1
            assert found["kafka_cluster_partition_laststableoffsetlag"] == {(("topic", "t"), ("partition", "0")): 1}
            assert found["oncelog_open_transactions"][()] == 1
            assert found["oncelog_transactional_ids"][()] == 1
            assert found["kafka_server_replicamanager_partitionswithlatetransactionscount"][()] == 0
            assert found["kafka_server_addpartitionstotxnmanager_verificationtimems_count"][()] == 1
            assert found["kafka_log_logflushstats_logflushrateandtimems_count"][()] >= 2
            assert found["oncelog_sync_commits_sum"][()] >= 2
            assert found["kafka_server_socket_server_metrics_connection_count"][()] >= 1
            assert (
                found["kafka_server_node_metrics_finalized_feature_level"][(("feature", "transaction.version"),)] >= 2
            )
            assert {name for name in FAMILIES.values() if f"# TYPE {name.name} " not in body} == set()
            assert await get(broker, "/readyz") == ("200", "ready\n")
            assert await get(broker, "/livez") == ("200", "alive\n")
            assert (await get(broker, "/else"))[0] == "404"

    run(work())


def test_the_endpoint_has_limits_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("oncelog.host.http_endpoint.DEADLINE_S", 0.1)
    monkeypatch.setattr("oncelog.host.http_endpoint.CONNECTIONS_MAX", 3)

    class Silent(asyncio.Protocol):
        def __init__(self) -> None:
            self.ended = asyncio.Event()

        def connection_lost(self, exc):
            self.ended.set()

    async def work():
        async with broker_and_client(tmp_path, metrics_listen="127.0.0.1:0") as (broker, _):
            listener = broker.metrics_listener
            connect = asyncio.get_running_loop().create_connection
            silent = [await connect(Silent, listener.host, listener.port) for _ in range(4)]
            await silent[3][1].ended.wait()  # one too many
            assert not any(protocol.ended.is_set() for _, protocol in silent[:3])
            silent[0][0].write(b"x" * 9000)  # a head without an end
            await silent[0][1].ended.wait()
            assert not silent[1][1].ended.is_set()
            for _, protocol in silent:
                await protocol.ended.wait()
            assert (await get(broker, "/livez"))[0] == "200"

    run(work())


def test_late_transactions_and_failed_verifications_are_counted(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            producer = await client.init("tx")
            wrong = (producer[0], producer[1] + 1)
            assert (await client.produce("t", "x", producer=wrong, sequence=0, transactional_id="tx")).error_code
            await client.produce("t", "c", producer=producer, sequence=0, transactional_id="tx")
            assert values(broker.metrics, "verification_failures") == {(): 1}
            assert values(broker.metrics, "partitions_with_late_transactions") == {(): 0}
            clock = broker.host.clock

            class Later:
                def now_ms(self) -> int:
                    return clock.now_ms() + later_ms

            for later_ms, count in ((900_000 + 290_000, 0), (900_000 + 301_000, 1)):  # noqa: B007 - read by Later
                broker.node.clock = Later()
                assert values(broker.metrics, "partitions_with_late_transactions") == {(): count}

    run(work())


def values(metrics: Metrics, key: str) -> dict[tuple[str, ...], float]:
    (samples,) = [samples for family, samples in metrics.families() if family is FAMILIES[key]]
    return {tuple(labels.values()): value for _, labels, value in samples}


def test_exposition():
    metrics = Metrics()
    metrics.add("connections_refused", 2)
    metrics.limit_hit('a"b\\c\nd')
    metrics.gauge("partitions", lambda: 0.5)
    text = exposition(metrics.families())
    assert "# TYPE oncelog_connections_refused_total counter\noncelog_connections_refused_total 2\n" in text
    assert 'oncelog_limits_hit_total{limit="a\\"b\\\\c\\nd"} 1\n' in text
    assert "kafka_server_replicamanager_partitioncount 0.5\n" in text
    parse(text)


@pytest.mark.parametrize(
    "wrong",
    [
        "x 1\n",
        "# HELP a_total counts\n# TYPE a_total counter\na_total{b=1} 1\n",
        "# HELP a counts something\n# TYPE a counter\na 1\n",
        "# HELP a counts something\n# TYPE a gauge\na 1\na 2\n",
        '# HELP a counts something\n# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n',
        '# HELP a counts something\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
    ],
)
def test_the_parser_can_fail(wrong):
    with pytest.raises((AssertionError, KeyError)):
        parse(wrong)


def test_histogram():
    histogram = Histogram((1, 10))
    for value in (0.5, 1, 5, 11, 100):
        histogram.observe(value)
    assert list(histogram.cumulative()) == [("1", 2), ("10", 3), ("+Inf", 5)]
    assert (histogram.count, histogram.total) == (5, 117.5)


def test_topics_are_bounded():
    metrics = Metrics()
    for index in range(TOPICS_MAX + 50):
        metrics.topic(f"t{index}").bytes_in += 1
    counted = values(metrics, "bytes_in")
    assert len(counted) == TOPICS_MAX + 1
    assert counted[(OTHER_TOPICS,)] == 50


def test_errors_are_found_wherever_they_are():
    assert errors_of(EndTxnResponse)(EndTxnResponse(error_code=3)) == [3]
    partitions = [PartitionData(partition_index=0, error_code=code) for code in (0, 1, 6)]
    fetched = FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)])
    assert errors_of(FetchResponse)(fetched) == [1, 6]
    kept = Encoded(MetadataResponseTopic(error_code=3, partitions=[MetadataResponsePartition(error_code=5)]))
    assert errors_of(MetadataResponse)(MetadataResponse(topics=[kept])) == [3, 5]
    added = AddPartitionsToTxnResponse(
        results_by_transaction=[AddPartitionsToTxnResult(transactional_id="x", topic_results=[])]
    )
    assert errors_of(AddPartitionsToTxnResponse)(added) == []
    for api in APIS.values():  # every response class has its function, and an empty message has no error
        assert errors_of(api.response)(api.response()) == []


def test_requests_of_unknown_versions_share_one_label():
    metrics = Metrics()
    for version in (3, 99, 100):
        metrics.answered(ApiKey.API_VERSIONS, version, APIS[ApiKey.API_VERSIONS].response(error_code=35), 0.001)
    assert values(metrics, "requests") == {("ApiVersions", "3"): 1, ("ApiVersions", "-1"): 2}
    assert values(metrics, "errors") == {("ApiVersions", ErrorCode.UNSUPPORTED_VERSION.name): 3}
    assert metrics.request_count(ApiKey.API_VERSIONS) == 3


def test_load_times():
    async def work():
        metrics, times = Metrics(), LoadTimes()
        times.show(metrics, "group_load_ms")
        assert values(metrics, "group_load_ms_avg") == {(): 0}
        for _ in range(2):
            with times.measured():
                await asyncio.sleep(0)
        assert 0 < values(metrics, "group_load_ms_avg")[()] <= values(metrics, "group_load_ms_max")[()]

    run(work())


def test_the_documents_name_what_there_is():
    assert table() in (ROOT / "docs/metrics.md").read_text(), "docs/metrics.md: run python -m tools.tables"
    names = {family.name for family in FAMILIES.values()} | {PROCESS_UP.name}
    rules = (ROOT / "examples/prometheus/oncelog.rules.yml").read_text()
    used = set(re.findall(r"\b((?:kafka|oncelog)_[a-z_]+)\b", rules.partition("- name: oncelog-watch")[0]))
    assert len(used) > 8
    assert {name for name in used if name.removesuffix("_bucket") not in names and name not in names} == set()
