#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Debug information is fetched from a server when asked for, and nothing is asked of one otherwise.

The server is ours, on the loopback interface; DEBUGINFOD_URLS names it all the time.
"""

import argparse
import ctypes
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

SKIPPED = 77


def build_id_of(path):
    for line in subprocess.run(["readelf", "-n", path], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        if "Build ID:" in line:
            return line.split()[-1]
    sys.exit(f"{path} has no build-id")


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, files):
        self.files = files
        self.requests = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        data = self.server.files.get(self.path)
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--program", required=True)
    args = parser.parse_args()
    try:
        ctypes.CDLL("libdebuginfod.so.1")
    except OSError:
        print("skipped: libdebuginfod.so.1 is not installed")
        sys.exit(SKIPPED)
    for tool in ("objcopy", "readelf"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed")
            sys.exit(SKIPPED)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program, debug = folder / "program", folder / "program.debug"
        subprocess.run(["objcopy", "--only-keep-debug", args.program, debug], check=True)
        subprocess.run(["objcopy", "--strip-all", args.program, program], check=True)
        path = f"/buildid/{build_id_of(program)}/debuginfo"
        server = Server({path: debug.read_bytes()})
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = dict(os.environ, DEBUGINFOD_URLS=f"http://127.0.0.1:{server.server_port}/",
                           DEBUGINFOD_CACHE_PATH=str(folder / "cache"), NO_PROXY="*", no_proxy="*")
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            environment.pop(name, None)

        def shadowprof(*words, env=environment):
            return subprocess.run([args.shadowprof, *map(str, words)], capture_output=True, text=True, env=env)

        def names(profile):
            return {f["name"] for f in read_profile(profile)["functions"]}

        profile, named = folder / "profile.json", folder / "named.json"
        run = ("run", "-q", "--mode", "full", "-o")
        done = shadowprof(*run, profile, "--", program, "20")
        assert done.returncode == 0, done.stderr
        for words in (("report", profile), ("annotate", profile, "main"), ("export", "--format", "folded", profile),
                      ("report", "--html", "-o", folder / "page.html", profile)):
            shadowprof(*words)
        assert not server.requests, f"asked without --debuginfod: {server.requests}"
        assert not any("shared" in n for n in names(profile)), names(profile)

        done = shadowprof(*run, named, "--debuginfod", "--", program, "20")
        assert done.returncode == 0, done.stderr
        assert path in server.requests, server.requests
        assert any("shared" in n for n in names(named)), names(named)

        # Lines of an old profile: from the cache by now, and without it from the server again.
        shutil.rmtree(folder / "cache")
        asked = len(server.requests)
        done = shadowprof("annotate", "--debuginfod", "--view", "source", named, "main")
        assert done.returncode == 0 and "nesting.cc" in done.stdout, done.stdout + done.stderr
        assert len(server.requests) > asked

        nowhere = dict(environment)
        del nowhere["DEBUGINFOD_URLS"]
        done = shadowprof("report", "--debuginfod", profile, env=nowhere)
        assert done.returncode == 125 and "DEBUGINFOD_URLS" in done.stderr, done.stderr
        server.shutdown()
    print("debug information is fetched when asked for, and only then")


if __name__ == "__main__":
    main()
