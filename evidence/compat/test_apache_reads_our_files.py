"""Apache Kafka's DumpLogSegments reads every file that oncelog writes, and finds nothing wrong in any: after a clean stop,
without and with a journal, and in what `oncelog recover` makes of a killed broker's directory."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from evidence.compat.apache import ApacheTools, find_launcher
from evidence.compat.written_by_oncelog import CODECS, write_directory

pytestmark = [pytest.mark.compat, pytest.mark.slow]
COMPLAINTS = re.compile(
    r"mismatch|isvalid: false|exception|could not|skipping|corrupt|are not valid|out of order|not match", re.IGNORECASE
)


@pytest.fixture(scope="module", params=["stopped", "stopped, with a journal", "recovered"])
def directory(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("written")
    killed = path / "killed" if request.param == "recovered" else None
    journal = "off" if request.param == "stopped" else "on"
    asyncio.run(asyncio.wait_for(write_directory(path / "data", journal=journal, killed=killed), 60))
    found = killed or path / "data"
    assert (found / ".kafka_cleanshutdown").exists()
    assert not list(found.glob("oncelog.journal*"))
    return found


@pytest.fixture(scope="module")
def dump():
    tools = ApacheTools(find_launcher())

    def run(files, *options):
        """What the tool says of these files; each must have been read, and none complained of."""
        lines = tools("DumpLogSegments", *options, "--files", ",".join(map(str, files)))
        read = [line.removeprefix("Dumping ") for line in lines if line.startswith("Dumping ")]
        assert read == [str(file) for file in files]
        said = [line for line in lines if not line.startswith("| offset")]  # payloads may hold any word
        assert [line for line in said if COMPLAINTS.search(line)] == []
        return lines

    return run


def files(directory, pattern):
    found = sorted(path for path in directory.glob(pattern) if not path.parent.name.startswith("__cluster"))
    assert found, pattern
    return found


def test_records_of_every_segment(directory, dump):
    segments = files(directory, "[!_]*/*.log")
    assert len(segments) >= 8, "the workload fills several segments"
    lines = dump(segments, "--deep-iteration", "--print-data-log")
    batches = [line for line in lines if line.startswith("baseOffset")]
    assert {re.search(r"compresscodec: (\w+)", line)[1] for line in batches} == set(CODECS)
    assert all("isvalid: true" in line for line in batches)
    records = [line for line in lines if line.startswith("| offset")]
    assert sum("headerKeys: [codec,none]" in line for line in records) == 20 * len(CODECS)
    assert sum("endTxnMarker: COMMIT" in line for line in records) > 40
    assert sum("endTxnMarker: ABORT" in line for line in records) > 40
    assert sum("key: tombstone" in line for line in records) == len(CODECS)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_indexes_agree_with_their_logs(directory, dump, kind):
    lines = dump(files(directory, f"*/*.{kind}"))
    assert any(line.startswith(("offset:", "timestamp:")) for line in lines)
    dump(files(directory, f"*/*.{kind}"), "--verify-index-only")


def test_index_sanity(directory, dump):
    dump(files(directory, "*/*.index"), "--index-sanity-check")


def test_transaction_indexes(directory, dump):
    lines = dump(files(directory, "transactional-*/*.txnindex"))
    entries = [line for line in lines if line.startswith("version: 0 producerId")]
    assert len(entries) == 2 * 40, "one entry per partition and aborted transaction"


def test_producer_snapshots(directory, dump):
    lines = dump(files(directory, "*/*.snapshot"))
    assert any("currentTxnFirstOffset: OptionalLong[" in line for line in lines), "the prepared transaction is open"
    assert any("currentTxnFirstOffset: OptionalLong.empty" in line for line in lines)


def test_transaction_log(directory, dump):
    lines = dump(files(directory, "__transaction_state-*/*.log"), "--transaction-log-decoder")
    states = values(lines, "transactionalId")
    assert [each["transactionStatus"] for each in states["decided"]][-2:] == [2, 4]  # PrepareCommit, CompleteCommit
    assert all(each["transactionTimeoutMs"] == 2147483647 for each in states["prepared"])
    kept = states["prepared"][-1]
    assert (kept["transactionStatus"], kept["nextProducerEpoch"]) == (1, kept["producerEpoch"] + 1)
    assert states["a"][-1]["producerEpoch"] == 40


def test_offsets(directory, dump):
    lines = dump(files(directory, "__consumer_offsets-*/*.log"), "--offsets-decoder")
    committed = values(lines, "group")
    assert len([each for each in committed["copier"] if "offset" in each]) == 40
    assert [each["offset"] for each in committed["members"] if "offset" in each][-1] == 1
    assert any(each.get("protocolType") == "consumer" for each in committed["members"])


def test_a_streams_group(directory, dump):
    lines = dump(files(directory, "__consumer_offsets-*/*.log"), "--offsets-decoder")
    written = values(lines, "groupId")["application"]
    topology = next(each for each in written if "subtopologies" in each)
    assert [each["subtopologyId"] for each in topology["subtopologies"]] == ["0", "1"]
    assert any(each.get("activeTasksPendingRevocation") for each in written)
    assert any(each.get("standbyTasks") for each in written)
    assert {"a.example"} == {each["userEndpoint"]["host"] for each in written if each.get("userEndpoint")}


def values(lines, name):
    """Decoded values by what their keys call `name`, in order."""
    found = {}
    for line in lines:
        match = re.search(r" key: (\{.*\}) payload: (\{.*\})$", line)
        if match:
            key, value = (json.loads(text)["data"] for text in match.groups())
            if name in key:
                found.setdefault(key[name], []).append(value)
    return found
