# SPDX-License-Identifier: MIT
"""Bursts in the code cache: what they need to record more than counts, some hypervisors hide."""
import pathlib


def of_this_host():
    """The options of a run with `--mode burst --engine translator` that this host needs besides."""
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            return () if "fsgsbase" in line.split() else ("--profile", "edge,call")
    return ()
