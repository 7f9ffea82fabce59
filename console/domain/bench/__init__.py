"""Benchmarks as values: what is sent, what was measured of each request, and what follows from it."""
