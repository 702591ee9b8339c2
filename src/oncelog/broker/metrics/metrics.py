"""Counters, histograms and gauges of a broker, by the keys of `metric_catalog`. How they are shown is not decided here.

What happens per request or batch costs an addition or two; everything that must be looked for (gauges) is looked for
when somebody asks. Labels are bounded: APIs, versions and errors by their schema, topics by `TOPICS_MAX`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from oncelog.broker.metrics.error_counts import errors_of
from oncelog.broker.metrics.histogram import Histogram
from oncelog.broker.metrics.metric_catalog import FAMILIES, Family
from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS
from oncelog.wire.messages.fetch import FetchResponse
from oncelog.wire.schema import Struct

TOPICS_MAX = 1_000  # more share the label "(other)": a scrape must stay small whatever clients create
OTHER_TOPICS = "(other)"
NO_VERSION = -1

Labels = tuple[str, ...]
Numbers = Iterable[tuple[Labels, float]]  # by label values
Ask = Callable[[], "float | Mapping[Labels, float] | Numbers"]
Sample = tuple[str, dict[str, str], float]  # suffix of the name, labels, value


class TopicCounts:
    """What went into and out of one topic."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in")

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0


class CodedResult(Protocol):
    """One item of a response."""

    error_code: int


class _ApiCounts:
    """Requests of one API and version."""

    __slots__ = ("count", "errors", "errors_of", "response", "time_ms")

    def __init__(self, response: type[Struct], errors: Counter[int], time_ms: Histogram) -> None:
        self.count = 0
        self.response = response
        self.errors_of: Callable[[Any], list[int]] = errors_of(response)
        self.errors = errors
        self.time_ms = time_ms


