"""A start whose metadata is older than its logs, as where an old copy was put back."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from oncelog import sync
from oncelog.testing import TestBroker


@pytest.mark.parametrize("is_clean", [True, False])
def test_metadata_that_is_older_than_the_logs_hands_out_no_producer_id_again(
    tmp_path: pathlib.Path, is_clean: bool
) -> None:
    """An old copy was put back: what new producers wrote was taken for what the first ones had, acknowledged and lost."""
    data, metadata = tmp_path / "data", tmp_path / "data" / "__cluster_metadata-0"

    def written(broker: TestBroker, producer_count: int) -> int:
        for _ in range(producer_count):
            with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                for number in range(5):
                    producer.send_and_wait("t", b"%d" % number, partition=0)
        with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            return admin.list_offsets({("t", 0): "latest"})["t", 0].offset

    with TestBroker(data_dir=data) as broker, sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({"t": 1})
    shutil.copytree(metadata, tmp_path / "copy")
    with TestBroker(data_dir=data) as broker:
        assert written(broker, 2) == 10
        servers = broker.bootstrap_servers
        with sync.Producer(bootstrap_servers=servers, transactional_id="i") as producer, producer.transaction():
            producer.send("other", b"x", partition=0)
    shutil.rmtree(metadata)
    shutil.copytree(tmp_path / "copy", metadata)
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    for expected in (15, 20):
        with TestBroker(data_dir=data) as broker:
            assert written(broker, 1) == expected
