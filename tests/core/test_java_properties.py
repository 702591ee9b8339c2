"""Lines of a properties file, as Java reads them."""

from __future__ import annotations

from oncelog.core.java_properties import Property, each_property


def test_escapes_separators_and_continuations() -> None:
    text = "\ufeff# c\r\na.b : 1\r\nrule=^CN=(.*?)\\\\.x$\\\n   ,DEFAULT\nalone\nkey\\ x=\\u00e9\\:\n"
    assert list(each_property(text)) == [
        Property(2, "a.b", "1", has_separator=True),
        Property(3, "rule", "^CN=(.*?)\\.x$,DEFAULT", has_separator=True),
        Property(5, "alone", "", has_separator=False),
        Property(6, "key x", "é:", has_separator=True),
    ]


def test_a_value_that_goes_on_to_the_end_of_the_file() -> None:
    assert list(each_property("a=b\\")) == [Property(1, "a", "b", has_separator=True)]
