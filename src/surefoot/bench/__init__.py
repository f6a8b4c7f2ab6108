"""Benchmarks: what a part of a run costs on this machine. No test asserts a time."""
