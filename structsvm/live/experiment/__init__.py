"""The calls of the service with plain Python values, without HTTP, and the loops that run beside them."""
