"""Values and pure functions: no I/O, no clock, no asyncio, no UI."""
