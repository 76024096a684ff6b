"""Simulations of bandits: worlds that define outcomes and regret, and runs that measure the regret of bandits."""
