"""What a shell starts: signals are heard first, then the rest is imported, which takes longer than many a command."""

from __future__ import annotations

from oncelog.cli.signals import end_at_once, hear


def oncelog() -> None:
    """`oncelog`."""
    hear(end_at_once)
    from oncelog.cli.main import main

    main()


def kafka_transactions() -> None:
    """`kafka-transactions`."""
    hear(end_at_once)
    from oncelog.cli.transactions.kafka_transactions import main

    main()
