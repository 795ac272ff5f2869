"""The names of the strategies by which a query is kept current."""

SELECTIVE, WHOLISTIC = "selective", "wholistic"
ASKED = (SELECTIVE, WHOLISTIC)  # the strategies whose results are the origin's answers
