"""`oncelog serve`: a broker as a process of its own.

stdout has one line, `ready HOST:PORT node=1 cluster=ID`, once requests are accepted; logs go to stderr, a line each.
SIGTERM, SIGINT or SIGHUP stops gracefully; a second one cuts that short, if it is Ctrl-C or comes more than a second later:
the next start recovers.
Before it is ready, while it recovers, the first one ends it at once, with the signal's status: the next start recovers again.
What a person got wrong is one line and exit status 2.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid, is_secret_key, properties_from
from oncelog.broker.config.configuration import Configuration
from oncelog.broker.config.listeners import listeners_of
from oncelog.broker.processes import ALONE, Processes
from oncelog.broker.sharing_out import share_out
from oncelog.broker.warm_up import warm_up
from oncelog.cli.config_references import with_references
from oncelog.cli.signals import (
    CUT_SHORT,
    Signalled,
    end_at_once,
    hear_in_loop,
    hear_only_interrupts,
    line_of,
    pass_over_repeats,
    status_of,
)
from oncelog.cli.standard_streams import stand_no_longer_than_told
from oncelog.core.access.listeners import ListenerInvalid, named_address
from oncelog.core.config_references import ReferenceInvalid
from oncelog.core.processes.process_plan import PROCESS_COUNT_MAX, process_plans, text_of
from oncelog.errors import DamagedLog, StorageError
from oncelog.host.free_ports import ports_in_a_row
from oncelog.host.host import real_host
from oncelog.host.limits import raise_open_files_limit
from oncelog.host.memory import keep_freed_memory
from oncelog.host.network import NetworkFailed
from oncelog.host.parent import end_with_parent

DEFAULT_DATA_DIR = "./oncelog-data"
DEFAULT_LISTEN = "127.0.0.1:9092"


def serve_main(
    *,
    data_dir: str | None = None,
    listen: Sequence[str] = (),
    config_file: str | None = None,
    config: Sequence[str] = (),
    insecure: bool = False,
    ephemeral: bool = False,
    log_level: str = "info",
    processes: int | None = None,
    process: str = "",
    sockets: str = "",
    parent: int = 0,
) -> int:
    """Serve until a signal comes; the exit status. `config` holds "key=value" texts that win over `config_file`.

    `process` is "INDEX/COUNT" in each of the processes that `processes` > 1 starts, `sockets` where they meet, and `parent` the
    process id of who starts them.
    """
    own = _process_of(process, sockets, parent)
    _log_to_stderr(log_level, "" if own.count == 1 else f" [{own.index}]")
    raise_open_files_limit()
    try:
        for option, named in (("--data-dir", data_dir), ("--config", config_file)):
            if named is not None and not named.strip():
                raise ConfigInvalid(f"{option} names nothing")
        values = _config_values(config_file, config)
        if insecure:
            values["oncelog.insecure.listeners"] = "true"
        named = data_dir or next((str(values[key]) for key in ("log.dirs", "log.dir") if values.get(key)), None)
        if ephemeral and named:
            raise ConfigInvalid(f"--ephemeral is a temporary directory: {named} was named as well")
        directory = None if ephemeral else data_dir
        if directory is None and not ephemeral and not {"log.dir", "log.dirs"} & values.keys():
            directory = DEFAULT_DATA_DIR
        first = _first_of(named) if directory is None and named else None  # as the broker takes of log.dirs
        if not process:
            if processes is not None:  # before partitions move for it
                _check(values, listen or (DEFAULT_LISTEN,), processes)
            processes = _process_count(processes, directory or first or "")
        if processes is not None and processes > 1:
            if insecure:
                config = (*config, "oncelog.insecure.listeners=true")
            options = _options_of(config_file, config, log_level)
            return _serve_processes(processes, directory or first, listen or (DEFAULT_LISTEN,), values, options)
        broker = Broker(directory, values, listen=listen or (DEFAULT_LISTEN,), processes=own)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(broker, own.sockets, parent))
    except (ConfigInvalid, NetworkFailed, StorageError, DamagedLog) as error:
        from oncelog.cli.refused_by_disk import way_out

        out = way_out(error, "start again, then delete topics or records")
        return _usage_error(f"{error}: {out}" if out else str(error))


def _first_of(log_dirs: str) -> str:
    """The one directory that is used. Raises ConfigInvalid where several processes once took all of the text for its name."""
    first = log_dirs.split(",")[0]
    if first != log_dirs and os.path.isdir(log_dirs):
        raise ConfigInvalid(
            f"{log_dirs!r} is a directory: an earlier oncelog took log.dirs for its name. Name it with --data-dir, or move its "
            f"content to {first}"
        )
    return first


def _process_of(process: str, sockets: str, parent: int) -> Processes:
    if not process:
        return ALONE
    end_with_parent(parent)
    index, _, count = process.partition("/")
    return Processes(int(index), int(count), sockets)


def _process_count(asked: int | None, directory: str) -> int:
    if asked is not None and not 1 <= asked <= PROCESS_COUNT_MAX:
        raise ConfigInvalid(f"--processes {asked}: from 1 to {PROCESS_COUNT_MAX}")
    return share_out(real_host(), directory, asked) if directory else asked or 1


def _options_of(config_file: str | None, config: Sequence[str], log_level: str) -> list[str]:
    named = ["--config", config_file] if config_file is not None else []
    return ["--log-level", log_level, *named, *(word for each in config for word in ("-c", each))]


def _serve_processes(
    count: int, directory: str | None, listen: Sequence[str], values: Mapping[str, object], options: Sequence[str]
) -> int:
    from oncelog.cli.commands.serve_processes import run_processes

    _check(values, listen, count)
    texts = {key: str(value) for key, value in values.items()}
    import tempfile  # of the standard library, and slow to load: a broker of one process needs none of it

    with tempfile.TemporaryDirectory(prefix="oncelog-") if directory is None else nullcontext(directory) as data:
        plans = process_plans(count, data, _with_ports(listen, count), texts)
        return asyncio.run(run_processes(plans, options, texts.get("metrics.listen", "")))


def _check(values: Mapping[str, object], listen: Sequence[str], count: int) -> None:
    """What is wrong with the configuration is said once, before there are several processes."""
    listeners_of(Configuration(values).static, listen)
    if 1 < count <= PROCESS_COUNT_MAX:
        try:
            named = [each for each in listen if named_address(each).port]
            process_plans(count, "", named, {key: str(value) for key, value in values.items()})
        except ListenerInvalid as error:
            raise ConfigInvalid(str(error)) from None


def _with_ports(listen: Sequence[str], count: int) -> list[str]:
    """With ports in a row for the processes where a free one was asked for."""
    found = [named_address(each) for each in listen]
    try:
        return [text_of(each if each.port else replace(each, port=ports_in_a_row(each.host, count))) for each in found]
    except OSError as error:
        raise NetworkFailed(str(error)) from error


# Objects made before a young collection, young ones before an older, older ones before a whole. Under a crowd of a thousand
# logins a second Python's own numbers made pauses of 3 to 8 ms, one in a hundred answers; these make 0.1 to 0.5 ms.
COLLECT_AFTER = (300, 3, 50)
COLLECT_AFTER_AT_START = (100_000, 20, 100)  # nobody waits for an answer yet, and nearly all of what is made stays

KEEP_MEMORY_AFTER_S = 1.0  # it loads ctypes, for 6 ms that the first client should not wait


async def _serve(broker: Broker, sockets: str, parent: int) -> int:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()
    task = asyncio.current_task()
    assert task is not None

    def stop(number: int) -> None:
        if stopped.done():
            # The system says for each thread of the first process that it is gone; that kills who is to end at once.
            if not sockets:
                end_at_once(number, detail="" if task.cancelling() else CUT_SHORT)
            return
        stopped.set_result(number)
        if not broker.is_ready and not broker.is_clean_start:
            task.cancel()  # a recovery takes long; after a clean stop it is ready at once, and stops as cleanly
        else:
            pass_over_repeats(loop, stop)

    hear_in_loop(loop, stop)
    gc.set_threshold(*COLLECT_AFTER_AT_START)
    try:
        await broker.start()
    except asyncio.CancelledError:
        if not stopped.done():
            raise
        ended = Signalled(stopped.result(), "it was not ready yet")
        print(line_of(ended), file=sys.stderr)
        return status_of(ended)
    gc.freeze()  # what was loaded stays: it need not be looked at in every collection
    gc.set_threshold(*COLLECT_AFTER)
    try:
        print(f"ready {broker.advertised_address} node={broker.node_id} cluster={broker.cluster_id}", flush=True)
    except OSError as error:
        print(f"oncelog serve: stopped, since nobody can be told that it is ready: {error.strerror}", file=sys.stderr)
        await broker.stop()
        return 1
    warm_up(loop, broker.node)
    loop.call_later(KEEP_MEMORY_AFTER_S, keep_freed_memory)
    assert broker.failure is not None
    await asyncio.wait((stopped, broker.failure), return_when=asyncio.FIRST_COMPLETED)
    await broker.stop()
    if sockets and os.getppid() != parent:
        import shutil

        shutil.rmtree(sockets, ignore_errors=True)  # who made the folder was killed
    hear_only_interrupts()
    return 0 if stopped.done() else 1


def _config_values(config_file: str | None, pairs: Sequence[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    if config_file is not None:
        try:
            with open(config_file, encoding="utf-8") as file:
                values |= properties_from(file.read())
                others = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & stat.S_IRWXO
            if others and any(map(is_secret_key, values)):
                raise ConfigInvalid(f"it holds passwords, and others can read it: chmod 600 {config_file}")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigInvalid(f"{config_file}: {getattr(error, 'strerror', None) or error}") from error
        except ConfigInvalid as error:
            raise ConfigInvalid(f"{config_file}: {error}") from error
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigInvalid(f"-c {pair!r}: expected KEY=VALUE")
        if is_secret_key(key.strip()):
            raise ConfigInvalid(
                f"-c {key.strip()}: whoever lists processes reads it there: write it into a file, --config FILE"
            )
        values[key.strip()] = value.strip()
    try:
        return dict(with_references({key: str(value) for key, value in values.items()}))
    except ReferenceInvalid as error:
        raise ConfigInvalid(str(error)) from None


class _OneLine(logging.Formatter):
    """A record is one line whatever it holds; a traceback follows on lines of its own, bounded."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        head, _, rest = text.partition("\nTraceback ")
        line = head.replace("\r", "\\r").replace("\n", "\\n")[:2000]
        return f"{line}\nTraceback {rest[-4000:]}" if rest else line


def _log_to_stderr(level: str, process: str = "") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(f"%(asctime)s %(levelname)s{process} %(name)s %(message)s"))
    root = logging.getLogger("oncelog")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: type[asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _usage_error(message: str) -> int:
    print(f"oncelog serve: {message}".replace("\n", " "), file=sys.stderr)
    return 2


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m oncelog.cli.commands.serve`."""
    import argparse

    parser = argparse.ArgumentParser(prog="oncelog serve", description="Run a broker.")
    parser.add_argument("--data-dir", metavar="DIR")
    parser.add_argument("--listen", metavar="HOST:PORT", action="append", default=[])
    parser.add_argument("--config", metavar="server.properties", dest="config_file")
    parser.add_argument("-c", metavar="KEY=VALUE", dest="config", action="append", default=[])
    parser.add_argument("--insecure", action="store_true", default=os.environ.get("ONCELOG_INSECURE") == "1")
    parser.add_argument("--ephemeral", action="store_true", help="a temporary directory, removed at exit")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--processes", type=int)
    parser.add_argument("--process", default="", help=argparse.SUPPRESS)
    parser.add_argument("--sockets", default="", help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    return serve_main(**vars(options))


if __name__ == "__main__":
    stand_no_longer_than_told()
    sys.exit(main())
