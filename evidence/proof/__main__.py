"""`make proof`, `make report`, `make soak`; `record PART -- ARGUMENTS` runs one tool (`python ARGUMENTS`) and keeps its figures.

Exit status: 0 all is well, 1 something failed, 2 wrong arguments, 130 Ctrl-C before the end (a soak may be ended so: 0).
"""

from __future__ import annotations

import argparse
import signal
import sys

from evidence.proof.evidence import FAILED, FOLDER, INTERRUPTED
from evidence.proof.parts import PARTS, PROFILES, parts_of
from evidence.proof.report import write_report
from evidence.proof.run import recorded, run_profile, say
from evidence.proof.soak import Soak, first_seed

CTRL_C = 130


def main() -> int:
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job has SIGINT ignored, and so its children
        signal.signal(number, signal.default_int_handler)
    work = {"run": run, "report": report, "soak": soak, "record": record}
    return work[options.verb](options)


def run(options: argparse.Namespace) -> int:
    try:
        parts = parts_of(options.profile, options.only)
    except KeyError as error:
        say(f"proof: no part {error}; there are {', '.join(PARTS)}")
        return 2
    done, is_interrupted = run_profile(parts, options.profile)
    failed = [each.part for each in done if each.verdict == FAILED]
    not_run = [part.name for part in parts if part.name not in {each.part for each in done}]
    path = write_report(FOLDER)
    print(
        f"proof: {sum(each.is_good for each in done)} of {len(parts)} parts passed"
        + (f"; FAILED: {', '.join(failed)}" if failed else "")
        + ("; interrupted" if is_interrupted else "")
        + (f"; not run: {', '.join(not_run)}" if not_run else "")
        + f"; {path}"
    )
    return 1 if failed else CTRL_C if is_interrupted else 0


def report(options: argparse.Namespace) -> int:
    print(f"report: {write_report(FOLDER)}")
    return 0


def record(options: argparse.Namespace) -> int:
    """The tool's own words go where they would without this."""

    def told(line: str, is_error: bool) -> None:
        print(line, file=sys.stderr if is_error else sys.stdout, flush=True)

    evidence = recorded(options.part, options.arguments, told=told)
    if evidence.verdict == INTERRUPTED:
        return CTRL_C
    return 1 if evidence.exit_status is None else evidence.exit_status


def soak(options: argparse.Namespace) -> int:
    evidence = Soak(options.seconds, first_seed(options.seed), only=options.only).run()
    path = write_report(FOLDER)
    print(f"soak: {evidence.line}{' FAILED' if evidence.verdict == FAILED else ''}; {path}")
    return 1 if evidence.verdict == FAILED else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evidence.proof", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run", help="every part of a profile, then the report")
    runs.add_argument("--profile", choices=PROFILES, default="short")
    runs.add_argument("--only", default="", help="names of parts, by comma")
    verbs.add_parser("report", help="from what is there")
    records = verbs.add_parser("record", help="one tool, its figures kept")
    records.add_argument("part", choices=PARTS)
    records.add_argument("arguments", nargs="+", metavar="ARGUMENT")
    soaks = verbs.add_parser("soak", help="new seeds for as long as it is let")
    soaks.add_argument("--seconds", type=float, default=3600)
    soaks.add_argument("--seed", type=int, help="where seeds begin (the date and the commit)")
    soaks.add_argument("--only", default="", help="names of steps, by comma")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