class Metrics:
    """Named counters that only grow, histograms, and gauges that are asked when somebody looks."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._limits: Counter[str] = Counter()
        self._apis: dict[tuple[int, int], _ApiCounts] = {}
        self._errors: dict[int, Counter[int]] = {}
        self._topics: dict[str, TopicCounts] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._gauges: dict[str, Ask] = {}

    # counting

    def add(self, key: str, amount: int = 1) -> None:
        """Count `amount` more of a counter without labels."""
        self._counts[key] += amount

    def limit_hit(self, config_key: str) -> None:
        """A limit was met."""
        self._limits[config_key] += 1

    def limit_hits_of(self, config_key: str, results: Iterable[CodedResult]) -> None:
        """A limit was met as often as `results` say POLICY_VIOLATION."""
        count = sum(result.error_code == ErrorCode.POLICY_VIOLATION for result in results)
        if count:
            self._limits[config_key] += count

    def histogram(self, key: str, *labels: str) -> Histogram:
        """The histogram of these labels; keep it where it is used often."""
        family = FAMILIES[key]
        assert family.kind == "histogram"
        of_family = self._histograms.setdefault(key, {})
        if labels not in of_family:
            of_family[labels] = Histogram(family.bounds)
        return of_family[labels]

    def show_histogram(self, key: str, histogram: Histogram) -> None:
        """Show a histogram that somebody else fills."""
        assert not FAMILIES[key].labels
        self._histograms[key] = {(): histogram}

    def answered(self, api_key: int, api_version: int, reply: object, seconds: float) -> None:
        """A request was answered `seconds` after it had begun; `reply` is its response, or something that is none."""
        api = self._apis.get((api_key, api_version))
        if api is None:
            api = self._new_api(api_key, api_version)
        api.count += 1
        api.time_ms.observe(seconds * 1000)
        if reply.__class__ is api.response:  # not where there is no reply, or none was wanted
            codes = api.errors_of(reply)
            if codes:
                api.errors.update(codes)
            if reply.__class__ is FetchResponse:
                self._records_sent(reply)

    def _records_sent(self, reply: FetchResponse) -> None:
        # Only now, as in Apache Kafka: a quota may have held the records back, and who asked may have gone.
        for topic in reply.responses:
            size_bytes = sum(len(each.records) for each in topic.partitions if each.records)
            if size_bytes and topic.topic:
                self.topic(topic.topic).bytes_out += size_bytes

    def _new_api(self, api_key: int, api_version: int) -> _ApiCounts:
        known = APIS[api_key]
        if not known.supports(api_version):  # an ApiVersions of the future, answered in version 0: one label for all
            found = self._apis.get((api_key, NO_VERSION))
            if found is not None:
                return found
            api_version = NO_VERSION
        errors = self._errors.setdefault(api_key, Counter())
        counts = _ApiCounts(known.response, errors, self.histogram("request_ms", known.name))
        self._apis[api_key, api_version] = counts
        return counts

    def topic(self, name: str) -> TopicCounts:
        """The counts of a topic; keep them where they are used often."""
        counts = self._topics.get(name)
        if counts is None:
            if len(self._topics) >= TOPICS_MAX:
                name = OTHER_TOPICS
            counts = self._topics.setdefault(name, TopicCounts())
        return counts

    def gauge(self, key: str, ask: Ask) -> None:
        """Show `ask()` as `key`: a number, or numbers by label values. A counter is asked so where others count.

        Numbers that are many may be an iterable, which may be read in another thread.
        """
        assert FAMILIES[key].kind != "histogram"
        self._gauges[key] = ask

    # looking

    def count(self, key: str) -> int:
        """A counter without labels."""
        return self._counts[key]

    def limit_hits(self, config_key: str) -> int:
        """How often a limit was met."""
        return self._limits[config_key]

    def request_count(self, api_key: int) -> int:
        """How many requests of an API were answered."""
        return sum(counts.count for (key, _), counts in self._apis.items() if key == api_key)

    def answered_count(self) -> int:
        """How many requests were answered."""
        return sum(counts.count for counts in self._apis.values())

    def families(self) -> Iterator[tuple[Family, Iterable[Sample]]]:
        """Every metric with its samples now; once all are given, the samples may be read in another thread."""
        for key, family in FAMILIES.items():
            if family.kind == "histogram":
                yield family, list(self._histogram_samples(key, family))
            elif key in self._gauges:
                yield family, _samples(family, _numbers(self._gauges[key]()))
            elif family.kind == "counter":
                yield family, _samples(family, self._counter_values(key).items())

    def _counter_values(self, key: str) -> Mapping[Labels, float]:
        match key:
            case "requests":
                return {(APIS[api].name, str(version)): counts.count for (api, version), counts in self._apis.items()}
            case "errors":
                return {
                    (APIS[api].name, error_name(code)): count
                    for api, errors in self._errors.items()
                    for code, count in errors.items()
                }
            case "limits_hit":
                return {(limit,): count for limit, count in self._limits.items()}
            case "messages_in" | "bytes_in" | "bytes_out":
                return {(topic,): getattr(counts, key) for topic, counts in self._topics.items()}
        return {} if FAMILIES[key].labels else {(): self._counts[key]}

    def _histogram_samples(self, key: str, family: Family) -> Iterator[Sample]:
        of_family = self._histograms.get(key, {})
        if not of_family and not family.labels:
            of_family = {(): Histogram(family.bounds)}
        for values, histogram in of_family.items():
            labels = dict(zip(family.labels, values, strict=True))
            for bound, count in histogram.cumulative():
                yield "_bucket", labels | {"le": bound}, count
            yield "_sum", labels, histogram.total
            yield "_count", labels, histogram.count


def _numbers(asked: float | Mapping[Labels, float] | Numbers) -> Numbers:
    if isinstance(asked, int | float):
        return [((), asked)]
    return asked.items() if isinstance(asked, Mapping) else asked


def _samples(family: Family, numbers: Numbers) -> Iterator[Sample]:
    for labels, value in numbers:
        yield "", dict(zip(family.labels, labels, strict=True)), value


def error_name(code: int) -> str:
    """Kafka's name of an error, or its number where it has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
