"""The order in which the joins of a relation run: found by cost, kept as a value, applied to the relation as written.

The order changes how a relation is computed and never what it holds: its columns, the identity of its rows and its ties
come from the query as it was written.
"""
