#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names that want to be more than names, through every command that prints a profile.

usage: hostile_names.py --shadowprof PATH --program PATH

A profile of the program is taken, and its functions and command get names with escape sequences,
line ends, commands of CI services, bytes that are not UTF-8, and a megabyte of letters. No output may
have a control character or a line that such a name wrote. Also compiled is a program with a function
whose name has a million letters: its instructions must be in a row of their own.
"""

import argparse
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from gate_cases import require

INJECTED = "INJECTED"
HOSTILE = [
    f"a\n{INJECTED}: 1\n",
    f"\x1b]0;title\x07\x1b[2J\r{INJECTED}",
    f"\n::error file=x::{INJECTED}",
    f"##[error]{INJECTED}",
    "::warning::x",
    "c1 \u009b31m \u0085 \u2028 \u202e",
    "quotes \" ' ` <script>alert(1)</script> ]]> -->",
    "blank and:colon;semicolon,comma|pipe%0Apercent",
    "x" * 1_000_000,
    "(" * 5000,
    "\x7f\x00\x08",
]
TEXT_EXPORTS = ["autofdo", "bolt", "callgrind", "folded", "llvm-sample", "llvm-unsymbolized",
                "perf-script"]
JSON_EXPORTS = ["chrome", "firefox", "speedscope"]
CHECK_FORMATS = ["text", "markdown", "github", "sarif", "junit"]
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def run(*words, status=(0,), folder):
    done = subprocess.run([str(w) for w in words], capture_output=True, timeout=240, check=False,
                          cwd=folder, env={"PATH": "/usr/bin:/bin", "COLUMNS": "80"})
    require(done.returncode in status,
            f"{words}: status {done.returncode}: {done.stderr[:500]!r}")
    for out in (done.stdout, done.stderr):
        require_harmless(out, words)
    return done.stdout


def require_harmless(raw, words):
    try:
        text = raw.decode()
    except UnicodeDecodeError as wrong:
        raise AssertionError(f"{words}: not UTF-8: {wrong}") from wrong
    # JSON is data: C1 characters may stand in its strings as they are, lower ones may not.
    pattern = re.compile("[\x00-\x09\x0b-\x1f]") if "--json" in words else CONTROL
    bad = pattern.search(text)
    require(not bad, f"{words}: control character {bad and bad.group()!r} in "
            f"{bad and text[max(0, bad.start() - 60):bad.end() + 60]!r}")
    for line in text.split("\n"):
        start = line.lstrip()
        require(not start.startswith((INJECTED, "::error file=x")),
                f"{words}: a name wrote the line {line[:100]!r}")
        # Where output is meant for a CI service, names are no commands at the begin of a line either.
        require("github" not in words or not ("##[" in line or start.startswith("::warning::x")),
                f"{words}: a name wrote a command: {line[:100]!r}")


def hostile_profile(data, path):
    """The same profile with other names; its modules keep theirs, or no file could be opened."""
    data = json.loads(json.dumps(data))
    names = {}
    for number, function in enumerate(data["functions"]):
        name = HOSTILE[number % len(HOSTILE)]
        if number >= len(HOSTILE):
            name = name[:5000]  # one of a megabyte is enough: each command reads them all
        if function["name"] in ("main", "(anonymous namespace)::parse"):
            name = HOSTILE[0]
        names[function["name"]] = name
        function["name"] = name
        function["linkage_name"] = name
    rename(data["hotlists"], names)
    data["run"]["command"] += HOSTILE[:8]
    data["run"]["engine"] = HOSTILE[1]
    data["run"]["options"][HOSTILE[0]] = HOSTILE[1]
    data["coverage"]["events"][HOSTILE[2]] = 1
    path.write_bytes(json.dumps(data).encode("utf-8", "surrogatepass"))


def rename(value, names):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "function" and inner in names:
                value[key] = names[inner]
            elif key in ("file", "disassembly", "register"):
                value[key] = HOSTILE[2]
            else:
                rename(inner, names)
    elif isinstance(value, list):
        for inner in value:
            rename(inner, names)


def all_outputs(shadowprof, folder):
    base, new = "base.json", "new.json"
    run(shadowprof, "report", new, folder=folder)
    run(shadowprof, "report", "--sort", "total", "--limit", "1000", new, folder=folder)
    run(shadowprof, "report", "--filter", HOSTILE[1].replace("\0", ""), new, folder=folder)
    run(shadowprof, "report", "--json", new, folder=folder)
    run(shadowprof, "report", "--html", "-o", "page.html", new, folder=folder)
    run(shadowprof, "annotate", new, HOSTILE[0], folder=folder, status=(0, 125))
    run(shadowprof, "annotate", "--json", new, HOSTILE[0], folder=folder, status=(0, 125))
    for pair in ((base, new), (new, base), (new, new)):
        run(shadowprof, "diff", *pair, folder=folder)
        run(shadowprof, "diff", "--json", *pair, folder=folder)
        run(shadowprof, "diff", "--html", "-o", "changes.html", *pair, folder=folder)
        run(shadowprof, "compare", *pair, folder=folder)
        for name in CHECK_FORMATS:
            run(shadowprof, "check", "--format", name, "--limit", "function:*:instructions<=-90%",
                *pair, folder=folder, status=(0, 3))
    for name in TEXT_EXPORTS + JSON_EXPORTS:
        out = run(shadowprof, "export", "--format", name, new, folder=folder)
        require(out, f"export {name} is empty")
        if name in JSON_EXPORTS:
            json.loads(out)
    shapes = {
        "llvm-sample": r" *\S+:\d+:\d+| +\d+(\.\d+)?: \d+( \S+:\d+)*| +\d+(\.\d+)?: \S+:\d+",
        "folded": r".+ \d+",
        "perf-script": r"\S+  \d+/\d+ \d+\.\d{9}: \d+ instructions:| +[0-9a-f]+ [^(].* \(\S+\)|",
    }
    for name, shape in shapes.items():
        for line in run(shadowprof, "export", "--format", name, new, folder=folder).decode().splitlines():
            require(re.fullmatch(shape, line), f"export {name}: {line[:200]!r}")
    run(shadowprof, "export", "--format", "pprof", "-o", "new.pb.gz", new, folder=folder)
    strings = gzip.decompress((folder / "new.pb.gz").read_bytes())
    require(b"\x1b]0;" not in strings, "pprof has an escape sequence")
    run(shadowprof, "export", "--format", "otlp", "--host", HOSTILE[1], "-o", "new.otlp", new, folder=folder)
    require(b"\x1b]0;" not in (folder / "new.otlp").read_bytes(), "OTLP has an escape sequence")
    for line in run(shadowprof, "export", "--format", "ndjson", "--host", HOSTILE[1], new,
                    folder=folder).decode().splitlines():
        require(set(json.loads(line)) >= {"kind", "offset", "function", "host"}, line[:200])
    run(shadowprof, "merge", "-o", "sum.json", base, new, folder=folder)


def hostile_file(shadowprof, program, folder):
    """What JSON cannot hold comes by way of file names."""
    name = folder / os.fsdecode(b"od\xffd\n::error file=x::\x1b[31m")
    shutil.copy(program, name)
    run(shadowprof, "run", "--mode", "full", "-q", "-o", "odd.json", "--", name, folder=folder)
    run(shadowprof, "report", "odd.json", folder=folder)
    for kind in TEXT_EXPORTS[2:5]:
        run(shadowprof, "export", "--format", kind, "odd.json", folder=folder, status=(0, 125))


def long_name(shadowprof, folder):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        print("skip  a function with a long name: needs gcc")
        return
    name = "f" * 1_000_000
    source = folder / "long.c"
    source.write_text(f"__attribute__((noinline)) int {name}(int n) {{ int s = 0;\n"
                      "for (int i = 0; i < n; i++) { s += i; __asm__ volatile(\"\" : \"+r\"(s)); }\n"
                      f"return s; }}\nint main(void) {{ return {name}(1000000) == 1; }}\n",
                      encoding="ascii")
    subprocess.run([compiler, "-O1", "-o", "long", "long.c"], cwd=folder, check=True, timeout=120)
    run(shadowprof, "run", "--mode", "full", "-q", "-o", "long.json", "--", "./long", folder=folder)
    functions = json.loads((folder / "long.json").read_bytes())["functions"]
    longest = max(functions, key=lambda f: f["self_instructions"])
    require(longest["name"].startswith("f" * 1000) and longest["self_instructions"] > 1_000_000,
            f"the function with a long name is {longest['name'][:60]}, "
            f"{longest['self_instructions']} instructions")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadowprof", required=True, type=pathlib.Path)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    options = parser.parse_args()
    shadowprof = options.shadowprof.resolve()
    with tempfile.TemporaryDirectory(prefix="shadowprof-hostile-") as name:
        folder = pathlib.Path(name)
        try:
            run(shadowprof, "run", "--mode", "full", "-q", "--profile", "edge,call,method,path,value",
                "-o", "base.json", "--", options.program.resolve(), folder=folder)
            hostile_profile(json.loads((folder / "base.json").read_bytes()), folder / "new.json")
            all_outputs(shadowprof, folder)
            hostile_file(shadowprof, options.program.resolve(), folder)
            long_name(shadowprof, folder)
        except AssertionError as failure:
            print(f"failed: {failure}")
            return 1
    print("hostile names stay names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
