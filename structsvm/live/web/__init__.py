"""HTTP: the application, its routes and pages, the proxy, and the processes that serve them."""
