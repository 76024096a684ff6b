"""What the calls of the API do, without HTTP, and the loops that run beside them."""
