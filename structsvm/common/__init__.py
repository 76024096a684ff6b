"""Helpers without a subject of their own: arrays, files, kernels, late imports, the machine, terminal escapes."""
