"""Compiled forms of the interleavers, for simulations; the methods beside are their literal twins."""
