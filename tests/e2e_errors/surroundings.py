# SPDX-License-Identifier: MIT
"""Ways into the surroundings that conditions.py tries: words before a command, or what its process does before it
executes the command. All of them end with that process.
"""

import contextlib
import ctypes
import os
import pathlib
import struct

from bench import Skip, need, need_root

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446
EPERM = 1


class Program(ctypes.Structure):
    """struct sock_fprog"""
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


def without_calls(*numbers):
    """A filter of system calls, as containers have: these fail with EPERM."""
    load, equal, answer, allowed, failed = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050000 | EPERM
    rows = [(load, 0, 0, 0)]
    rows += [(equal, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    rows += [(answer, 0, 0, allowed), (answer, 0, 0, failed)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    program = Program(len(rows), ctypes.addressof(code))
    program.code = code  # lives as long

    def enter():
        must(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
        must(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)), "prctl")
    return [], enter


def sandboxed():
    """A Landlock domain: whoever is in it may trace nobody outside."""
    refer = struct.pack("Q", 1 << 13)
    supported = LIBC.syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)
    if supported < 2:
        raise Skip("the kernel has no Landlock, or an old one")

    def enter():
        must(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
        rules = must(LIBC.syscall(LANDLOCK_CREATE_RULESET, refer, len(refer), 0), "landlock_create_ruleset")
        must(LIBC.syscall(LANDLOCK_RESTRICT_SELF, rules, 0), "landlock_restrict_self")
        os.close(rules)
    return [], enter


def mounts(script, *options):
    """A mount namespace in which `script` has been executed by a shell."""
    need_root()
    return [need("unshare"), "--mount", *options, "sh", "-c", f'{script} && exec "$0" "$@"'], None


def command(*words):
    need(words[0])
    return list(words), None


def limited(which, value):
    import resource  # pylint: disable=import-outside-toplevel
    return [], lambda: resource.setrlimit(which, (value, value))


@contextlib.contextmanager
def control_group(controller, version_1, version_2):
    """In a new group with these bounds, {file: text} for each version of the kernel's interface."""
    need_root()
    for root, bounds in ((f"/sys/fs/cgroup/{controller}", version_1), ("/sys/fs/cgroup", version_2)):
        folder = pathlib.Path(root, f"shadowprof-test-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            for file, text in bounds.items():
                (folder / file).write_text(text, encoding="ascii")
        except OSError:
            folder.rmdir()
            continue
        try:
            yield [], lambda: (folder / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        finally:
            folder.rmdir()
        return
    raise Skip(f"no control group with {controller} can be made")
