"""The hot modules twice: compiled, where they are, and as the plain Python that the very same source is."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType, SimpleNamespace

import oncelog.wire

_HOME = pathlib.Path(oncelog.wire.__file__).parent
# In the order of their imports: each finds the plain ones before it.
_MODULES = ("varint", "record_codec", "arrow_codec", "record_batch", "produce_validation", "arrow_records")


def load_plain() -> SimpleNamespace:
    """Fresh copies of the modules from their `.py` files, importing one another and nothing compiled."""
    names = [f"oncelog.wire.{name}" for name in _MODULES]
    saved = {name: sys.modules.get(name) for name in names}
    loaded: dict[str, ModuleType] = {}
    try:
        for short, name in zip(_MODULES, names, strict=True):
            spec = importlib.util.spec_from_file_location(name, _HOME / f"{short}.py")
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
    modules = {name: importlib.import_module(f"oncelog.wire.{name}") for name in _MODULES}
    return SimpleNamespace(name="installed", **modules)


PLAIN = load_plain()
INSTALLED = load_installed()
WORLDS = [PLAIN, INSTALLED]
