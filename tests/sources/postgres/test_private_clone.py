"""The tests' own servers start wherever a clone lies, also below a directory that only its owner may enter."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from tests.support.postgres import BINARIES, VERSIONS, anybody_reaches, within_reach


def test_binaries_below_a_private_directory_run_all_the_same(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    installed = BINARIES[VERSIONS[-1]].resolve()
    shutil.copytree(installed.parent, tmp_path / "install", symlinks=True)
    private = tmp_path / "install" / installed.name
    assert not anybody_reaches(private)
    run = [str(within_reach(private) / "postgres"), "--version"]
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    said = subprocess.run(run, user=user, cwd="/", capture_output=True, text=True, check=True).stdout
    assert said.startswith("postgres (PostgreSQL)")
