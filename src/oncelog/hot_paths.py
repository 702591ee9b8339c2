"""The modules that are compiled where a C compiler is there; the same source runs as plain Python else, slower."""

from __future__ import annotations

import importlib

HOT_MODULES = (
    "wire/varint",
    "wire/crc32c_in_place",
    "wire/murmur2",
    "wire/record_codec",
    "wire/arrow_codec",
    "wire/newest_values",
    "core/producer/record_buffer",
    "client/delivery",
    "client/producer/appending",
)
"""setup.py reads this list."""


def compiled() -> dict[str, bool]:
    """Which hot modules run as compiled code here, by their last name."""
    modules = {name: importlib.import_module(f"oncelog.{name.replace('/', '.')}") for name in HOT_MODULES}
    return {name.rpartition("/")[2]: not str(module.__file__).endswith(".py") for name, module in modules.items()}
