"""Helpers used throughout the package: arrays, files, kernels, lazy imports, the machine, terminal escapes."""
