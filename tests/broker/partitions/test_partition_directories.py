"""Whose each directory is, and what is forgotten of those that are gone. Files are in memory."""

from __future__ import annotations

import pytest
from evidence.world.files import Keep, SimFiles

from oncelog.broker.partitions.partition_directories import missing, owners, settle
from oncelog.broker.partitions.partition_files import begin_directory
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.leadership import Led, alone
from oncelog.errors import StorageError
from oncelog.log.checkpoint_files import (
    CLEANED_OFFSETS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    metadata_path,
    partition_metadata_from_bytes,
)
from oncelog.types import TopicPartition

ID, OTHER_ID = b"i" * 16, b"o" * 16
T = TopicPartition("t", 0)


class World:
    """A topic of two partitions, and a data directory."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.files.make_directory("data")
        self.files.sync_directory("")
        self.metadata = ClusterMetadata()
        self.metadata.topics["t"] = Topic("t", ID, 2, {})
        self.stored: dict[str, dict[TopicPartition, int]] = {}

    def directory(self, name: str, topic_id: bytes | None, content: bytes = b"") -> None:
        path = f"data/{name}"
        if topic_id is None:
            self.files.make_directory(path)
        else:
            begin_directory(self.files, path, topic_id)
        self.files.open(f"{path}/{0:020d}.log").write_at(0, content)

    def settle(
        self,
        *,
        is_clean: bool = False,
        journaled: tuple[tuple[bytes, int], ...] = (),
        **known: dict[TopicPartition, int],
    ) -> list[TopicPartition]:
        offsets = {
            RECOVERY_POINTS: known.get("recovery_points", {}),
            LOG_START_OFFSETS: known.get("log_starts", {}),
            CLEANED_OFFSETS: known.get("cleaned", {}),
        }
        store = lambda name, given: self.stored.update({name: dict(given)})  # noqa: E731
        self.found = settle(
            self.files, "data", self.metadata, offsets, store, is_clean=is_clean, journaled=lambda: journaled
        )
        return self.found.names

    def missing(self, recovery_points: dict[TopicPartition, int]) -> dict[TopicPartition, str]:
        led = Led(self.metadata, alone(1))
        return missing(self.files, "data", recovery_points, self.found.names, led)


def test_a_directory_is_its_topics_by_id_and_others_are_moved_aside() -> None:
    world = World()
    world.directory("t-0", ID, b"ours")
    world.directory("t-1", OTHER_ID, b"another's")
    world.directory("t-2", ID, b"more than there are")
    world.directory("u-0", ID, b"nobody's")
    world.directory(f"t-1.{ID.hex()}-delete", ID, b"deleted")
    assert world.settle() == [T]
    assert world.files.list("data") == ["t-0", "t-1-stray", "t-2-stray", "u-0-stray"]
    world.files.crash(Keep.NONE)
    assert "t-1" not in world.files.list("data")


@pytest.mark.parametrize("content", [b"", b"records"])
@pytest.mark.parametrize("is_empty", [False, True])
def test_one_that_does_not_say_whose_it_is_is_its_topics_and_says_so_from_then_on(
    content: bytes, is_empty: bool
) -> None:
    """Its file was taken by a power cut: what is in it may have been acknowledged."""
    world = World()
    world.directory("t-0", None, content)
    if is_empty:
        world.files.open(metadata_path("data/t-0"))
    world.files.sync_directory("data")
    assert world.settle() == [T]
    world.files.crash(Keep.NONE)
    assert partition_metadata_from_bytes(world.files.read_whole(metadata_path("data/t-0"))) == ID


@pytest.mark.parametrize("how", ["damaged", "unreadable"])
def test_one_of_which_it_cannot_be_read_is_its_topics_and_says_so_from_then_on(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing says that it is another's, and its records may have been acknowledged."""
    world = World()
    world.directory("t-0", ID, b"records")
    if how == "damaged":
        world.files.open(metadata_path("data/t-0")).write_at(0, b"?")
    else:
        world.files.fail_reads_from(1)
    assert world.settle() == [T]
    assert "data/t-0/partition.metadata cannot be read; written anew: it is t's" in caplog.messages
    world.files.crash(Keep.ALL)
    assert partition_metadata_from_bytes(world.files.read_whole(metadata_path("data/t-0"))) == ID
    caplog.clear()
    assert (world.settle(), caplog.messages) == ([T], [])


@pytest.mark.parametrize("left", ["stray", "deleted"])
def test_what_is_known_of_a_deleted_partition_is_not_about_its_successor(left: str) -> None:
    world = World()
    name = "t-0" if left == "stray" else f"t-0.{OTHER_ID.hex()}-delete"
    world.directory(name, OTHER_ID, b"past")
    known = {T: 5}
    assert world.settle(recovery_points=dict(known), log_starts=dict(known), cleaned=dict(known)) == []
    assert world.stored == {RECOVERY_POINTS: {}, LOG_START_OFFSETS: {}, CLEANED_OFFSETS: {}}


def test_what_is_known_of_a_partition_of_no_topic_is_forgotten() -> None:
    world = World()
    world.settle(log_starts={TopicPartition("gone", 0): 5, TopicPartition("t", 7): 5})
    assert world.stored == {LOG_START_OFFSETS: {}}


