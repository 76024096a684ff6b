"""Statistics of closed impressions: the closer, the guardrails and the report."""
