"""PostgreSQL's dialect: its grammar on sqlglot's tokens, its types and the functions whose results we know exactly."""
