"""docs/client-options.md has every option, and no other."""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib

from oncelog.client.config import AdminConfig, ConsumerConfig, ProducerConfig

TOOL = pathlib.Path(__file__).parent.parent / "tools" / "client_options_page.py"
spec = importlib.util.spec_from_file_location("client_options_page", TOOL)
assert spec is not None
assert spec.loader is not None
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "python tools/client_options_page.py"


def test_every_option_has_a_meaning_and_no_meaning_lacks_its_option() -> None:
    names = {f.name for config in (ProducerConfig, ConsumerConfig, AdminConfig) for f in dataclasses.fields(config)}
    assert set(page.MEANINGS) == names
    assert names >= page.OURS
