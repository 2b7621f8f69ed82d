# SPDX-License-Identifier: MIT
"""Test suites of other projects, as their own build leaves them: which tests there are, and how each is started.

A suite is a folder that the user has filled. Nothing is fetched or built here. A suite whose folder is missing,
or holds no test, has one sentence that says how it is had (`Suite.how`).
"""

import fnmatch
import os
import re
import shlex
import struct
from dataclasses import dataclass, field

ELF_X86_64 = 62
ELF_TYPES_THAT_RUN = (2, 3)  # ET_EXEC, ET_DYN


@dataclass(frozen=True)
class Test:
    """One program of a suite. Its files, if any, are linked into the directory that it runs in."""

    suite: str
    name: str
    command: tuple
    links: str = ""  # a folder; what is in it is found in the test's working directory
    environment: dict = field(default_factory=dict, hash=False)

    @property
    def full_name(self):
        return f"{self.suite}/{self.name}"

    @property
    def traces(self):
        """Its processes trace one another, as far as its name and those of functions in its file tell."""
        if "ptrace" in self.name:
            return True
        with open(os.path.join(self.links, self.command[0]), "rb") as file:
            return b"\0ptrace\0" in file.read()


@dataclass(frozen=True)
class Suite:
    name: str
    title: str  # what it is called in the page
    how: str  # one sentence
    output: str  # how its output is read: a key of external_compare.READERS
    skips: int  # the exit status of a test that has not run
    tests: object  # folder -> list of Test


def is_program(path):
    """An executable of this machine that the kernel loads; shared objects with the mode of one count, too."""
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return False
    with open(path, "rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:5] != b"\x7fELF\x02":
        return False
    kind, machine = struct.unpack_from("<HH", head, 16)
    return machine == ELF_X86_64 and kind in ELF_TYPES_THAT_RUN


def programs_in(folder):
    if not os.path.isdir(folder):
        return []
    return sorted(name for name in os.listdir(folder) if is_program(os.path.join(folder, name)))


def kselftest(folder):
    """kselftest-list.txt names them, `COLLECTION:TEST` a line. Each runs where its collection's files are."""
    tests = []
    try:
        with open(os.path.join(folder, "kselftest-list.txt"), encoding="utf-8") as file:
            lines = file.read().split()
    except FileNotFoundError:
        return []
    for line in lines:
        collection, _, name = line.partition(":")
        path = os.path.join(folder, collection)
        if os.access(os.path.join(path, name), os.X_OK):
            tests.append(Test("kselftest", f"{collection}/{name}", (f"./{name}",), path))
    return tests


# What rr's build puts beside its tests.
OF_RR = ("rr", "rr_exec_stub", "rr_exec_stub_32", "test-monitor", "ftrace_helper", "counters")


def rr(folder):
    """Each program runs natively, not under rr. Some start others, as ../bin/NAME."""
    where = os.path.join(folder, "bin")
    return [Test("rr", name, (os.path.join(where, name),)) for name in programs_in(where) if name not in OF_RR]


# What changes the machine for everybody, whatever namespaces it runs in: clocks, kernel modules, swap space, pages
# taken for broken, and settings (while unshare03 runs, nobody who has a descriptor above 64 can fork).
OF_THE_MACHINE = ("*settimeofday*", "clock_settime*", "stime*", "*adjtime*", "leapsec*", "reboot*", "*_module*",
                  "swapo*", "quotactl*", "acct*", "vhangup*", "sysctl*", "syslog*", "madvise0[67]*", "madvise11*",
                  "move_pages12*", "unshare03*", "fork13*")


def ltp(folder):
    """runtest/syscalls has `NAME COMMAND ARG...` lines; the commands are in testcases/bin."""
    try:
        with open(os.path.join(folder, "runtest/syscalls"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    binaries = os.path.join(folder, "testcases/bin")
    environment = {"LTPROOT": folder, "PATH": f"{binaries}:{os.environ.get('PATH', os.defpath)}",
                   "LTP_COLORIZE_OUTPUT": "n"}
    tests = []
    for line in lines:
        name, *command = shlex.split(line, comments=True) or [""]
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in OF_THE_MACHINE):
            continue
        # Libraries for optional parts may have been missing when it was built.
        if command and os.path.exists(os.path.join(binaries, command[0])):
            tests.append(Test("ltp", name, (os.path.join(binaries, command[0]), *command[1:]), "", environment))
    return tests


VALGRIND_TOOLS = ("none", "memcheck", "helgrind", "drd", "massif", "dhat", "cachegrind", "callgrind", "lackey",
                  "exp-bbv")
VALGRIND_PARTS = ("", "common", "amd64", "linux", "amd64-linux")


def valgrind_arguments(text):
    """Of a shell's line, without what comes from a file (standard input is empty here) or goes to a pipe."""
    return shlex.split(re.split("[<|]", text)[0].replace("`pwd`", "."))


def valgrind_test(tool, part, where, file_name):
    """NAME.vgtest names the program and its arguments; None if that program was not built."""
    with open(os.path.join(where, file_name), encoding="utf-8") as file:
        facts = dict(line.split(":", 1) for line in file.read().splitlines() if ":" in line)
    home, program = os.path.split(os.path.normpath(os.path.join(where, facts.get("prog", "").strip())))
    if not is_program(os.path.join(home, program)):
        return None
    name = "/".join(word for word in (tool, part, os.path.splitext(file_name)[0]) if word)
    return Test("valgrind", name, (f"./{program}", *valgrind_arguments(facts.get("args", ""))), home)


def valgrind(folder):
    """Each program of the tools' tests, natively instead of below a tool. Several tests have the same one."""
    tests = {}
    for tool in VALGRIND_TOOLS:
        for part in VALGRIND_PARTS:
            where = os.path.join(folder, tool, "tests", part)
            for file_name in sorted(os.listdir(where)) if os.path.isdir(where) else []:
                test = valgrind_test(tool, part, where, file_name) if file_name.endswith(".vgtest") else None
                if test:
                    tests.setdefault((test.links, test.command), test)
    return list(tests.values())


def qemu(folder):
    return [Test("qemu", name, (f"./{name}",), folder) for name in programs_in(folder)]


SUITES = (
    Suite("rr", "rr", "DIR/rr/bin holds the programs of src/test, which rr's CMake puts into bin/ of its build folder.",
          "text", 77, rr),
    Suite("kselftest", "kselftest", "DIR/kselftest is what `make -C tools/testing/selftests install "
          "INSTALL_PATH=DIR/kselftest TARGETS=...` of a Linux source makes.", "tap", 4, kselftest),
    Suite("ltp", "LTP", "DIR/ltp is what `./configure --prefix=DIR/ltp && make && make install` of the Linux Test "
          "Project makes.", "ltp", 32, ltp),
    Suite("valgrind", "Valgrind", "DIR/valgrind is a source tree of Valgrind after `./configure && make && "
          "make check`.", "exact", 77, valgrind),
    Suite("qemu", "QEMU", "DIR/qemu is tests/tcg/x86_64-linux-user of a build folder of QEMU after `make "
          "build-tcg`.", "exact", 77, qemu),
)
