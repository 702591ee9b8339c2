"""docs/client-options.md has every option, and no other."""

from __future__ import annotations

import dataclasses

from tools import client_options_page as page

from oncelog.client.config import AdminConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "python tools/client_options_page.py"


def test_every_option_has_a_meaning_and_no_meaning_lacks_its_option() -> None:
    configs = (ProducerConfig, ConsumerConfig, ShareConsumerConfig, AdminConfig)
    names = {f.name for config in configs for f in dataclasses.fields(config)}
    assert set(page.MEANINGS) == names
    assert names >= page.OURS
