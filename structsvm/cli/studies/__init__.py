"""Whole studies that the command line runs: several methods on the same data, measured, tested and shown on a page."""
