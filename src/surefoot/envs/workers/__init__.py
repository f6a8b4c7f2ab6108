"""Processes that compute rewards: a reward that hangs, crashes or prints without end costs its own sample only."""
