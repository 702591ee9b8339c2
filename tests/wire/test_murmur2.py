"""murmur2 equals Java's, compiled and plain, over a whole key and over a part of a column."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.worlds import PLAIN, WORLDS

JAVA = {  # org.apache.kafka.common.utils.Utils.murmur2, signed
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
}


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize(("key", "signed"), JAVA.items())
def test_it_is_javas(world, key, signed):
    assert world.murmur2.murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=50), st.binary(max_size=5), st.binary(max_size=5))
def test_every_world_and_every_place(key, before, after):
    found = {world.murmur2.murmur2(key) for world in WORLDS}
    assert found == {PLAIN.murmur2.hash_of(before + key + after, len(before), len(key))}
