"""`make steady RUNS=20 BESIDE=3`: the whole suite again and again, several at a time, so that each is the others' load.

A line for each run that ends: how, after how long, and the load average meanwhile. What a failed run printed is kept
(build/steady). Exit status 0: all passed; 1: one did not; 130: interrupted, and then nothing is left running.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parent.parent
OUTPUTS = ROOT / "build" / "steady"
LOOK_EVERY_S = 1.0


class Run:
    """One `make test`, its output in a file."""

    def __init__(self, number: int) -> None:
        self.number, self.output, self.loads = number, OUTPUTS / f"{number}.txt", [os.getloadavg()[0]]
        self.began_s = time.monotonic()
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [shutil.which("make") or "make", "test"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        """Asked each second; notes the load."""
        self.loads.append(os.getloadavg()[0])
        return self.process.poll() is not None

    def verdict(self) -> str:
        """In one line."""
        text = self.output.read_text(errors="replace")
        lines = [line for line in text.splitlines() if not line.startswith("make")]
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        end = failed[0] if failed else lines[-1] if lines else "it printed nothing"
        took_s = time.monotonic() - self.began_s
        load = sum(self.loads) / len(self.loads)
        how = "passed" if self.process.returncode == 0 else f"FAILED ({self.process.returncode})"
        return f"run {self.number}: {how} in {took_s:.0f} s, load {load:.1f} (most {max(self.loads):.1f}): {end.strip('= ')}"

    def end(self) -> None:
        """Everything that it started, too."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


def steady(run_count: int, beside_count: int) -> int:
    """How many runs failed."""
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    running: list[Run] = []
    begun = failed = 0
    try:
        while running or begun < run_count:
            while begun < run_count and len(running) < beside_count:
                begun += 1
                running.append(Run(begun))
            time.sleep(LOOK_EVERY_S)
            for run in [run for run in running if run.has_ended()]:
                running.remove(run)
                failed += run.process.returncode != 0
                print(run.verdict(), flush=True)
    finally:
        for run in running:
            run.end()
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="The whole suite again and again, several at a time.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--beside", type=int, default=3, help="how many at a time: each is the others' load")
    arguments = parser.parse_args()
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # a shell in the background has switched the first one off
        signal.signal(number, signal.default_int_handler)
    try:
        failed = steady(arguments.runs, arguments.beside)
    except KeyboardInterrupt:
        print("steady: interrupted", file=sys.stderr)
        return 130
    print(f"steady: {arguments.runs - failed} of {arguments.runs} runs passed, {arguments.beside} at a time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
