"""The server's end of a connection of another process of this broker's machine (`oncelog serve --processes N`)."""

from __future__ import annotations

from oncelog.broker.network.connection import Connection


class PeerConnection(Connection):
    """It comes by a socket that only this user's processes can open: what it asks, a broker asks."""

    @property
    def is_of_broker(self) -> bool:
        """Always."""
        return True
