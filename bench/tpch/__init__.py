"""TPC-H: its tables, its queries, its refresh functions. A benchmark of our own: no figure is an audited one."""

from bench.tpch.report import options, run

__all__ = ["options", "run"]
