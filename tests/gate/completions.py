#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Completions offer what the program has: its commands, their options, values.

usage: completions.py --shadowprof PATH --folder COMPLETIONS --program KNOWN_INLINED

bash, fish and zsh, each as far as it is installed. Ends with "N passed, N failed, N skipped"; status 1
on failure.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

BASH = """
. "$1"; shift
compopt() { :; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shadowprof
printf '%s\\n' "${COMPREPLY[@]}"
"""
# A terminal of its own, in which zsh completes the line that is typed; it lists what it would add.
ZSH = """
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=READY; fpath=($1 \\$fpath); autoload -Uz compinit; compinit -u -D; path=($2 \\$path); stty columns 200; LISTMAX=9999"
zpty -n -w z "$3"$'\\t\\t'
sleep $4
zpty -r -t z out; print -r -- "$out"
while zpty -r -t z out; do print -r -- "$out"; done
zpty -d z
"""


class Shells:
    def __init__(self, options):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.folder = pathlib.Path(options.folder).resolve()
        where = os.path.dirname(self.shadowprof)
        self.environment = {**os.environ, "PATH": f"{where}:{os.environ['PATH']}", "TERM": "xterm"}

    def output(self, *command):
        done = subprocess.run(list(map(str, command)), check=False, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              env=self.environment)
        if done.stderr.strip():
            raise AssertionError(f"{command[0]}: {done.stderr}")
        return done.stdout

    def bash(self, line, _):
        words = line.split(" ")
        return set(self.output("bash", "-c", BASH, "bash", self.folder / "shadowprof.bash",
                               *words).split())

    def fish(self, line, _):
        script = f"source {self.folder}/shadowprof.fish; complete -C '{line}'"
        return {row.split("\t")[0] for row in
                self.output("fish", "--no-config", "-c", script).splitlines()}

    def zsh(self, line, patience):
        text = self.output("zsh", "-f", "-c", ZSH, "zsh", self.folder,
                           os.path.dirname(self.shadowprof), line, str(patience))
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", text)
        return set(re.findall(r"[\w.-]+", plain))


LINES = {
    "shadowprof ": {"run", "stat", "attach", "report", "annotate", "doctor", "syscalls"},
    "shadowprof report --": {"--html", "--json", "--limit", "--output"},
    "shadowprof annotate --view ": {"both", "source", "code"},
    "shadowprof export --format ": {"callgrind", "pprof", "speedscope"},
    "shadowprof report --sort ": {"calls", "instructions", "loops", "name", "self", "time", "total"},
    "shadowprof check --format ": {"github", "junit", "sarif"},
    "shadowprof run --mode ": {"burst", "full", "shadow"},
    "shadowprof attach --engine ": {"auto", "emulator", "step", "translator"},
    "shadowprof run --profile ": {"address", "edge", "latency", "path", "value"},
    "shadowprof attach --input-log ": {"auto", "off", "on"},
    "shadowprof baseline ": {"list", "save"},
    "shadowprof ctl 1 ": {"dump", "set", "status", "stop"},
    "shadowprof top --": {"--interval", "--output"},
    "shadowprof run --": {"--mode", "--from", "--to", "--only", "--start-at", "--seed"},
    "shadowprof attach --": {"--every", "--keep"},
    "shadowprof stat --": {"--deterministic", "--repeat"},
    "shadowprof stat --cpu-features ": {"baseline", "native"},
    "shadowprof run --time ": {"clock", "looks", "off"},
}


def functions_of(options, folder):
    """Lines to complete with functions of a profile, one of which is inlined everywhere."""
    profile = os.path.join(folder, "p.json")
    subprocess.run([options.shadowprof, "run", "--mode", "full", "-q", "-o", profile, "--", options.program],
                   check=True, stdout=subprocess.DEVNULL, timeout=60)
    return {f"shadowprof annotate {profile} {typed}": {name}
            for typed, name in (("sma", "small"), ("secon", "second"))}


def main():
    parser = argparse.ArgumentParser()
    for option in ("--shadowprof", "--folder", "--program"):
        parser.add_argument(option, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return try_all(Shells(options), {**LINES, **functions_of(options, folder)})


def try_all(shells, lines):
    passed = failed = skipped = 0
    for shell in ("bash", "fish", "zsh"):
        if not shutil.which(shell):
            skipped += 1
            print(f"skipped: {shell} is not installed")
            continue
        for line, wanted in lines.items():
            try:
                # Seconds that zsh has to start up and to complete; on a busy machine it needs more.
                for patience in (2, 5, 20) if shell == "zsh" else (0,):
                    offered = getattr(shells, shell)(line, patience)
                    if wanted <= offered:
                        break
                if not wanted <= offered:
                    raise AssertionError(f"{sorted(wanted - offered)} are not in {sorted(offered)}")
                passed += 1
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print(f"FAIL {shell}: {line!r}\n{traceback.format_exc()}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
