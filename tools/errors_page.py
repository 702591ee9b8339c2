"""`python -m tools.errors_page`: writes docs/errors.md from the classes and `oncelog.error_guide`; a test says when it is old."""

from __future__ import annotations

import pathlib

from oncelog import error_guide, errors
from oncelog.errors import KafkaError, OncelogError

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "errors.md"
INTRO = """\
# Errors: cause and cure
Everything that oncelog raises is an `oncelog.errors.OncelogError`. Those with a code of Kafka's protocol are a `KafkaError`,
whose flags say what you may do:

| flag | means | what to do |
|---|---|---|
| retriable | the same call may succeed later | The client has retried until its timeout. Look for the reason. |
| abortable | this transaction is over, the producer is sound | Let the exception end `transaction()`; begin again. |
| fatal | this producer is over | `stop` it, and make a new one if this program is still the right one. |
| none | the call itself is wrong, or must be decided by you | See its row. |

```python
from oncelog.errors import KafkaError

try:
    async with producer.transaction():
        await producer.send("orders", value=b"3 apples")
except KafkaError as error:
    if error.fatal:
        raise  # make a new producer, or let the newer instance work
    if not (error.abortable or error.retriable):
        raise  # a mistake in the call: the same again would fail again
    # aborted: begin the transaction again
```

Written by `tools/errors_page.py` from `errors.py` and `error_guide.py`.
"""


def flags(kind: type[KafkaError]) -> str:
    """Which of the three hold."""
    return ", ".join(name for name in ("retriable", "abortable", "fatal") if getattr(kind, name)) or "none"


def classes() -> list[type[OncelogError]]:
    """The classes that are raised, in the order of `errors.py`."""
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OncelogError)]
    return [each for each in found if each not in (OncelogError, KafkaError)]


def render() -> str:
    """The page."""
    kafka = [each for each in classes() if issubclass(each, KafkaError)]
    groups = [
        ("Fatal: this producer is over", [each for each in kafka if each.fatal]),
        ("Abortable: this transaction is over", [each for each in kafka if each.abortable]),
        ("Retriable: later it may succeed", [each for each in kafka if each.retriable]),
        ("Neither", [each for each in kafka if flags(each) == "none"]),
    ]
    own = [each for each in classes() if not issubclass(each, KafkaError)]
    parts = [INTRO, "## Errors of oncelog itself", "| error | what happened | what to do |", "|---|---|---|"]
    parts += [f"| `{each.__name__}` {_advice(each)}" for each in own]
    for title, members in groups:
        parts += [
            "",
            f"## {title}",
            "| error | Kafka's name and code | what happened | what to do |",
            "|---|---|---|---|",
        ]
        parts += [f"| `{each.__name__}` | {_code(each)} {_advice(each)}" for each in members]
    return "\n".join(parts) + "\n"


def _code(kind: type[KafkaError]) -> str:
    return f"{kind.code.name} ({int(kind.code)})" if "code" in vars(kind) else "ours"


def _advice(kind: type[OncelogError]) -> str:
    advice = error_guide.ADVICE[kind.__name__]
    return f"| {advice.cause} | {advice.cure} |"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"{PAGE.name} written")
