"""Where impressions, clicks and statistics are kept: SQLite by default, PostgreSQL by URL."""
