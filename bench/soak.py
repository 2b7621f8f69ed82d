#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two programs under load, attached to for a long time: does anything grow, or wear off?

usage: bench/soak.py SHADOWPROF CROWD [--minutes M] [--rate HZ] [--overhead PERCENT]

One is redis-server below redis-benchmark, the other CROWD (bench/crowd.c) with 64 threads. Each has a shadowprof
attached to it that takes --rate samples a second, as far as the overhead allows that. Each minute a row: rounds or
requests a second, memory and open files of the tracer, open files, children and mappings of the program. At the end:
what each profile says of samples and pauses, and whether both programs are as they were.
"""

import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from measure import figures

PORT = 16379


def status(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next((line.split()[1] for line in text.splitlines() if line.startswith(field + ":")), "0")


def count(path):
    return len(os.listdir(path))


def children(pid):
    text = [(task / "children").read_text() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return len(" ".join(text).split())


def mappings(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_bytes().count(b"\n")


class Redis:
    name = "redis"

    def __init__(self, folder):
        self.server = subprocess.Popen(["redis-server", "--port", str(PORT), "--save", "", "--appendonly", "no",
                                        "--dir", folder], stdout=subprocess.DEVNULL)
        time.sleep(1)
        self.load = subprocess.Popen(["redis-benchmark", "-p", str(PORT), "-q", "-l", "-c", "20", "-r", "100000",
                                      "-t", "set,get,lpush,lrange_100"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)

    @property
    def pid(self):
        return self.server.pid

    def done(self):
        with socket.create_connection(("127.0.0.1", PORT)) as link:
            link.sendall(b"INFO stats\r\n")
            text = link.recv(65536).decode()
        return int(text.split("total_commands_processed:")[1].split()[0])

    def end(self):
        for process in (self.load, self.server):
            process.terminate()
        self.load.wait()
        return self.server.wait() == 0


class Crowd:
    name = "crowd"

    def __init__(self, program, folder, seconds):
        self.out = pathlib.Path(folder, "rounds")
        with self.out.open("wb") as out:
            self.process = subprocess.Popen([program, str(seconds)], stdout=out)
        time.sleep(2)

    @property
    def pid(self):
        return self.process.pid

    def done(self):
        return int(self.out.read_text(encoding="ascii").split()[-1])

    def end(self):
        return self.process.wait() == 0


class Watched:
    """A program, who samples it, and how it was before."""

    def __init__(self, program, options, folder):
        self.program = program
        self.file = pathlib.Path(folder, f"{program.name}.json")
        self.before = self.of_program()
        self.first, self.last = None, (time.monotonic(), program.done())
        self.sampler = subprocess.Popen([options.shadowprof, "attach", "-q", "-d", str(60 * options.minutes),
                                         "-F", str(options.rate), "--max-overhead", f"{options.overhead}%",
                                         "-o", self.file, str(program.pid)])
        time.sleep(1)
        self.tracer = int(status(program.pid, "TracerPid"))

    def of_program(self):
        pid = self.program.pid
        return count(f"/proc/{pid}/fd"), count(f"/proc/{pid}/task"), mappings(pid)

    def row(self, minute):
        now, done = time.monotonic(), self.program.done()
        rate = (done - self.last[1]) / (now - self.last[0])
        self.last = (now, done)
        files, threads, maps = self.of_program()
        cells = [minute, self.program.name, f"{rate:.0f}", f"{int(status(self.tracer, 'VmRSS')) / 1024:.1f}",
                 count(f"/proc/{self.tracer}/fd"), files, threads, maps, children(self.program.pid)]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

    def conclude(self):
        code = self.sampler.wait()
        time.sleep(1)
        found = figures(self.file)
        pauses = found["overhead"]["pause_s"]
        print(f"{self.program.name}: status {code}, {found['coverage']['samples']} samples, estimated overhead "
              f"{100 * found['overhead']['estimated_share']:.2f} %, longest pause {1e3 * pauses['max']:.1f} ms, "
              f"traced by {status(self.program.pid, 'TracerPid')}, files, threads and mappings {self.before} -> "
              f"{self.of_program()}, zombies {children(self.program.pid)}", flush=True)
        return code == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof", type=os.path.abspath)
    parser.add_argument("crowd", type=os.path.abspath)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--overhead", type=float, default=10, help="percent")
    options = parser.parse_args()
    if not shutil.which("redis-benchmark"):
        sys.exit("redis-server and redis-benchmark are needed")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    print("| minute | program | a second | tracer MB | its files | files | threads | mappings | children |\n"
          "|--:|---|--:|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        programs = [Redis(folder), Crowd(options.crowd, folder, 60 * options.minutes + 20)]
        watched = [Watched(program, options, folder) for program in programs]
        for minute in range(1, options.minutes):
            time.sleep(60)
            for one in watched:
                one.row(minute)
        good = [one.conclude() for one in watched]
        good += [program.end() for program in programs]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
