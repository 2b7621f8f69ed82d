#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`export --format otlp --push`: what a collector is sent, and what is said of each of its answers.

usage: otlp_push.py --shadowprof PATH --program PROGRAM [--only TEXT]

The collector is ours, on the loopback interface; protoc decodes what arrives.
"""

import argparse
import ctypes
import gzip
import http.server
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

from gate_cases import require, run_in_folder
from thread_exports import Profiled, otlp_profiles, otlp_message, otlp_stacks

OWN_FAILURE = 125
PATH = "/v1development/profiles"
PROTOBUF = "application/x-protobuf"


def encoded(message, text):
    folder = pathlib.Path(__file__).resolve().parents[2] / "src" / "report"
    return subprocess.run(["protoc", f"--proto_path={folder}", f"--encode=shadowprof.otlp.{message}",
                           "otlp.proto"], input=text.encode(), capture_output=True, check=True).stdout


def can_load(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


class Collector(http.server.ThreadingHTTPServer):
    """Answers everything in the same way, and keeps what it was sent: (path, headers, body)."""

    def __init__(self, status=200, body=b"", kind=PROTOBUF, hangs=False):
        self.status, self.body, self.kind, self.hangs = status, body, kind, hangs
        self.requests = []
        self.ended = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers, body))
        if self.server.hangs:
            self.server.ended.wait(60)
            return
        self.send_response(self.server.status)
        if self.server.kind:
            self.send_header("Content-Type", self.server.kind)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_):
        pass


class Subject:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.full = Profiled(self.shadowprof, pathlib.Path(folder) / "full.json", "--mode", "full",
                             "--", os.path.abspath(options.program))

    def push(self, url, *options, **environment):
        """The status, and what was said."""
        clean = {name: value for name, value in os.environ.items()
                 if not name.lower().endswith("_proxy") and not name.startswith("OTEL_")}
        done = subprocess.run([self.shadowprof, "export", "--format", "otlp", "--push", url, *options,
                               str(self.full.path)], check=False, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, env=clean | environment)
        require(done.stdout == "", done.stdout)
        return done.returncode, done.stderr.removeprefix("shadowprof: ")

    def refused(self, url, *options, **environment):
        """The one sentence."""
        status, said = self.push(url, *options, **environment)
        require(status == OWN_FAILURE and said.count("\n") == 1, f"status {status}: {said}")
        return said.rstrip("\n")


def a_collector_is_sent_what_a_file_would_have(x):
    with Collector() as collector:
        status, said = x.push(collector.url, "--host", "h1", "--service", "shop")
    require((status, said) == (0, ""), said)
    (path, headers, body), = collector.requests
    require(path == PATH and headers["Content-Type"] == PROTOBUF, path, headers)
    require(headers["Content-Encoding"] == "gzip" and headers["Expect"] is None, headers)
    file = x.full.export("otlp", "full.otlp", "--host", "h1", "--service", "shop")
    require(gzip.decompress(body) == file.read_bytes(), "another message")
    file.write_bytes(gzip.decompress(body))
    message = otlp_message(file)
    facts, profiles = otlp_profiles(message)
    require(facts["service.name"]["string_value"] == ["shop"], facts)
    whole = sum(value for _, _, value in otlp_stacks(message, profiles["instructions"]))
    require(whole == x.full.attributed, whole)


def a_path_is_kept_and_a_bare_address_has_the_standard_one(x):
    with Collector() as collector:
        for path, there in (("/", PATH), ("/own/place?tenant=7", "/own/place?tenant=7")):
            require(x.push(collector.url + path)[0] == 0, path)
            require(collector.requests[-1][0] == there, collector.requests[-1][0])


def headers_are_those_of_the_environment(x):
    with Collector() as collector:
        list_of_them = "authorization=Bearer%20a%2Cb , x-empty=,,x-tenant = 7"
        require(x.push(collector.url, OTEL_EXPORTER_OTLP_HEADERS=list_of_them)[0] == 0, "not sent")
        (_, headers, _), = collector.requests
        require((headers["Authorization"], headers["X-Empty"], headers["X-Tenant"]) ==
                ("Bearer a,b", "", "7"), headers)
        for bad in ("secret", "=secret", "a b=secret", "a=secret%0d%0aX: y", "a=secret%4"):
            said = x.refused(collector.url, OTEL_EXPORTER_OTLP_HEADERS=bad)
            require("OTEL_EXPORTER_OTLP_HEADERS" in said and "secret" not in said, said)
        require(len(collector.requests) == 1, "sent with headers that are none")


def a_failure_of_the_collector_is_a_sentence_with_its_first_line(x):
    with Collector(503, b"\n  too busy \x1b[31m\nTraceback", "text/plain") as collector:
        require(x.refused(collector.url) == f"{collector.url}{PATH} answered 503: too busy \\x1b[31m")
    with Collector(400, encoded("PushStatus", 'code: 3 message: "no stacks"'), PROTOBUF) as collector:
        require(x.refused(collector.url).endswith(" answered 400: no stacks"))
    with Collector(404, b"", None) as collector:
        require(x.refused(collector.url).endswith(f"{PATH} answered 404"))
    with Collector(500, b"x" * 1_000_000, "text/plain") as collector:
        require(len(x.refused(collector.url)) < 300, "a long sentence")
    with Collector(200, b"<html>welcome</html>", "text/html") as collector:
        said = x.refused(collector.url)
        require("no collector of OTLP" in said and said.endswith(": <html>welcome</html>"), said)


def what_a_collector_rejects_is_a_failure_and_a_remark_is_none(x):
    answer = encoded("PushResponse",
                     'partial_success { rejected_profiles: 1 error_message: "too old\\nx" }')
    with Collector(body=answer) as collector:
        said = x.refused(collector.url)
        require(said == f"{collector.url}{PATH} rejected 1 of the profiles: too old", said)
    with Collector(body=encoded("PushResponse", 'partial_success { error_message: "soon" }')) as collector:
        status, said = x.push(collector.url)
        require(status == 0 and said.endswith(f"{PATH} took it and says: soon\n"), status, said)
    with Collector(body=encoded("PushResponse", "partial_success { }")) as collector:
        require(x.push(collector.url) == (0, ""))


def who_does_not_answer_is_not_waited_for(x):
    with Collector(hangs=True) as collector:
        begin = time.monotonic()
        said = x.refused(collector.url, OTEL_EXPORTER_OTLP_TIMEOUT="700")
        took = time.monotonic() - begin
        require(said == f"cannot send to {collector.url}{PATH}: no answer within 700 ms", said)
        require(0.7 <= took < 20, took)
    for bad in ("0", "-1", "soon", "1e3", "99999999999999999999", "3600001"):
        said = x.refused("http://127.0.0.1", OTEL_EXPORTER_OTLP_TIMEOUT=bad)
        require("OTEL_EXPORTER_OTLP_TIMEOUT" in said, said)


def where_nobody_listens_is_a_sentence(x):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        require(x.refused(url) == f"cannot send to {url}{PATH}: Connection refused")
    said = x.refused("http://nowhere.invalid/x")
    require(said.startswith("cannot send to http://nowhere.invalid/x: ") and "nowhere" in said[44:], said)


def an_answer_that_breaks_off_is_a_sentence(x):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            with server.accept()[0] as client:
                client.recv(1 << 16)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nxx")
        thread = threading.Thread(target=answer)
        thread.start()
        said = x.refused(f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
        require(said.startswith("cannot send to "), said)


def what_is_no_address_is_refused_before_the_profile_is_read(x):
    for url in ("localhost:4318", "", "ftp://a/", "http://", "https:///x", "http://a b/", "http://a/\n"):
        said = x.refused(url)
        require("address" in said, f"{url!r}: {said}")
    said = x.refused("http://me:secret@localhost/")
    require("secret" not in said and "OTEL_EXPORTER_OTLP_HEADERS" in said, said)
    done = subprocess.run([x.shadowprof, "export", "--format", "pprof", "--push", "http://localhost",
                           "no such file"], check=False, capture_output=True, text=True)
    require(done.returncode == OWN_FAILURE and "--push sends otlp, and not pprof" in done.stderr, done)
    require("-o" in x.refused("http://localhost", "-o", str(x.full.path) + ".otlp"), "with a file")


CASES = [a_collector_is_sent_what_a_file_would_have,
         a_path_is_kept_and_a_bare_address_has_the_standard_one,
         headers_are_those_of_the_environment,
         a_failure_of_the_collector_is_a_sentence_with_its_first_line,
         what_a_collector_rejects_is_a_failure_and_a_remark_is_none,
         who_does_not_answer_is_not_waited_for, where_nobody_listens_is_a_sentence,
         an_answer_that_breaks_off_is_a_sentence,
         what_is_no_address_is_refused_before_the_profile_is_read]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not any(can_load(name) for name in ("libcurl.so.4", "libcurl-gnutls.so.4")):
        print("skipped: libcurl.so.4 is not installed")
        return 77
    return run_in_folder(CASES, Subject, options, "shadowprof-push-")


if __name__ == "__main__":
    sys.exit(main())
