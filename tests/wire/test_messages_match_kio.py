"""Our bytes against kio's, an independent implementation: it must read what we write and write the same again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

import pytest
from evidence.world.message_values import MESSAGE_VERSIONS, message_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog.wire.api import APIS
from oncelog.wire.schema import Struct, decode_message, encode_message

kio_index = pytest.importorskip("kio.index")
kio_serial = pytest.importorskip("kio.serial")


@cache
def kio_codec(key: int, is_request: bool, version: int) -> tuple[Callable[..., Any], Callable[..., None]] | None:
    """kio's reader and writer of a message and version, None where it has none."""
    load = kio_index.load_request_schema if is_request else kio_index.load_response_schema
    try:
        theirs = load(key, version)
    except (kio_index.UnknownAPIKey, kio_index.UnknownEntity):
        return None
    return kio_serial.entity_reader(theirs), kio_serial.entity_writer(theirs)


def codec_of(cls: type[Struct], version: int) -> tuple[Callable[..., Any], Callable[..., None]] | None:
    return kio_codec(cls.KEY, cls is APIS[cls.KEY].request, version)


def same_values(ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """Fields that both call the same and hold as plain numbers, text or bytes."""
    for name, value in vars(ours).items():
        other = getattr(theirs, name, None)
        if isinstance(value, Struct) and other is not None:
            yield from same_values(value, other)
        elif isinstance(value, list) and other is not None:
            for item, their_item in zip(value, other, strict=True):
                if isinstance(item, Struct):
                    yield from same_values(item, their_item)
        elif isinstance(value, int | str | bytes) and type(other) in (int, str, bytes, bool):
            yield name, value, other


def compare(cls: type[Struct], version: int, random: Random) -> None:
    codec = codec_of(cls, version)
    message = message_of(cls, version, random)
    data = encode_message(message, version)
    assert decode_message(cls, version, data) == message
    if codec is None:
        return
    read, write = codec
    theirs, size_bytes = read(data, 0)
    assert size_bytes == len(data)
    buffer = io.BytesIO()
    write(buffer, theirs)
    assert buffer.getvalue() == data
    for name, value, other in same_values(message, theirs):
        assert value == other, name


def test_kio_has_every_message_and_version() -> None:
    missing = {(cls.__name__, version) for cls, version in MESSAGE_VERSIONS if codec_of(cls, version) is None}
    assert missing == set()


@pytest.mark.parametrize("key", APIS, ids=lambda key: APIS[key].name)
def test_bytes_are_kios_in_every_version(key: int) -> None:
    for cls, version in MESSAGE_VERSIONS:
        if key == cls.KEY:
            for seed in range(3):
                compare(cls, version, Random(seed))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.sampled_from(MESSAGE_VERSIONS), st.randoms(use_true_random=False))
def test_bytes_are_kios_for_any_value(message: tuple[type[Struct], int], random: Random) -> None:
    compare(*message, random)
