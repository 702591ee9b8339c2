"""The doors of this machine."""

from oncelog.host.host import real_host
from oncelog.host.randomness import random_uuid


def test_the_doors_work():
    host = real_host()
    assert host.clock.now_ms() > 1_600_000_000_000
    drawn = {random_uuid(host.random) for _ in range(100)}
    assert len(drawn) == 100
    assert all(each[6] >> 4 == 4 and each[8] >> 6 == 2 for each in drawn)
    assert 0 <= host.random.below(3) < 3
    assert 1 <= host.random.uniform(1, 2) <= 2
    directory = host.new_temporary_directory()
    assert host.files.exists(directory)
    host.files.remove_directory(directory)
