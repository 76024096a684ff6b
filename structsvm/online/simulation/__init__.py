"""Worlds to play bandits in, and the runs: what learning the best ranker would cost."""
