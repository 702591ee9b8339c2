"""Whose a partition's directory is, by its own word and by the cluster's metadata."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from oncelog.host.read_only_files import ReadOnlyFiles
from oncelog.log.checkpoint_files import metadata_path, partition_metadata_from_bytes, partition_metadata_to_bytes
from oncelog.segments.topic_ids import of_others, topic_ids
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition
from tests.cli.world import Cli

T, U = TopicPartition("t", 0), TopicPartition("u", 0)


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    """A broker's directory: topics t and u, and one that was deleted."""
    directory = tmp_path / "data"
    with TestBroker(data_dir=str(directory)) as broker:
        cli = Cli(broker.bootstrap_servers)
        for topic in ("t", "u", "gone"):
            cli.create(topic)
        cli("topics", "delete", "gone", "--yes")
    for where, topic_id in topic_ids(ReadOnlyFiles(), str(directory)).items():
        (directory / f"{where}-0").mkdir(exist_ok=True)
        pathlib.Path(metadata_path(f"{directory}/{where}-0")).write_bytes(partition_metadata_to_bytes(topic_id))
    return directory


def owner(data: pathlib.Path, where: TopicPartition) -> bytes:
    return partition_metadata_from_bytes(pathlib.Path(metadata_path(f"{data}/{where}")).read_bytes())


def found(data: pathlib.Path, *, is_clean: bool = False) -> dict[TopicPartition, str]:
    return of_others(ReadOnlyFiles(), str(data), [T, U, TopicPartition("v", 0)], is_clean=is_clean)


def test_topics_of_today_by_name(data: pathlib.Path) -> None:
    ids = topic_ids(ReadOnlyFiles(), str(data))
    assert {"t", "u"} <= ids.keys()
    assert "gone" not in ids
    other = data / "processes" / "1"
    other.mkdir(parents=True)
    assert topic_ids(ReadOnlyFiles(), str(other)) == ids
    shutil.rmtree(data / "__cluster_metadata-0")
    assert topic_ids(ReadOnlyFiles(), str(data)) == {}


def test_one_that_is_another_topics(data: pathlib.Path) -> None:
    assert found(data, is_clean=True) == {}
    shutil.copy(metadata_path(f"{data}/{U}"), metadata_path(f"{data}/{T}"))
    assert found(data) == {T: "its partition.metadata says that it is of the topic u"}


def test_one_of_a_topic_that_there_is_not_was_not_left_by_a_clean_stop(data: pathlib.Path) -> None:
    pathlib.Path(metadata_path(f"{data}/{T}")).write_bytes(partition_metadata_to_bytes(b"x" * 16))
    assert found(data) == {}
    assert found(data, is_clean=True) == {T: "its partition.metadata says that it is of a topic that there is not"}


@pytest.mark.parametrize("content", [b"", b"?", None])
def test_one_that_says_nothing_is_not_judged(data: pathlib.Path, content: bytes | None) -> None:
    path = pathlib.Path(metadata_path(f"{data}/{T}"))
    path.unlink() if content is None else path.write_bytes(content)
    assert found(data, is_clean=True) == {}


def test_one_that_says_nearly_its_topics_id_is_mended_by_a_start(data: pathlib.Path) -> None:
    damaged = bytearray(owner(data, T))
    damaged[3] ^= 1
    pathlib.Path(metadata_path(f"{data}/{T}")).write_bytes(partition_metadata_to_bytes(bytes(damaged)))
    assert found(data, is_clean=True) == {}
