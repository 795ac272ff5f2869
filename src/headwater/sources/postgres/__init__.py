"""PostgreSQL as an origin: logical replication in, SQL out. Only this package imports psycopg."""
