"""Whole numbers as a command line takes them: ASCII digits, and no more of them than any number of Kafka's has.

`str.isdigit` is no test: it takes `²`, which `int` does not, and `int` refuses what has thousands of digits.
"""

from __future__ import annotations

import re

INT64_MAX = 2**63 - 1
_NUMBER = re.compile(r"[0-9]{1,19}")


def is_number(text: str) -> bool:
    """Whether it is a whole number from 0 to 2^63 - 1."""
    return _NUMBER.fullmatch(text) is not None and int(text) <= INT64_MAX
