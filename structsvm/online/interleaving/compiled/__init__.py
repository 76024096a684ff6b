"""Compiled interleavers for simulations; the methods in the parent folder are their literal twins."""
