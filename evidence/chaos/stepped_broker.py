"""`python -m evidence.chaos.stepped_broker OFFSET_FILE serve ...`: `oncelog serve` whose wall clock a test can step.

The file holds eight bytes, the milliseconds to add, and is mapped: a step takes effect at once. Monotonic time is the
machine's: no clock step moves that.
"""

from __future__ import annotations

import mmap
import pathlib
import struct
import sys

from oncelog.cli.commands.serve import main as serve
from oncelog.host import host
from oncelog.host.clock import RealClock

OFFSET = struct.Struct("=q")


class SteppedClock(RealClock):
    """The machine's clock, and an offset."""

    def __init__(self, path: pathlib.Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), OFFSET.size)

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, as this broker believes."""
        return super().now_ms() + int(OFFSET.unpack_from(self._map)[0])


def step_to(path: pathlib.Path, offset_ms: int) -> None:
    """The clocks that look at `path` are off by this from now on."""
    if not path.exists():
        path.write_bytes(OFFSET.pack(offset_ms))
        return
    with path.open("r+b") as file, mmap.mmap(file.fileno(), OFFSET.size) as mapped:
        OFFSET.pack_into(mapped, 0, offset_ms)  # one aligned store: never half of it


def main() -> int:
    path, verb, *arguments = sys.argv[1:]
    assert verb == "serve"
    clock = SteppedClock(pathlib.Path(path))
    host.RealClock = lambda: clock  # type: ignore[assignment,misc]
    return serve(arguments)


if __name__ == "__main__":
    sys.exit(main())