def test_what_is_known_of_one_that_is_there_stays_though_a_deleted_one_had_its_name() -> None:
    world = World()
    world.directory("t-0", ID, b"ours")
    world.directory(f"t-0.{OTHER_ID.hex()}-delete", OTHER_ID, b"past")
    assert world.settle(recovery_points={T: 5}, log_starts={T: 2}) == [T]
    assert world.stored == {}


def test_one_that_is_missing_without_a_trace_is_not_forgotten() -> None:
    """It was lost: with its recovery point, whoever opens it is told so."""
    world = World()
    assert world.settle(recovery_points={T: 5}) == []
    assert world.stored == {}


@pytest.mark.parametrize("bit", range(0, 128, 5))
def test_a_damaged_id_is_written_anew_and_the_partition_goes_on(bit: int, caplog: pytest.LogCaptureFixture) -> None:
    """It would be taken for a deleted topic's, moved aside, and the partition would begin anew in silence."""
    world = World()
    damaged = bytearray(ID)
    damaged[bit // 8] ^= 1 << bit % 8
    world.directory("t-0", bytes(damaged), b"ours")
    world.files.sync_directory("data")
    points = {T: 9}
    assert world.settle(recovery_points=points) == [T]
    assert points == {T: 9}
    world.files.crash(Keep.NONE)
    assert partition_metadata_from_bytes(world.files.read_whole(metadata_path("data/t-0"))) == ID
    assert "data/t-0/partition.metadata is damaged" in caplog.text


def test_who_says_whose_it_is_without_what_was_deleted_or_moved_aside() -> None:
    world = World()
    world.directory("t-0", ID)
    world.directory("t-1", None)
    for name in ("u-0", "u-0-stray", "v-0.id-delete", "__cluster_metadata-0", "w-x"):
        world.directory(name, OTHER_ID)
    world.directory("damaged-0", OTHER_ID)
    world.files.open(metadata_path("data/damaged-0")).write_at(0, b"\xff\xff")
    assert owners(world.files, "data") == {"data/t-0": ID, "data/u-0": OTHER_ID}


@pytest.mark.parametrize("is_clean", [True, False])
def test_two_directories_that_were_swapped_are_lost_until_they_are_put_back(is_clean: bool) -> None:
    """Their partitions would begin anew, empty, and give their offsets to other records."""
    world = World()
    world.metadata.topics["u"] = Topic("u", OTHER_ID, 1, {})
    world.directory("t-0", OTHER_ID, b"u's")
    world.directory("u-0", ID, b"t's")
    u = TopicPartition("u", 0)
    points = {T: 5, u: 7}
    assert world.settle(is_clean=is_clean, recovery_points=points) == []
    assert (points, world.stored) == ({T: 5, u: 7}, {})
    for _ in range(2):
        told = world.missing(points)
        assert list(told) == [T, u]
        assert told[T].startswith("data/t-0: is missing, but it was synced up to 5: ")
        assert "data/t-0-stray had its name, and says that it is of another topic" in told[T]
        assert "data/u-0-stray says that it is of this topic: rename it to t-0 if it is" in told[T]
        assert world.settle(is_clean=is_clean, recovery_points=points) == []
    world.files.rename("data/u-0-stray", "data/t-0")
    assert world.settle(is_clean=is_clean, recovery_points=points) == [T]
    assert list(world.missing(points)) == [u]


def test_after_a_clean_stop_what_is_known_is_of_no_deleted_topic() -> None:
    """A copy of a directory from before its topic was made anew: nobody knows the id that it says."""
    world = World()
    world.directory("t-0", OTHER_ID, b"past")
    points = {T: 5}
    assert world.settle(is_clean=True, recovery_points=points) == []
    assert list(world.missing(points)) == [T]


def test_with_a_journal_the_wrong_directory_is_told_before_anything_changes() -> None:
    """The journal goes when all is recovered, and may be all that has the partition's last records."""
    world = World()
    world.metadata.topics["u"] = Topic("u", OTHER_ID, 1, {})
    world.directory("t-0", OTHER_ID, b"t's, with u's mark")
    with pytest.raises(StorageError, match=r"data/t-0 is not of the topic t by its partition\.metadata, but t-0 was"):
        world.settle(journaled=((ID, 0),), recovery_points={T: 5})
    assert world.files.list("data") == ["t-0"]
    assert world.settle(journaled=((ID, 1),), recovery_points={T: 5}) == [], "the journal has nothing of it"
    assert world.files.list("data") == ["t-0-stray"]


@pytest.mark.parametrize("is_journaled", [True, False])
def test_a_file_in_the_place_of_a_directory_is_its_partitions_alone(is_journaled: bool) -> None:
    world = World()
    world.directory("t-1", ID, b"ours")
    world.files.open("data/t-0").write_at(0, b"?")
    points = {T: 5}
    if is_journaled:
        with pytest.raises(StorageError, match="data/t-0 is no directory that can be read: "):
            world.settle(journaled=((ID, 0),), recovery_points=points)
        return
    assert world.settle(recovery_points=points) == [TopicPartition("t", 1)]
    assert list(world.found.unreadable) == [T]
    assert points == {T: 5}


def test_a_deleted_one_that_is_a_file_is_removed() -> None:
    world = World()
    world.files.open(f"data/t-0.{ID.hex()}-delete").write_at(0, b"?")
    world.settle()
    assert world.files.list("data") == []
