#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Attaching to servers under load: what it costs, whether they answer right, what ends samples.

usage: bench/shadow_servers.py SHADOWPROF [--only NAME,...] [--rounds N] [--seconds S]
                               [--bursts LIST | --accuracy]

Each round measures the server's throughput and latency three times, by the load generator made for
it: alone, with `attach` as it is, and with 100 samples a second; or, with --bursts, alone and with
each of these settings of burst mode (2ms/4s,...). Shown are the medians over the rounds of the ratios
to the same round's measurement alone, of latency for its median, 99th and 99.9th percentile. A load
generator that reports an error, or a server that has logged one, is a failure; the exit status is 1
then.

With --accuracy the server runs in full mode under the same load instead, and each round's profile is
compared with that one.

Needs redis-server, nginx with wrk, node with wrk, java with wrk, postgresql; what is missing is
left out with a line that says so.
"""

import argparse
import collections
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SHARES = (50, 99, 99.9)  # percentiles of latency
SETTINGS = {"default": [], "eager": ["--max-overhead", "50%", "--load", "1", "-F", "100",
                                     "--sample-size", "2M"]}
NODE = """require('http').createServer((q, r) => {
  let s = 0; for (let i = 0; i < 20000; i++) s = (s * 31 + i) % 65521;
  r.end(JSON.stringify({url: q.url, sum: s}));
}).listen(process.argv[2], '127.0.0.1');"""
JAVA = """import com.sun.net.httpserver.*; import java.net.*; import java.util.concurrent.*;
public class Server { public static void main(String[] a) throws Exception {
  HttpServer s = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(a[0])), 64);
  s.setExecutor(Executors.newFixedThreadPool(4));
  s.createContext("/", e -> { long n = 0; for (int i = 0; i < 20000; i++) n = (n * 31 + i) % 65521;
    byte[] b = ("sum " + n).getBytes(); e.sendResponseHeaders(200, b.length);
    e.getResponseBody().write(b); e.close(); });
  s.start(); } }"""
NGINX = """daemon off; worker_processes 1; pid nginx.pid; error_log errors.log warn;
events {{ worker_connections 256; }}
http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {root}; }} }}"""


class Failure(Exception):
    pass


def told(command, **options):
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300,
                          **options)
    if done.returncode != 0:
        raise Failure(f"{command[0]}: {(done.stdout + done.stderr)[-400:]}")
    return done.stdout


def wait_for(condition):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (OSError, Failure):
            pass
        time.sleep(0.2)
    raise Failure("the server does not answer")


WRK = """done = function(summary, latency)
  for _, share in ipairs({%s}) do io.write("LATENCY ", latency:percentile(share), "\\n") end
end""" % ", ".join(map(str, SHARES))


def wrk(port, seconds, path=""):
    """Requests a second, and latencies in milliseconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK)
        script.flush()
        out = told(["wrk", "-t1", "-c16", f"-d{seconds}s", "-s", script.name,
                    f"http://127.0.0.1:{port}/{path}"])
    if "Socket errors" in out or "Non-2xx" in out:
        raise Failure(out[-400:])
    latencies = [float(us) / 1000 for us in re.findall(r"LATENCY ([\d.]+)", out)]
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), latencies


class Server:
    needs = ()

    def __init__(self, folder, prefix=()):
        self.folder = folder
        self.prefix = prefix  # of the command that starts it
        self.port = 18000 + os.getpid() % 1000

    def start(self, command, **options):
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen([*self.prefix, *command], cwd=self.folder, stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL,
                                            start_new_session=True, **options)

    def pids(self):
        return [self.process.pid]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise Failure("the server does not end")

    def complaint(self):
        text = (self.folder / "log").read_text(errors="replace")
        found = re.search(r".*(rror|xception|atal|corrupt|PANIC|WARNING: pid).*", text)
        return found.group(0) if found else None


