"""PostgreSQL as a source: logical replication in, SQL out. Only this package imports psycopg."""
