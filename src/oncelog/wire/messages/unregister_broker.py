"""UnregisterBroker: forget a broker that is gone."""

from oncelog.wire.schema import Int16, Int32, String, Struct


class UnregisterBrokerRequest(Struct, key=64, versions=(0, 0), flexible=0):
    """The broker's id."""

    broker_id: Int32 = 0


class UnregisterBrokerResponse(Struct, key=64, versions=(0, 0), flexible=0):
    """Whether it was forgotten."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
