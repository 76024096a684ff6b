"""Storage of impressions, clicks and statistics: SQLite by default, PostgreSQL by URL."""
