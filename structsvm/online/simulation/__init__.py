"""Simulations of bandits: worlds to play in, the runs, and the cost of learning the best ranker."""
