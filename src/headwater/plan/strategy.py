"""The names of the strategies by which a query is kept current."""

SELECTIVE, REQUERY = "selective", "requery"
ASKED = (SELECTIVE, REQUERY)  # the strategies whose results are the answers of the source
