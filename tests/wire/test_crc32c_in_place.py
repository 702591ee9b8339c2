"""The checksum where the data lies: the same number as everybody's, and no crash for what is no buffer."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.hot_paths import compiled
from oncelog.wire import crc32c_in_place
from oncelog.wire.crc32c import crc32c_python

library = sys.modules.get("google_crc32c._crc32c")
needs_function = pytest.mark.skipif(
    library is None or not compiled()["crc32c_in_place"], reason="google-crc32c's C part or a compiler is missing here"
)


@needs_function
@given(st.binary(max_size=200), st.integers(0, 200), st.sampled_from((bytes, bytearray, memoryview)))
def test_any_buffer_from_anywhere(data, start, kind):
    crc = crc32c_python(data[:start])
    for lies in (kind(data)[start:], memoryview(kind(data))[start:]):
        assert crc32c_in_place.extend(lies, crc) == crc32c_python(data)


@needs_function
@pytest.mark.parametrize("data", ["text", None, 7, memoryview(b"abcd")[::2]])
def test_what_is_no_buffer_is_refused(data):
    with pytest.raises((TypeError, BufferError)):
        crc32c_in_place.extend(data)


@needs_function
@pytest.mark.parametrize("crc", [-1, 1 << 32, "1"])
def test_what_is_no_checksum_is_refused(crc):
    with pytest.raises((TypeError, OverflowError)):
        crc32c_in_place.extend(b"x", crc)


def test_a_module_without_the_function_is_not_used(tmp_path):
    assert not crc32c_in_place.find(str(tmp_path / "nothing.so"))
    if compiled()["crc32c_in_place"] and library is not None:
        assert crc32c_in_place.find(str(library.__file__)), "and the one that was found stays"


@needs_function
def test_it_is_the_one_in_use():
    from oncelog.wire.crc32c import crc32c

    assert crc32c is crc32c_in_place.extend
