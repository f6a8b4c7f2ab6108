"""Grading mathematics: text -> boxes -> clean -> shape -> compare. What is accepted stands in docs/math.md."""