class Redis(Server):
    needs = ("redis-server", "redis-benchmark")

    def begin(self):
        self.start(["redis-server", "--port", "0", "--unixsocket", "s", "--save", "", "--loglevel",
                    "warning"])
        wait_for(lambda: told(["redis-cli", "-s", "s", "ping"], cwd=self.folder) == "PONG\n")
        self.in_a_second = 20000
        self.in_a_second, _ = self.load(1)

    def load(self, seconds):
        out = told(["redis-benchmark", "-s", "s", "-c", "20", "-n",
                    str(int(self.in_a_second * seconds)), "-t", "get", "--precision", "3"],
                   cwd=self.folder)
        below = [(float(share), float(ms)) for share, ms in
                 re.findall(r"^([\d.]+)% <= ([\d.]+) milliseconds \(cumulative", out, re.MULTILINE)]
        latencies = [min(ms for share, ms in below if share >= wanted) for wanted in SHARES]
        return float(re.search(r"throughput summary: ([\d.]+)", out).group(1)), latencies


class Nginx(Server):
    needs = ("nginx", "wrk")

    def begin(self):
        (self.folder / "f").write_bytes(b"x" * 20000)
        self.folder.chmod(0o755)
        (self.folder / "c").write_text(NGINX.format(port=self.port, root=self.folder))
        self.start(["nginx", "-p", str(self.folder), "-c", str(self.folder / "c")])
        wait_for(lambda: wrk(self.port, 1, "f"))

    def pids(self):
        out = told(["pgrep", "-P", str(self.process.pid)])
        return [int(word) for word in out.split()]

    def load(self, seconds):
        return wrk(self.port, seconds, "f")

    def complaint(self):
        return (self.folder / "errors.log").read_text() or None


class Node(Server):
    needs = ("node", "wrk")

    def begin(self):
        (self.folder / "s.js").write_text(NODE)
        self.start(["node", "s.js", str(self.port)])
        wait_for(lambda: wrk(self.port, 1))

    def load(self, seconds):
        return wrk(self.port, seconds)


class Java(Server):
    needs = ("java", "javac", "wrk")

    def begin(self):
        (self.folder / "Server.java").write_text(JAVA)
        told(["javac", "Server.java"], cwd=self.folder)
        self.start(["java", "-Xmx256m", "-XX:-UsePerfData", "Server", str(self.port)])
        wait_for(lambda: wrk(self.port, 1))
        wrk(self.port, 3)

    def load(self, seconds):
        return wrk(self.port, seconds)


class Postgres(Server):
    needs = ("pgbench",)

    def begin(self):
        bin_folder = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        shutil.chown(self.folder, "postgres")
        as_owner = {"user": "postgres", "cwd": self.folder} if os.geteuid() == 0 else {}
        told([bin_folder + "/initdb", "-D", "data", "-A", "trust"], **as_owner)
        self.start([bin_folder + "/postgres", "-D", "data", "-k", str(self.folder), "-h", ""],
                   **({"user": "postgres"} if as_owner else {}))
        self.client = ["-h", str(self.folder), "-U", "postgres", "postgres"]
        wait_for(lambda: told(["psql", *self.client, "-c", "select 1"]))
        told(["pgbench", "-i", "-s", "5", "-q", *self.client])

    def load(self, seconds):
        with tempfile.TemporaryDirectory(dir=self.folder) as logs:
            out = told(["pgbench", "-c", "4", "-T", str(seconds), "-l", *self.client], cwd=logs)
            if not re.search(r"number of failed transactions: 0 ", out):
                raise Failure(out)
            times = sorted(int(line.split()[2]) for name in glob.glob(logs + "/pgbench_log*")
                           for line in pathlib.Path(name).read_text().splitlines())
        rate = float(re.search(r"tps = ([\d.]+)", out).group(1))
        return rate, [times[int(share / 100 * len(times))] / 1000 for share in SHARES]

    def complaint(self):
        text = (self.folder / "log").read_text(errors="replace")
        found = re.search(r".*(ERROR|FATAL|PANIC).*", text)
        return found.group(0) if found else None


SERVERS = {"redis": Redis, "nginx": Nginx, "node": Node, "java": Java, "postgres": Postgres}


