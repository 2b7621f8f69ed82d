# SPDX-License-Identifier: MIT
"""Which calls of shadowprof's are to fail, and how: read from what a run without faults called."""

import errno
import struct
import subprocess
from dataclasses import dataclass

# The layout of failing_calls.cc.
SITES = 8192
DEPTH = 8
SITE = struct.Struct("QQ40s8Q")
HEAD = struct.Struct("QQQ")
TABLE_BYTES = HEAD.size + SITES * SITE.size

# What a call can fail with on a host that is short of something, or strict; a call that is not
# listed fails with USUAL. CUT: it does half of what was asked. KILL: whom it concerns is dead; the
# program, where it concerns nobody. DIE: the process of shadowprof's that calls is killed there.
CUT, KILL, DIE = "cut", "kill", "die"
USUAL = ("ENOMEM", "EPERM")
OPENING = ("EMFILE", "ENOMEM", "EACCES", "ENOENT", "EINTR")
READING = ("EINTR", "EIO", "ENOMEM", CUT)
WRITING = ("EINTR", "ENOSPC", "EIO", CUT)
REMOTE = ("ENOMEM", "EPERM", "EAGAIN", KILL)
FAILURES = {
    "open": OPENING, "open64": OPENING, "openat": OPENING, "openat64": OPENING,
    "fopen": OPENING, "fopen64": OPENING, "opendir": OPENING, "fdopendir": ("ENOMEM", "EMFILE"),
    "mkostemp64": ("EMFILE", "ENOSPC", "EACCES"), "mkdtemp": ("ENOSPC", "EACCES"),
    "mkdir": ("ENOSPC", "EACCES"), "mkdirat": ("ENOSPC", "EACCES"),
    "read": READING, "readv": READING, "pread": READING, "pread64": READING,
    "readdir64": ("EIO", "ENOENT"),
    "write": WRITING, "writev": WRITING, "pwrite": WRITING, "pwrite64": WRITING,
    "send": ("ENOMEM",), "sendmsg": ("EPIPE", "ENOMEM", "ETOOMANYREFS"),
    "close": ("EIO", "EINTR", "ENOSPC"), "rename": ("EIO", "ENOSPC", "EPERM"),
    "renameat": ("EIO", "ENOSPC", "EPERM"), "unlink": ("EPERM", "EIO"),
    "mmap": ("ENOMEM", "EPERM", "EAGAIN"), "mmap64": ("ENOMEM", "EPERM", "EAGAIN"),
    "mprotect": ("ENOMEM", "EACCES"), "munmap": ("ENOMEM",), "madvise": ("ENOMEM", "EINVAL"),
    "memfd_create": ("EMFILE", "ENOMEM", "EPERM"), "syscall:319": ("EMFILE", "ENOMEM", "EPERM"),
    "ftruncate": ("ENOSPC", "EIO"), "ftruncate64": ("ENOSPC", "EIO"),
    "fork": ("EAGAIN", "ENOMEM"), "posix_spawn": ("EAGAIN", "ENOMEM"),
    "pthread_create": ("EAGAIN", "EPERM"), "timer_create": ("EAGAIN", "ENOMEM"),
    "waitid": ("EINTR", KILL), "waitpid": ("EINTR", KILL), "poll": ("EINTR", "ENOMEM"),
    "nanosleep": ("EINTR",), "sigtimedwait": ("EINTR", "EAGAIN"),
    "process_vm_readv": ("EPERM", "ESRCH", "ENOSYS", "ENOMEM", "EFAULT", CUT),
    "process_vm_writev": ("EPERM", "ESRCH", "ENOSYS", "ENOMEM", "EFAULT", CUT),
    "kill": ("ESRCH", "EPERM"), "execve": ("ENOMEM", "EACCES", "ETXTBSY"),
    "socketpair": ("EMFILE", "ENOMEM"), "pipe2": ("EMFILE", "ENFILE"),
    "fcntl": ("EMFILE", "EINVAL"), "fcntl64": ("EMFILE", "EINVAL"),
    "aligned_alloc": ("ENOMEM",), "new": ("ENOMEM",), "malloc": ("ENOMEM",),
    "posix_memalign": ("ENOMEM",), "lseek": ("ESPIPE",), "lseek64": ("ESPIPE",),
    "dup": ("EMFILE",), "dup2": ("EMFILE", "EINTR"), "pipe": ("EMFILE", "ENFILE"), "dlopen": ("ENOENT",),
    "getpwuid": ("EMFILE", "EIO"), "sysconf": ("EINVAL",), "setpgid": ("EPERM", "ESRCH"),
    "statvfs": ("ENOSYS", "EIO"), "statvfs64": ("ENOSYS", "EIO"), "statfs64": ("ENOSYS", "EIO"),
    "setpriority": ("EACCES", "EPERM"), "sched_setscheduler": ("EPERM", "EINVAL", "ESRCH"),
    "sched_setaffinity": ("EINVAL", "ESRCH", "EPERM"), "sched_getaffinity": ("EINVAL", "ESRCH"),
    "readlink": ("EACCES", "ENOENT", "ENOMEM"), "realpath": ("EACCES", "ENOENT", "ENOMEM"),
    "stat": ("EACCES", "ENOENT", "ENOMEM"), "stat64": ("EACCES", "ENOENT", "ENOMEM"),
    "mremap": ("ENOMEM", "EAGAIN"), "timer_settime": ("EINVAL",), "prctl": ("EINVAL", "EPERM"),
    "ioctl": ("ENOTTY", "EPERM", "EINTR", "ENOMEM"),
    "syscall:298": ("EACCES", "ENOSYS", "EMFILE", "ENOMEM"),  # perf_event_open
    "syscall:434": ("EMFILE", "ENOSYS", "ESRCH"), "syscall:438": ("EMFILE", "ENOSYS", "EPERM"),
    "syscall:437": ("ENOSYS", "EACCES", "EMFILE", "EAGAIN"),  # openat2
    "syscall:312": ("ENOSYS", "EPERM"),  # kcmp
    "ptrace:suspend": ("EPERM", "EINVAL", KILL),  # SETOPTIONS that suspend seccomp filters
    # Calls of the program: close, munmap, wait4, rt_sigaction, which fail for fewer reasons.
    "remote:3": ("EINTR", KILL), "remote:11": ("ENOMEM", KILL), "remote:61": (KILL,),
    "remote:13": (KILL,),
    # These cannot fail as they are called.
    "syscall:186": (), "syscall:14": (), "syscall:13": (), "syscall:158": (), "sigaction": (),
    "uname": (),
}
# ptrace, by request. All say ESRCH of a thread that is dead, and only then: such a thread is
# killed first. What else the kernel can say at those that may be refused:
PTRACE = {
    16902: ("EPERM",),            # SEIZE: not permitted, or being traced already
    16908: ("EACCES", "EINVAL"),  # SECCOMP_GET_FILTER
    16910: ("EIO",), 16911: ("EIO",), 16912: ("EIO",),  # requests of newer kernels
}


