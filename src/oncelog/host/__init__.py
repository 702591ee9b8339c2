"""The doors: the only room that touches clocks, sockets, files and randomness.

Every door is a Protocol with a real implementation; the simulator offers the same protocols with virtual ones.
"""
