"""The directories that `evidence.scale.past` writes are what a broker would have left."""

from __future__ import annotations

from evidence.scale.past import FEW, PARTITION_COUNT, fill, size_of_logs
from oncelog.core.leader.partition import Partition, PartitionConfig
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.host.files import RealFiles
from oncelog.log.checkpoint_files import create_partition_directory
from oncelog.log.config import LogConfig
from oncelog.log.newest_in_log import newest_in_log
from oncelog.log.recovery import recover
from oncelog.types import TopicPartition
from oncelog.wire.log_records import consumer_offsets, transaction_state


def read(data, topic):
    """How many batches the topic has, and its newest keys and values."""
    batch_count, newest = 0, {}
    for folder in data.glob(f"{topic}-*"):
        log = recover(RealFiles(), str(folder), LogConfig(), Partition(PartitionConfig()), sync=False).log
        batch_count += log.log_end_offset
        for part in newest_in_log(log):
            assert isinstance(part, dict)
            newest |= part
    return batch_count, newest


def test_it_writes_what_lives_and_what_was(tmp_path):
    for topic in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC):
        create_partition_directory(RealFiles(), str(tmp_path), TopicPartition(topic, 0), bytes(16))
    assert fill(tmp_path, ids=20, transactions=4 * FEW, commits=5 * FEW) == 20 + FEW
    batch_count, newest = read(tmp_path, TRANSACTION_STATE_TOPIC)
    assert batch_count == 20 + 3 * 4 * FEW
    records = [transaction_state.record_from_key_value(*each) for each in newest.items()]
    assert {each.transactional_id for each in records} >= {"live-0", "live-19", "busy-0", "busy-7"}
    batch_count, newest = read(tmp_path, CONSUMER_OFFSETS_TOPIC)
    assert batch_count == 5 * FEW
    assert {consumer_offsets.record_from_key_value(*each).group_id for each in newest.items()} == {
        f"group-{index}" for index in range(FEW)
    }
    assert size_of_logs(tmp_path) > 100 * (20 + 3 * 4 * FEW + 5 * FEW)
    assert len(list(tmp_path.glob(f"{TRANSACTION_STATE_TOPIC}-*"))) <= PARTITION_COUNT
