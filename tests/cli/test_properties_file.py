"""Properties files as Java reads them."""

from __future__ import annotations

import pytest

from oncelog.cli.properties_file import properties_from_text, property_from_text
from oncelog.errors import ConfigurationError


def test_forms_of_a_line() -> None:
    text = (
        "# comment\n! another\n\nbootstrap.servers=h:1,h:2\n  acks : all \nclient.id\tme\n"
        'sasl.jaas.config=Module required \\\n    user="x";\nempty=\nunicode=\\u00e9\\tx\na\\=b=c\nlast=1\nlast=2\n'
    )
    assert properties_from_text(text) == {
        "bootstrap.servers": "h:1,h:2",
        "acks": "all",
        "client.id": "me",
        "sasl.jaas.config": 'Module required user="x";',
        "empty": "",
        "unicode": "é\tx",
        "a=b": "c",
        "last": "2",
    }


def test_a_pair_on_the_command_line() -> None:
    assert property_from_text("a.b=c=d") == ("a.b", "c=d")
    with pytest.raises(ConfigurationError, match="key=value"):
        property_from_text("a.b")
