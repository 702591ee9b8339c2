"""Coverage-guided: `python -m evidence.fuzz.guided frames --seconds 60`, where atheris is installed (`pip install atheris`).

libFuzzer sees which lines of wire/ a frame, batch or compressed block reaches and keeps what reaches new ones. The targets
are the parsers that everything hostile must pass; the broker behind them is fuzzed by structure (evidence.fuzz).
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys

CORPUS = pathlib.Path("build/fuzz/guided")


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.fuzz.guided", description=__doc__)
    parser.add_argument("target", choices=("frames", "batches", "decompression", "responses"))
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    try:
        import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        print("fuzz: atheris is not installed; make fuzz needs none", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["oncelog.wire", "oncelog.errors"]):
        from oncelog.core.leader.batch_checks import validate_produced
        from oncelog.errors import CorruptBatch, MalformedFrame, MalformedMessage
        from oncelog.wire.api import APIS
        from oncelog.wire.compression import decompress
        from oncelog.wire.frame import FrameReader, decode_request_header
        from oncelog.wire.record_batch import batches
        from oncelog.wire.schema import decode_message
    keys = sorted(APIS)

    def frames(data: bytes) -> None:
        try:
            for frame in FrameReader(1 << 20).receive(data):
                header, position = decode_request_header(frame)
                api = APIS.get(header.api_key)
                if api is not None and api.supports(header.api_version):
                    decode_message(api.request, header.api_version, frame[position:], trailing="ignore")
        except (MalformedFrame, MalformedMessage):
            pass

    def responses(data: bytes) -> None:
        if len(data) < 3:
            return
        api = APIS[keys[data[0] % len(keys)]]
        version = api.min_version + data[1] % (api.max_version - api.min_version + 1)
        with contextlib.suppress(MalformedMessage):
            decode_message(api.response, version, data[2:])

    def in_batches(data: bytes) -> None:
        validate_produced(data, api_version=12, size_bytes_max=1 << 20, compacted=False, now_ms=1_750_000_000_000)
        try:
            for batch in batches(data):
                batch.records(1 << 20)
                if batch.is_control:
                    batch.end_txn_marker()
        except CorruptBatch:
            pass

    def blocks(data: bytes) -> None:
        if data:
            with contextlib.suppress(CorruptBatch):
                decompress(data[0] % 6, data[1:], 1 << 20)

    target = {"frames": frames, "responses": responses, "batches": in_batches, "decompression": blocks}[options.target]
    folder = CORPUS / options.target
    folder.mkdir(parents=True, exist_ok=True)
    seeds = [("seed-batch", bytes(61)), ("seed-frame", bytes.fromhex("0000000a001200000000000100ff"))]
    for name, data in seeds:
        (folder / name).write_bytes(data)
    arguments = [sys.argv[0], f"-max_total_time={options.seconds}", "-timeout=10", "-rss_limit_mb=2048", str(folder)]
    atheris.Setup(arguments, target)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
