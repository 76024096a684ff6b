"""Compiled interleavers for simulations; the reference implementations are in the parent folder."""
