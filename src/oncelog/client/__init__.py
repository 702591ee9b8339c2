"""The clients: asyncio shells around the machines of core/. They speak the wire, as everybody else's clients do."""
