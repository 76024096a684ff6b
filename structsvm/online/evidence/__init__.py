"""Evidence that is valid at every look, for bandits, statistics of logs, live experiments and the arena."""
