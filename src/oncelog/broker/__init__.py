"""The broker: an asyncio shell around the pure cores. It holds connections, tasks and queues, and none of the rules."""
