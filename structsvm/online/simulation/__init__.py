"""Simulations of bandits: worlds to play in, the runs, and what learning the best ranker costs."""
