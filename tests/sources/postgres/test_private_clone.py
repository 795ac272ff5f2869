"""The tests' own servers start wherever a clone lies, also below a directory that only its owner may enter."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

from tests.support.postgres import BINARIES, VERSIONS, anybody_reaches, copy_install, within_reach


def test_binaries_below_a_private_directory_run_all_the_same(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    private = copy_install(BINARIES[VERSIONS[-1]].resolve(), tmp_path)
    assert not anybody_reaches(private)
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    for program in ("postgres", "initdb"):
        run = [str(within_reach(private) / program), "--version"]
        said = subprocess.run(run, user=user, cwd="/", capture_output=True, text=True, check=True).stdout
        assert said.startswith(f"{program} (PostgreSQL)")
