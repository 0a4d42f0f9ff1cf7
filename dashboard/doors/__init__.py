"""How others reach the dashboard: who may see and write, the JSON API and MCP, quotas, metrics."""
