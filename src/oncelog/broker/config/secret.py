"""A value of the configuration that is shown nowhere: not in logs, tracebacks or `repr`, not by DescribeConfigs."""

from __future__ import annotations

from dataclasses import field

from oncelog.lazy_dataclass import dataclass

HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """`text` is what was given."""

    text: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return HIDDEN if self.text else ""

    def __bool__(self) -> bool:
        return bool(self.text)
