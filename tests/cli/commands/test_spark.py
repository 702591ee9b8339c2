"""`oncelog spark adopt-checkpoint`: a plan, a comparison with the cluster, the change."""

from __future__ import annotations

import json
import pathlib

from oncelog.spark.stream_offset import topic_id_text
from tests.cli.world import Cli

QUERY_ID = "0f0a3a2e-1c8b-4d52-9a3a-6c4f0d9a1b11"


def checkpoint(folder: pathlib.Path, topic: str, position: int) -> pathlib.Path:
    """Of Spark's own Kafka source; its batch 1 was planned and not finished."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": QUERY_ID}))
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    for batch_id, offset in ((0, 0), (1, position)):
        line = json.dumps({topic: {"0": offset}})
        (folder / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{line}")
    return folder


def newest(folder: pathlib.Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "offsets" / "1").read_text().split("\n")[2])
    return found


def test_a_plan_first_then_the_change(cli: Cli, tmp_path: pathlib.Path) -> None:
    topic = cli.create("adopt-me")
    cli("produce", topic, stdin="a\nb\nc\n")
    folder = checkpoint(tmp_path / "c", topic, 2)
    row = {"topic": topic, "partition": 0, "position": 2, "log_start": 0, "log_end": 3, "to_read": 1, "state": "ok"}
    assert cli.json("spark", "adopt-checkpoint", folder, "--dry-run") == [row]
    planned = cli("spark", "adopt-checkpoint", folder, "--dry-run")
    assert "dry run, would: adopt the checkpoint of query" in planned.stderr
    assert "batch 1 was planned and is not finished" in planned.stderr
    assert newest(folder) == {topic: {"0": 2}}
    assert "add --yes" in cli("spark", "adopt-checkpoint", folder, status=2).stderr
    assert newest(folder) == {topic: {"0": 2}}
    assert cli.json("spark", "adopt-checkpoint", folder, "--yes") == [row]
    assert newest(folder) == {"v": 1, "t": {topic: {"0": 2}}, "ids": {topic: topic_id(cli, topic)}}
    assert "nothing to adopt" in cli("spark", "adopt-checkpoint", folder, "--yes", status=2).stderr


def topic_id(cli: Cli, topic: str) -> str:
    """As the checkpoint has it."""
    return topic_id_text(bytes.fromhex(cli.json("topics", "describe", topic)[0]["topic_id"]))


def test_another_cluster_is_noticed(cli: Cli, tmp_path: pathlib.Path) -> None:
    topic = cli.create("adopt-short")
    behind = checkpoint(tmp_path / "behind", topic, 7)
    told = cli("spark", "adopt-checkpoint", behind, "--yes", status=1)
    assert "adopt-short-0: the checkpoint stands at 7: behind the end; nothing was changed" in told.stderr
    nowhere = checkpoint(tmp_path / "nowhere", "adopt-nowhere", 7)
    assert "not there; nothing was changed" in cli("spark", "adopt-checkpoint", nowhere, "--yes", status=1).stderr
    assert newest(behind) == {topic: {"0": 7}}
