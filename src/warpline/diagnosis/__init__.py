"""The diagnosis: what `analyze` asks of all tables, rules and checks, and says about a run."""
