import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.wire.crc32c import crc32c, crc32c_python, implementation


@pytest.mark.parametrize("compute", [crc32c, crc32c_python])
def test_known_values(compute):
    """RFC 3720 B.4."""
    assert compute(b"") == 0
    assert compute(b"123456789") == 0xE3069283
    assert compute(bytes(32)) == 0x8A9136AA
    assert compute(b"\xff" * 32) == 0x62A8AB43
    assert compute(bytes(range(32))) == 0x46DD794E


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, 300))
def test_in_two_parts_it_is_the_same_and_the_fallback_agrees(data, cut):
    whole = crc32c(data)
    assert crc32c(data[cut:], crc32c(data[:cut])) == whole
    assert crc32c_python(data) == whole
    assert crc32c_python(data[cut:], crc32c_python(data[:cut])) == whole


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_every_kind_of_bytes_is_taken(kind):
    assert crc32c(kind(b"123456789")) == 0xE3069283


def test_the_implementation_is_named():
    assert implementation() in ("google-crc32c", "crc32c", "python")
