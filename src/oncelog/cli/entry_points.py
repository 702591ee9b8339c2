"""What a shell starts: signals are heard first, then the rest is imported, which takes longer than many a command."""

from __future__ import annotations

from oncelog.cli.signals import end_at_once, hear


def oncelog() -> None:
    """`oncelog`."""
    hear(end_at_once)
    import os
    import sys

    from oncelog.cli.plain_serve import end, plain_options, serve_and_exit
    from oncelog.cli.standard_streams import occupy, stand_no_longer_than_told

    occupy()
    stand_no_longer_than_told()
    options = plain_options(sys.argv[1:], os.environ)
    if options is not None:
        serve_and_exit(options)
    from oncelog.cli.main import main

    try:
        main()
    finally:
        end()


def kafka_transactions() -> None:
    """`kafka-transactions`."""
    hear(end_at_once)
    from oncelog.cli.plain_serve import end
    from oncelog.cli.standard_streams import occupy, stand_no_longer_than_told

    occupy()
    stand_no_longer_than_told()
    from oncelog.cli.transactions.kafka_transactions import main

    try:
        main()
    finally:
        end()
