"""Spark on a transactional log: format `oncelog` (source, exactly-once sink), dual writes, segments as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.spark.data_source import DefaultSource as DefaultSource
    from oncelog.spark.database_sink import dual_write as dual_write
    from oncelog.spark.progress import ProgressListener as ProgressListener
    from oncelog.spark.recovery import recover as recover
    from oncelog.spark.registration import activate as activate
    from oncelog.spark.registration import register as register
    from oncelog.spark.segment_tables import segments as segments

__all__ = ["DefaultSource", "ProgressListener", "activate", "dual_write", "recover", "register", "segments"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from oncelog.spark.data_source import DefaultSource

        return DefaultSource
    if name == "dual_write":
        from oncelog.spark.database_sink import dual_write

        return dual_write
    if name == "ProgressListener":
        from oncelog.spark.progress import ProgressListener

        return ProgressListener
    if name == "recover":
        from oncelog.spark.recovery import recover

        return recover
    if name == "segments":
        from oncelog.spark.segment_tables import segments

        return segments
    if name in ("activate", "register"):
        from oncelog.spark import registration

        return getattr(registration, name)
    raise AttributeError(f"module 'oncelog.spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    """For who completes names: those that load on first use, too."""
    return sorted({*globals(), *__all__})