def under_attach(options, server, arguments, ended):
    """A measurement while we are attached; what ended the samples is added to `ended`."""
    profile = server.folder / "p.json"
    command = [options.shadowprof, "attach", "-q", *arguments, "-d", str(options.seconds + 1), "-o",
               str(profile)]
    if isinstance(server, Postgres):  # its processes come with the load
        find = ('until p=$(pgrep -d, -P "$0" -f "postgres: postgres"); do sleep 0.1; done; '
                'exec "$@" "$p"')
        command = ["sh", "-c", find, str(server.process.pid), *command]
    else:
        command.append(",".join(map(str, server.pids())))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sampler:
        time.sleep(0.7)
        measured = server.load(options.seconds)
        _, said = sampler.communicate(timeout=120)
    if sampler.returncode != 0:
        raise Failure("shadowprof: " + said)
    found = json.loads(profile.read_text(encoding="utf-8"))
    ended.update(found["coverage"]["ended"])
    return measured, found["overhead"]["estimated_share"]


def measure(options, name, folder):
    server = SERVERS[name](folder)
    try:
        server.begin()
        ratios = {setting: ([], [], []) for setting in options.settings}
        ended = {setting: collections.Counter() for setting in options.settings}
        for _ in range(options.rounds):
            alone = server.load(options.seconds)
            for setting, arguments in options.settings.items():
                measured, share = under_attach(options, server, arguments, ended[setting])
                ratios[setting][0].append(measured[0] / alone[0])
                ratios[setting][1].append([a / b for a, b in zip(measured[1], alone[1])])
                ratios[setting][2].append(share)
        for setting, (rates, latencies, shares) in ratios.items():
            reasons = ", ".join(f"{why} {n}" for why, n in ended[setting].most_common())
            shown = "  ".join(f"p{share} {statistics.median(column):.2f} "
                              f"[{min(column):.2f}, {max(column):.2f}]"
                              for share, column in zip(SHARES, zip(*latencies)))
            print(f"{name:<9} {setting:<9} throughput {statistics.median(rates):.3f} "
                  f"[{min(rates):.3f}, {max(rates):.3f}]  {shown}  "
                  f"estimate {100 * statistics.median(shares):5.2f} %  {reasons}", flush=True)
        complaint = server.complaint()
        if complaint:
            raise Failure("in its log: " + complaint)
    finally:
        if hasattr(server, "process"):
            server.stop()


def in_full_mode(options, name, folder):
    """The profile of the server that all of its load runs under the translator."""
    profile = folder / "full.json"
    server = SERVERS[name](folder, [options.shadowprof, "run", "-q", "-f", "--mode", "full", "-o",
                                    str(profile), "--"])
    try:
        server.begin()
        server.load(options.seconds)
    finally:
        server.stop()
    return profile


def compare(options, name, folder):
    full = in_full_mode(options, name, folder)
    server = SERVERS[name](folder)
    try:
        server.begin()
        for _ in range(options.rounds):
            ended = collections.Counter()
            _, share = under_attach(options, server, [], ended)
            found = json.loads(told([options.shadowprof, "compare", "--json", str(full),
                                     str(folder / "p.json")]))
            shown = "  ".join(f"{what} {100 * (found[what] or {}).get(measure_of, 0):5.1f} %"
                              for what, measure_of in (("edges", "accuracy"), ("methods", "overlap")))
            reasons = ", ".join(f"{why} {n}" for why, n in ended.most_common())
            print(f"{name:<9} {shown}  estimate {100 * share:5.2f} %  {reasons}", flush=True)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shadowprof", type=os.path.abspath)
    parser.add_argument("--only", default=",".join(SERVERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--bursts", default="", help="settings of burst mode instead of shadow mode's")
    parser.add_argument("--accuracy", action="store_true", help="beside full mode, instead of cost")
    options = parser.parse_args()
    bursts = [burst for burst in options.bursts.split(",") if burst]
    options.settings = {burst: ["--mode", "burst", "--max-overhead", "100%", "--burst", burst]
                        for burst in bursts} or SETTINGS
    failed = 0
    for name in options.only.split(","):
        missing = [program for program in SERVERS[name].needs if not shutil.which(program)]
        if missing:
            print(f"{name:<9} left out: no {missing[0]}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="servers-", ignore_cleanup_errors=True) as folder:
            try:
                (compare if options.accuracy else measure)(options, name, pathlib.Path(folder))
            except Failure as problem:
                failed += 1
                print(f"{name:<9} FAILED: {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
