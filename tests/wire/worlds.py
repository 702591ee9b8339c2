"""The hot modules twice: compiled, where they are, and as the plain Python that the very same source is."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType, SimpleNamespace

import oncelog

_HOME = pathlib.Path(oncelog.__file__).parent.parent
# In the order of their imports: each finds the plain ones before it.
_MODULES = {
    "varint": "oncelog.wire.varint",
    "crc32c_in_place": "oncelog.wire.crc32c_in_place",
    "murmur2": "oncelog.wire.murmur2",
    "record_codec": "oncelog.wire.record_codec",
    "arrow_codec": "oncelog.wire.arrow_codec",
    "newest_values": "oncelog.wire.newest_values",
    "record_batch": "oncelog.wire.record_batch",
    "batch_checks": "oncelog.core.leader.batch_checks",
    "arrow_records": "oncelog.wire.arrow_records",
    "record_buffer": "oncelog.core.producer.record_buffer",
    "batch": "oncelog.core.producer.batch",
    "delivery": "oncelog.client.delivery",
    "appending": "oncelog.client.producer.appending",
    "producer": "oncelog.client.producer.producer",
}


def load_plain() -> SimpleNamespace:
    """Fresh copies of the modules from their `.py` files, importing one another and nothing compiled."""
    saved = {name: sys.modules.get(name) for name in _MODULES.values()}
    loaded: dict[str, ModuleType] = {}
    try:
        for short, name in _MODULES.items():
            spec = importlib.util.spec_from_file_location(name, _HOME / f"{name.replace('.', '/')}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            loaded[short] = module
    finally:
        for name, module in saved.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return SimpleNamespace(name="plain", **loaded)


def load_installed() -> SimpleNamespace:
    """The modules as everybody imports them."""
    modules = {short: importlib.import_module(name) for short, name in _MODULES.items()}
    return SimpleNamespace(name="installed", **modules)


INSTALLED = load_installed()  # first: what they import in turn is then there, and is not made of plain modules
PLAIN = load_plain()
WORLDS = [PLAIN, INSTALLED]
