"""Records and protocols that every layer shares; no behaviour, no torch."""
