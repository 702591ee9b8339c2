"""Bytes and messages: schemas, frames, record batches. No I/O, no state of the server."""

from __future__ import annotations

import importlib

HOT_MODULES = ("varint", "record_codec", "arrow_codec")


def compiled() -> dict[str, bool]:
    """Which hot modules run as compiled code here; the others run the same source as plain Python, much slower."""
    modules = {name: importlib.import_module(f"oncelog.wire.{name}") for name in HOT_MODULES}
    return {name: not str(module.__file__).endswith(".py") for name, module in modules.items()}
