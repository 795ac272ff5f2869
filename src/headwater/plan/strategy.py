"""The names of the strategies by which a query is kept current."""

INCREMENTAL, SELECTIVE, REQUERY = "incremental", "selective", "requery"
STRATEGIES = (INCREMENTAL, SELECTIVE, REQUERY)
ASKED = (SELECTIVE, REQUERY)  # the strategies whose results are the answers of the source
