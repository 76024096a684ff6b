"""Exit status of a command that was ended from outside; an error ends with 2."""

INTERRUPTED = 130  # 128 + SIGINT, as shells have it
CLOSED = 141  # 128 + SIGPIPE
