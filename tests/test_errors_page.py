"""docs/errors.md has every error, and each has a cause and a cure."""

from __future__ import annotations

import pytest
from tools import errors_page as page

from oncelog import error_guide
from oncelog.errors import KafkaError


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "python -m tools.errors_page"


def test_every_error_has_advice_and_no_advice_lacks_its_error() -> None:
    own = [each.__name__ for each in page.classes() if not issubclass(each, KafkaError)]
    kafka = [each.__name__ for each in page.classes() if issubclass(each, KafkaError)]
    assert set(error_guide.OWN) == set(own)
    assert set(error_guide.KAFKA) == set(kafka)


@pytest.mark.parametrize("name", error_guide.ADVICE)
def test_advice_is_whole_sentences_that_fit_a_table(name: str) -> None:
    for text in error_guide.ADVICE[name]:
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")
        assert "|" not in text
        assert "\n" not in text


def test_the_flags_are_those_of_the_classes() -> None:
    fenced = next(line for line in page.render().splitlines() if line.startswith("| `ProducerFenced` |"))
    head, _, rest = page.render().partition("## Fatal")
    assert fenced in rest.partition("## Abortable")[0]
    assert "`ProducerFenced`" not in head
