"""`make spark-cluster`: every documented way to bring oncelog to a cluster, on a standalone master and a worker of their own.

The cluster's Python has Spark and oncelog's dependencies, and no oncelog; what the driver has at a path of its own is hidden from
the processes of the worker, as if they were on another machine. Ways (docs/spark.md): installed everywhere, an archive of an
environment, `--py-files`, `addPyFile`; and that without any of them Spark says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import site
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from evidence.spark_cluster import daemons
from evidence.spark_cluster.daemons import SMALL_JVM, SPARK_HOME
from evidence.spark_cluster.job import COUNT
from evidence.world.committed import committed_values
from oncelog import sync
from oncelog.spark.java import prepare_java
from oncelog.testing import TestBroker

ROOT = pathlib.Path(__file__).parent.parent.parent
JOB_S = 300
NOT_FOUND = "DATA_SOURCE_NOT_FOUND"
HIDE = """\
import os, sys
if os.getcwd().startswith({work!r}):
    sys.path[:] = [each for each in sys.path if each not in {hidden!r}]
"""


@dataclass(frozen=True)
class Way:
    """How oncelog comes to the driver and to the workers."""

    name: str
    python: str
    driver_python: str
    arguments: tuple[str, ...] = ()
    registers: bool = False
    package: str = "-"
    expected_error: str = ""


def environment(folder: pathlib.Path, hidden: list[str], work: pathlib.Path) -> pathlib.Path:
    """A Python that has what ours has beside oncelog; its site-packages are given."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()))  # without oncelog's own .pth
    (packages / "sitecustomize.py").write_text(HIDE.format(work=str(work), hidden=hidden))
    return packages


def package(path: pathlib.Path) -> None:
    """oncelog as one archive of Python files: what the pure wheel holds."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for top in ("oncelog", "pyspark_oncelog"):
            for file in sorted((ROOT / "src" / top).rglob("*.py")):
                archive.write(file, file.relative_to(ROOT / "src").as_posix())


@contextlib.contextmanager
def cluster(folder: pathlib.Path, work: pathlib.Path) -> Iterator[str]:
    """A master and a worker; gives the master's address."""
    first = daemons.master(folder)
    try:
        address = daemons.address_in(first.start())
        with daemons.worker(folder, work, address):
            yield address
    finally:
        first.stop()


def run(way: Way, folder: pathlib.Path, master: str, broker: TestBroker) -> list[str]:
    """What is wrong with a way."""
    topic = way.name.replace(" ", "-")
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({topic: 2, f"{topic}-out": 2})
    surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    surroundings |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME)}
    surroundings |= {"PYSPARK_PYTHON": way.python, "PYSPARK_DRIVER_PYTHON": way.driver_python}
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": SMALL_JVM,
        "spark.executor.extraJavaOptions": SMALL_JVM,
    }
    command: list[str] = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, *way.arguments]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(pathlib.Path(__file__).parent / "job.py"), broker.bootstrap_servers, topic]
    command += ["registers" if way.registers else "-", way.package]
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=JOB_S)
    steps = [json.loads(line[len("STEP ") :]) for line in done.stdout.splitlines() if line.startswith("STEP ")]
    if len(steps) != 3:
        return [f"the job ended early: {(done.stdout + done.stderr)[-1500:]}"]
    if way.expected_error:
        return [f"{each['step']}: {each}" for each in steps if way.expected_error not in each.get("error", "")]
    wrong = [f"{each['step']}: {each}" for each in steps if each.get("rows") != COUNT]
    found = sorted(int(value) for value in committed_values(broker.bootstrap_servers, f"{topic}-out"))
    return wrong if found == list(range(COUNT)) else [*wrong, f"the stream's topic has {found}"]


def ways(folder: pathlib.Path, work: pathlib.Path) -> list[Way]:
    """All of them, with what they need made."""
    archive = folder / "oncelog.zip"
    package(archive)
    hidden = [str(archive), str(ROOT / "src")]
    environment(folder / "bare", hidden, work)
    packed = environment(folder / "environment", hidden, work)
    with zipfile.ZipFile(archive) as content:
        content.extractall(packed)
    tarball = folder / "environment.tar.gz"
    subprocess.run(["tar", "-czf", tarball, "-C", folder / "environment", "."], check=True)
    bare, here = str(folder / "bare" / "bin" / "python"), "./environment/bin/python"
    installed = str(folder / "environment" / "bin" / "python")
    return [
        Way("nowhere", bare, bare, expected_error=NOT_FOUND),
        Way("installed everywhere", installed, installed),
        Way("archive", here, here, ("--archives", f"{tarball}#environment")),
        Way("py-files", bare, bare, ("--py-files", str(archive)), registers=True),
        Way("addPyFile", bare, bare, registers=True, package=str(archive)),
    ]


def main() -> int:
    prepare_java()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="oncelog-spark-cluster-") as name, TestBroker() as broker:
        folder = pathlib.Path(name)
        work = folder / "work"
        work.mkdir()
        with cluster(folder, work) as master:
            for way in ways(folder, work):
                wrong = run(way, folder, master, broker)
                failed += bool(wrong)
                said = "; ".join(wrong) or (f"refused with {way.expected_error}" if way.expected_error else "works")
                print(f"spark-cluster: {way.name}: {said}", flush=True)
    print(f"spark-cluster: {'all as documented' if not failed else f'{failed} ways are not as documented'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