@dataclass(frozen=True)
class Site:
    name: str
    key: int
    calls: int
    frames: tuple


@dataclass(frozen=True)
class Plan:
    """Calls `first` to first + count - 1 of the site fail so; key 0: all sites of that name.
    `then`: what else fails, behind it."""

    name: str
    key: int
    failure: str
    first: int = 1
    count: int = 1
    then: "Plan" = None

    def text(self):
        action = self.failure if self.failure in (CUT, KILL, DIE) else "fail"
        value = getattr(errno, self.failure) if action == "fail" else 0
        own = f"{self.name} {self.key:x} {self.first} {self.count} {action} {value}"
        return f"{own}; {self.then.text()}" if self.then else own

    def describe(self):
        which = f"call {self.first}" if self.count == 1 else f"calls {self.first} and later"
        own = f"{self.name} at {self.key:016x}, {which}: {self.failure}"
        return f"{own}, then {self.then.describe()}" if self.then else own

    def all(self):
        return (self,) + (self.then.all() if self.then else ())


def parse_plan(text):
    plan = None
    for words in reversed(text.split(";")):
        name, key, first, count, action, value = words.split()
        failure = action if action in (CUT, KILL, DIE) else errno.errorcode[int(value)]
        plan = Plan(name, int(key, 16), failure, int(first), int(count), plan)
    return plan


