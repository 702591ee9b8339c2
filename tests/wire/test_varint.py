import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import CorruptBatch
from tests.wire.worlds import INSTALLED, PLAIN, WORLDS

INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(world, number, encoded):
    out = bytearray()
    world.varint.write_varint(out, number)
    assert out.hex() == encoded
    assert world.varint.varint_bytes(number) == len(out)
    assert world.varint.read_varint(bytes(out), 0, len(out)) == (number, len(out))
    room = bytearray(12)
    assert world.varint.put_varint(room, 1, number) == 1 + len(out)
    assert room[1 : 1 + len(out)] == out


@settings(deadline=None)
@given(INT64)
def test_round_trip_and_both_worlds_agree(number):
    outs = []
    for world in WORLDS:
        out = bytearray()
        world.varint.write_varint(out, number)
        outs.append(bytes(out))
        assert world.varint.read_varint(bytes(out) + b"\x80", 0, len(out)) == (number, len(out))
        for cut in range(len(out)):
            with pytest.raises(CorruptBatch):
                world.varint.read_varint(bytes(out), 0, cut)
    assert outs[0] == outs[1]


@settings(deadline=None)
@given(st.binary(max_size=12))
def test_both_worlds_read_any_bytes_alike(data):
    answers = []
    for world in WORLDS:
        try:
            answers.append(world.varint.read_varint(data, 0, len(data)))
        except CorruptBatch as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("data", [b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00", b"\xff" * 20])
def test_numbers_beyond_64_bits_are_corrupt(world, data):
    with pytest.raises(CorruptBatch):
        world.varint.read_varint(data, 0, len(data))


@settings(deadline=None)
@given(INT64, INT64)
def test_sums_that_pass_64_bits_are_refused(start, delta):
    for world in (PLAIN, INSTALLED):
        total = start + delta
        if -(2**63) < total < 2**63:
            assert world.varint.add_delta(start, delta) == total
        elif total != -(2**63):
            with pytest.raises(CorruptBatch):
                world.varint.add_delta(start, delta)
        difference = delta - start
        if -(2**63) < difference < 2**63:
            assert world.varint.delta_between(start, delta) == difference
        elif difference != -(2**63):
            with pytest.raises(OverflowError):
                world.varint.delta_between(start, delta)


@settings(deadline=None)
@given(INT64, st.integers(1, 10))
def test_a_number_of_32_bits_has_five_bytes_at_most(number, size_bytes):
    """Java reads no longer one, so a record that has it could never be read there."""
    for world in WORLDS:
        out = bytearray()
        world.varint.write_varint(out, number)
        is_stretched = size_bytes > len(out)
        if is_stretched:
            out[-1] |= 0x80
            out += b"\x80" * (size_bytes - 1 - len(out)) + b"\0"
        assert world.varint.read_varint(bytes(out), 0, len(out)) == (number, len(out))
        if len(out) <= 5 and -(2**31) <= number < 2**31:
            assert world.varint.read_int32(bytes(out), 0, len(out)) == (number, len(out))
        else:
            with pytest.raises(CorruptBatch):
                world.varint.read_int32(bytes(out), 0, len(out))


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("place", ["length", "offset", "key", "value", "header count", "header key", "header value"])
def test_no_number_of_a_record_may_be_longer(world, place):
    """Neither on the way in nor on the way out."""

    def number(at: str, value: int) -> bytes:
        plain = bytes([2 * value])
        return bytes([plain[0] | 0x80, 0x80, 0x80, 0x80, 0x80, 0]) if at == place else plain

    body = b"\0\0" + number("offset", 0) + number("key", 1) + b"k" + number("value", 1) + b"v"
    body += number("header count", 1) + number("header key", 1) + b"h" + number("header value", 1) + b"w"
    section = number("length", len(body)) + body
    with pytest.raises(CorruptBatch):
        world.record_codec.check_records(section, 1, 0, False, 0, 0)
    with pytest.raises(CorruptBatch):
        world.record_codec.parse_records(section, 1, 0, 0, None)
