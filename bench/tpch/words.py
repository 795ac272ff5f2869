"""The value domains of TPC-H, and its pseudo text: sentences from a small grammar, of which columns get cuts."""

from __future__ import annotations

import random
from pathlib import Path


def _listed() -> dict[str, tuple[str, ...]]:
    """`words.txt`: a list in each line; an underscore is a blank inside a word."""
    lines = (line.partition(": ") for line in Path(__file__).with_suffix(".txt").read_text().splitlines())
    return {name: tuple(word.replace("_", " ") for word in listed.split(" ")) for name, _, listed in lines}


_LISTS = _listed()
COLOURS = _LISTS["colours"]
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = tuple((name, int(region)) for name, _, region in (one.partition("/") for one in _LISTS["nations"]))
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
TYPES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
CONTAINERS = (
    ("SM", "LG", "MED", "JUMBO", "WRAP"),
    ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
)
_ENDS = (".", ";", ":", "?", "!", "--")
_WORDS = {
    "N": _LISTS["nouns"],
    "V": _LISTS["verbs"],
    "J": _LISTS["adjectives"],
    "D": _LISTS["adverbs"],
    "P": _LISTS["prepositions"],
    "X": _LISTS["auxiliaries"],
    "T": ("the",),
}
_NOUN_PHRASES = ("N", "N", "N", "J N", "J N", "J J N", "D J N")
_VERB_PHRASES = ("V", "V", "X V", "V D", "X V D")
_SENTENCES = ("{n} {v}", "{n} {v} P T {n}", "{n} {v} {n}", "{n} P T {n} {v} {n}", "{n} P T {n} {v} P T {n}")


def pseudo_text(size: int, rng: random.Random) -> str:
    """At least so many characters of sentences."""
    made: list[str] = []
    length = 0
    while length < size:
        made.append(_sentence(rng))
        length += len(made[-1]) + 1
    return " ".join(made)


def _sentence(rng: random.Random) -> str:
    shape = rng.choice(_SENTENCES)
    while "{" in shape:
        shape = shape.replace("{n}", rng.choice(_NOUN_PHRASES), 1).replace("{v}", rng.choice(_VERB_PHRASES), 1)
    return " ".join(rng.choice(_WORDS[kind]) for kind in shape.split()) + rng.choice(_ENDS)