def read_table(path):
    """(number of calls that failed, sites)"""
    with open(path, "rb") as file:
        content = file.read()
    failed, dropped, _ = HEAD.unpack_from(content)
    if dropped:
        raise RuntimeError(f"{dropped} call sites did not fit into the table")
    sites = []
    for i in range(SITES):
        key, calls, name, *frames = SITE.unpack_from(content, HEAD.size + i * SITE.size)
        if key:
            sites.append(Site(name.rstrip(b"\0").decode(), key, calls,
                              tuple(f for f in frames if f)))
    return failed, sorted(sites, key=lambda s: (s.name, s.key))


def failures_of(name, deadly):
    """`deadly`: who is killed behind calls, too: DIE, KILL."""
    failures = failures_by_name(name)
    if name in ALLOCATIONS or not failures:
        return failures
    return failures + tuple(end for end in deadly if end not in failures)


def failures_by_name(name):
    if name in FAILURES:
        return FAILURES[name]
    if name.startswith("ptrace:"):
        return PTRACE.get(int(name.split(":")[1]), ()) + (KILL,)
    if name.startswith("remote:"):
        return REMOTE
    return USUAL


FOREVER = 1 << 40
ALLOCATIONS = ("new", "malloc")


def exhaustive_plans(sites, stops, deadly):
    """Each site with each failure at its first call, then at a later one, and from then on; the
    death of the program at each of the first `stops` stops."""
    first, more = [], []
    for site in sites:
        for failure in failures_of(site.name, deadly):
            # The first failure of operator new costs the reserve only (base/short_memory.h).
            first.append(Plan(site.name, site.key, failure, 1, 2 if site.name == "new" else 1))
            if site.calls > 2:
                more.append(Plan(site.name, site.key, failure, 1 + site.calls // 2))
            if failure in ("EINTR", "EAGAIN", CUT, KILL, DIE) or site.name.startswith("ptrace:"):
                continue  # would not end, or is the same
            if site.calls > 1:
                more.append(Plan(site.name, site.key, failure, 1, FOREVER))
    names = {site.name for site in sites}
    for name in ("waitid", "waitpid"):
        if name in names:
            more += [Plan(name, 0, KILL, n) for n in range(1, stops + 1)]
    return first, more


def plans_behind(plan, sites, known, deadly):
    """The same fault, and then one at each call that was made because of it."""
    if plan.then or plan.failure in (KILL, DIE) or plan.name in ALLOCATIONS:
        return []
    return [Plan(plan.name, plan.key, plan.failure, plan.first, plan.count,
                 Plan(site.name, site.key, failure))
            for site in sites if site.key not in known
            for failure in failures_of(site.name, deadly)]


# Calls that fail where a host is short of something.
SCARCE = ("timer_create", "pthread_create", "aligned_alloc", "memfd_create", "fork", "rename", "stat")


def quick_plans(sites, deadly, chance):
    """The site of each name that is called most, and all sites of scarce things; how it fails is
    drawn."""
    plans = []
    for name in sorted({site.name for site in sites}):
        some = sorted((s for s in sites if s.name == name), key=lambda s: (-s.calls, s.key))
        failures = failures_of(name, deadly)
        most = len(some) if name in SCARCE else 1
        for site in some[:most] if failures else ():
            plans.append(Plan(name, site.key, chance.choice(failures)))
    return plans


def remote_range(shadowprof):
    """Where the calls that the program is made to execute begin, for FAULTS_REMOTE."""
    listing = subprocess.run(["nm", "-CS", shadowprof], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        words = line.split(None, 3)
        if len(words) == 4 and words[3].startswith("shadowprof::ptrace::RemoteSyscalls::call_once(") \
                and words[3].endswith(")") and words[2] in "tT":
            start = int(words[0], 16)
            return f"{start:x}-{start + int(words[1], 16):x}"
    return ""


def where(shadowprof, site):
    """The site in words: functions, innermost first."""
    if not site.frames:
        return ""
    addresses = [hex(f - 1) for f in site.frames]
    found = subprocess.run(["addr2line", "-sfCe", shadowprof] + addresses, capture_output=True,
                           text=True).stdout.splitlines()
    places = [f"{function.split('(')[0].replace('shadowprof::', '')} {line.split(' ')[0]}"
              for function, line in zip(found[::2], found[1::2])]
    return " < ".join(places)
