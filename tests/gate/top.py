#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""shadowprof top in a terminal (tmux): its lists, filter, code and keys, in two sizes, with colour and without.

usage: top.py --shadowprof PATH --program PROGRAM

PROGRAM is known_inlined, which works for as long as it is told. Ends with "N passed, N failed"; status 1 on failure,
77 without tmux.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from gate_cases import require, run_cases

PATIENCE_S = 60
TABS = ("functions", "edges", "paths", "values", "loads", "threads")


class Terminal:
    """A tmux server of its own, with one window in which one command runs."""

    def __init__(self, folder, command, width, height, **environment):
        self.tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "socket")]
        words = " ".join(f"{name}={value}" for name, value in environment.items())
        script = folder / "command.sh"
        script.write_text(f"cd {folder}\nexport {words} SHELL=/bin/sh\n{command}\necho \"status $?\"\nsleep 1000\n")
        self.call("new", "-d", "-x", str(width), "-y", str(height), f"sh {script}")

    def call(self, *arguments):
        return subprocess.run([*self.tmux, *arguments], check=True, capture_output=True, text=True, timeout=60).stdout

    def keys(self, *keys):
        self.call("send-keys", *keys)

    def screen(self, *options):
        return self.call("capture-pane", "-p", *options).rstrip("\n")

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE_S
        while True:
            text = self.screen()
            if re.search(pattern, text, re.MULTILINE):
                return text
            require(time.monotonic() < end, f"{pattern} does not come:\n{text}")
            time.sleep(0.1)

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False, capture_output=True)


class Top:
    def __init__(self, options, folder):
        self.shadowprof, self.program = map(os.path.abspath, (options.shadowprof, options.program))
        self.dir = pathlib.Path(folder)
        self.terminals = []

    def start(self, arguments, width=80, height=24, **environment):
        terminal = Terminal(pathlib.Path(tempfile.mkdtemp(dir=self.dir)), f"{self.shadowprof} top {arguments}",
                            width, height, **{"LC_ALL": "C.UTF-8", **environment})
        self.terminals.append(terminal)
        return terminal


def each_list_is_shown_in_a_narrow_terminal(top):
    terminal = top.start(f"--interval 0.5 -o {top.dir}/kept.json -- {top.program} 100000000")
    text = terminal.wait_for(r"^Hot functions")
    terminal.wait_for(r"[0-9]+ s, [0-9]+ samples, overhead [0-9.]+ % of 1\.00 %")
    for number, name in enumerate(TABS, 1):
        terminal.keys(str(number))
        text = terminal.wait_for(rf"^(no {name} yet|one thread, or|Hot {name}|Values|Slow loads|Threads|Hot paths)")
        lines = text.splitlines()
        require(lines[0].startswith(" 1 functions  2 edges  3 paths  4 values  5 loads  6 threads"), text)
        require(max(map(len, lines)) <= 80 and len(lines) == 24, text)
        require("q leave" in lines[-1], text)
    terminal.keys("1")
    terminal.wait_for(r"^Hot functions")
    terminal.keys("w")
    end = time.monotonic() + PATIENCE_S
    while not (top.dir / "kept.json").exists():
        require(time.monotonic() < end, f"nothing is written while it goes on:\n{terminal.screen()}")
        time.sleep(0.1)
    terminal.keys("q")
    terminal.wait_for(r"^status 0$")
    require((top.dir / "kept.json").stat().st_size > 0, "no profile was kept")


def a_filter_and_a_function_s_code(top):
    terminal = top.start(f"--interval 0.5 -- {top.program} 100000000", 200, 60)
    terminal.wait_for(r"^Hot functions")
    terminal.wait_for(r"^ +[0-9.]+% .*leaf")
    terminal.keys("/", "l", "e", "a", "f")
    terminal.wait_for(r"^filter: leaf_")
    terminal.keys("Enter")
    text = terminal.wait_for(r"^filter: leaf   1-6")
    rows = [line for line in text.splitlines() if re.match(r" +[0-9.]+%", line)]
    require(rows and all("leaf" in row for row in rows), text)
    terminal.keys("Enter")
    text = terminal.wait_for(r"q back$")
    require("leaf" in text.splitlines()[2] and len(text.splitlines()) == 60, text)
    terminal.keys("q")
    terminal.wait_for(r"^filter: leaf   1-6")
    terminal.keys("/", "Escape")
    terminal.wait_for(r"^1-6 Tab list")
    terminal.keys("s")
    terminal.wait_for(r"Hot functions \(by instructions")
    terminal.call("resize-window", "-x", "80", "-y", "24")
    text = terminal.wait_for(r"q leave$")
    require(len(text.splitlines()) == 24 and max(map(len, text.splitlines())) <= 80, text)
    terminal.keys("C-c")
    terminal.wait_for(r"^status 0$")


def colour_is_left_out_where_it_is_not_wanted(top):
    for environment, wanted in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = top.start(f"--interval 0.5 -- {top.program} 100000000", TERM="screen-256color", **environment)
        terminal.wait_for(r" samples, overhead ")
        require(bool(re.search(r"\x1b\[3[0-7]m", terminal.screen("-e"))) == wanted, terminal.screen("-e"))
        terminal.keys("q")
        terminal.wait_for(r"^status 0$")


def a_process_is_left_as_it_was(top):
    with subprocess.Popen([top.program, "100000000"], stdout=subprocess.DEVNULL) as process:
        try:
            def facts():
                folder = pathlib.Path(f"/proc/{process.pid}")
                status = (folder / "status").read_text()
                return (re.search(r"TracerPid:\t(\d+)", status)[1], (folder / "maps").read_text(),
                        sorted(os.listdir(folder / "fd")), sorted(os.listdir(folder / "task")))

            # Its loader has maps of its own, and changes those of the program, before it is done.
            before = None
            while before is None or "ld.so.cache" in before[1] or facts() != before:
                before = facts()
                time.sleep(0.3)
            terminal = top.start(f"--interval 0.5 {process.pid}")
            terminal.wait_for(r" samples, overhead ")
            terminal.keys("q")
            terminal.wait_for(r"^status 0$")
            require(facts() == before, f"{before}\n{facts()}")
            require(process.poll() is None, "the process has ended")
        finally:
            process.kill()


def what_cannot_be_shown_is_one_sentence(top):
    terminal = top.start("999999999")
    terminal.wait_for(r"^status 125$")
    require("shadowprof: " in terminal.screen(), terminal.screen())
    for arguments in ([], ["x"], ["1", "2"], ["--"], [str(os.getpid())]):
        done = subprocess.run([top.shadowprof, "top", *arguments], check=False, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60)
        require(done.returncode == 125 and done.stderr.count("\n") == 1 and done.stdout == "", f"{arguments}: {done}")


CASES = [each_list_is_shown_in_a_narrow_terminal,
         a_filter_and_a_function_s_code,
         colour_is_left_out_where_it_is_not_wanted,
         a_process_is_left_as_it_was,
         what_cannot_be_shown_is_one_sentence]


def main():
    parser = argparse.ArgumentParser()
    for name in ("shadowprof", "program"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    if not shutil.which("tmux"):
        print("skipped: tmux is not installed")
        return 77
    with tempfile.TemporaryDirectory(prefix="shadowprof-top-test-") as folder:
        top = Top(options, folder)
        try:
            return run_cases(CASES, top)
        finally:
            for terminal in top.terminals:
                terminal.close()


if __name__ == "__main__":
    sys.exit(main())
