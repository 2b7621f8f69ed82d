# SPDX-License-Identifier: MIT
"""The table of everyday programs: what runs, on what input, and what may differ between two runs."""

from dataclasses import dataclass, field

import inputs

MB = 1 << 20

# Inputs by file name; made once, copied into the directory of every run that names them.
INPUTS = {
    "IN": lambda: inputs.text(3 * MB),
    "IN_SMALL": lambda: inputs.text(20000, 3),
    "NUMBERS": lambda: inputs.numbers(60000),
    "m.cc": lambda: inputs.CPP_PROGRAM,
    "m.lua": lambda: inputs.LUA_PROGRAM,
    "m.py": lambda: inputs.PYTHON_PROGRAM,
    "m.pl": lambda: inputs.PERL_PROGRAM,
    "m.rb": lambda: inputs.RUBY_PROGRAM,
    "m.js": lambda: inputs.JS_PROGRAM,
    "Main.java": lambda: inputs.JAVA_PROGRAM,
    "m.sql": lambda: inputs.SQL_SCRIPT,
    "m.sh": lambda: inputs.BASH_SCRIPT,
    "m.awk": lambda: inputs.AWK_PROGRAM,
    "Makefile": lambda: inputs.MAKEFILE,
}


@dataclass
class External:
    name: str
    needs: str  # the command that must be installed
    command: object  # a list, or a line for sh
    inputs: tuple = ()
    stdin: str = ""  # an input's name
    follow: bool = False  # -f: the work is done in a child
    quick: bool = True  # a few seconds natively at most
    # [(pattern, replacement)], each with the reason beside it in the table.
    normalise: tuple = ()
    environment: dict = field(default_factory=dict)
    status: int = 0  # what it must exit with natively: a case that fails proves nothing
    files: bool = True  # whether what the command leaves is compared
    wraps_itself: bool = False  # a script with $UNDER before what is profiled
    probe: str = ""  # a shell line that must succeed natively, else the case is skipped


# Process ids, and how long things took.
STRESS = ((rb"\[\d+\]", b"[pid]"), (rb"\d+\.\d+ ?s(ecs?)?\b", b"time"), (rb"in \d+\S* secs?", b"time"))
# Only slow tests say that they passed; the summary differs in empty lines then.
PYTHON_TESTS = ((rb"\w+ passed in .*\n", b""), (rb"\n+", b"\n"),
                (rb"Total duration: .*", b"time"), (rb"\d+:\d\d:\d\d( load avg: \S+)?", b"time"),
                (rb"tests? took .*", b"time"), (rb"Using random seed: \d+", b"seed"),
                (rb"\d+(\.\d+)? ?(ms|sec|min)( \d+(\.\d+)? sec)?\b", b"time"))
SPEED = ((rb"\d+(\.\d+)?k?", b"n"), (rb" +", b" "))


def stress(name, *arguments, quick=True):
    return External("stress-ng-" + name, "stress-ng",
                    ["stress-ng", "--no-rand-seed", "--timeout", "100", *arguments], follow=True,
                    quick=quick, normalise=STRESS, files=False)


def python_test(module, quick=True):
    return External("python-" + module, "/usr/bin/python3",
                    ["/usr/bin/python3", "-m", "test", "-q", module], quick=quick, follow=True,
                    normalise=PYTHON_TESTS, files=False,
                    environment={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
                    probe=f"/usr/bin/python3 -c 'import test.{module}'")


CASES = [
    External("gzip", "gzip", "gzip -n -9 -c IN", ("IN",)),
    External("gzip-round-trip", "gzip", "gzip -n IN && gzip -d IN.gz && cksum IN", ("IN",)),
    External("bzip2", "bzip2", "bzip2 -c IN", ("IN",)),
    External("xz", "xz", "xz -T1 -3 -c IN", ("IN",)),
    External("xz-threads", "xz", "xz -T0 --block-size=512KiB -1 -c IN", ("IN",)),
    External("xz-round-trip", "xz", "$UNDER xz -T2 --block-size=1MiB -1 -c IN | xz -dc | cmp - IN", ("IN",),
             wraps_itself=True),
    External("pigz", "pigz", "pigz -n -p2 -c IN | pigz -dc | cmp - IN", ("IN",), follow=True),
    External("zstd", "zstd", ["zstd", "-q", "-T1", "-9", "-c", "IN"], ("IN",)),
    External("zstd-threads", "zstd", ["zstd", "-q", "-T2", "-3", "-c", "IN"], ("IN",)),
    External("lz4", "lz4", ["lz4", "-q", "-9", "-c", "IN"], ("IN",)),
    External("tar", "tar", "tar --mtime=@0 --owner=0 --group=0 -cf t.tar IN IN_SMALL && tar -tvf t.tar",
             ("IN", "IN_SMALL"), follow=True),
    # Times and speeds; only the shape of the output and the exit status are left.
    External("7z-benchmark", "7z", ["7z", "b", "-mmt1", "-md18", "1"], quick=False,
             normalise=((rb"(?s).*", b""),)),
    External("7z-round-trip", "7z", "7z a -bd -mx3 a.7z IN >log && 7z x -bd -oout a.7z >>log && "
             "cmp IN out/IN; s=$?; rm -f a.7z log; exit $s", ("IN",), follow=True),
    External("openssl-digests", "openssl", "for d in md5 sha1 sha256 sha512 sha3-256 blake2b512; do "
             "openssl dgst -$d IN; done", ("IN",), follow=True),
    External("openssl-sha256", "openssl", ["openssl", "dgst", "-sha256", "IN"], ("IN",)),
    External("openssl-ciphers", "openssl", "for c in aes-256-cbc aes-128-ctr chacha20 camellia-128-cbc; do "
             "openssl enc -$c -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff "
             "-iv 00112233445566778899aabbccddeeff -in IN 2>&1 | cksum; done", ("IN",), follow=True),
    # Numbers of operations in a second.
    External("openssl-speed", "openssl", ["openssl", "speed", "-seconds", "1", "sha256", "aes-128-cbc"],
             quick=False, normalise=SPEED),
    External("openssl-rsa", "openssl", "openssl genrsa -out k 2048 2>/dev/null && "
             "openssl dgst -sha256 -sign k -out s IN_SMALL && openssl rsa -in k -pubout -out p 2>/dev/null "
             "&& openssl dgst -sha256 -verify p -signature s IN_SMALL; rm -f k s p", ("IN_SMALL",),
             follow=True),
    External("sqlite-memory", "sqlite3", ["sqlite3", ":memory:"], stdin="m.sql"),
    External("sqlite-disk", "sqlite3", ["sqlite3", "t.db"], stdin="m.sql"),
    External("sqlite-recursive", "sqlite3", ["sqlite3", ":memory:", "with recursive n(i) as (select 1 union all "
             "select i + 1 from n where i < 200000) select sum(i * i % 7), count(distinct i % 1009) from n"]),
    External("perl", "perl", ["perl", "m.pl"], ("m.pl",), stdin="IN_SMALL"),
    External("perl-fork", "perl", ["perl", "-e", "for(1..200){my $p=fork; if(!$p){exit $_%7} waitpid $p,0; "
             "$s+=$?>>8} print $s"], follow=True),
    External("python", "/usr/bin/python3", ["/usr/bin/python3", "-S", "m.py"], ("m.py",),
             environment={"PYTHONHASHSEED": "0"}),
    External("python-subprocess", "/usr/bin/python3", ["/usr/bin/python3", "-c", "import subprocess, "
             "multiprocessing as m, threading\nprint(subprocess.run(['sh', '-c', 'echo $((6*7)); exit 4'], "
             "capture_output=True))\nwith m.get_context('fork').Pool(3) as p: print(sum(p.map(abs, range(-200, 0))))"],
             follow=True),
    *(python_test(name) for name in ("test_math", "test_struct", "test_json", "test_float", "test_strtod",
                                     "test_zlib")),
    *(python_test(name, quick=False) for name in ("test_long", "test_re", "test_hashlib", "test_threading",
                                                  "test_signal", "test_eintr")),
    External("g++", "g++", "g++ -O2 -std=c++20 m.cc -o m && ./m", ("m.cc",), follow=True, quick=False),
    External("g++-debug", "g++", "g++ -O0 -g -c m.cc -o m.o", ("m.cc",), follow=True, quick=False),
    External("cc1plus", "g++", "g++ -O2 -std=c++20 -E m.cc -o m.ii && "
             "$UNDER $(g++ -print-prog-name=cc1plus) -quiet -O2 -std=c++20 -fpreprocessed m.ii -o m.s",
             ("m.cc",), quick=False, wraps_itself=True),
    External("clang", "clang", "clang++ -O2 -std=c++20 -c m.cc -o m.o", ("m.cc",), follow=True, quick=False),
    External("gawk", "gawk", ["gawk", "-f", "m.awk", "NUMBERS"], ("m.awk", "NUMBERS"), follow=True),
    External("mawk", "mawk", ["mawk", "-f", "m.awk", "NUMBERS"], ("m.awk", "NUMBERS"), follow=True),
    External("sort", "sort", ["sort", "--parallel=2", "-k3,3", "-k1,1nr", "NUMBERS"], ("NUMBERS",)),
    External("sort-random-hash", "sort", ["sort", "-S", "1M", "-u", "IN"], ("IN",)),
    External("sed", "sed", ["sed", "-E", "-n", r"s/([a-z]+) ([a-z0-9]+)/\2 \1/gp", "IN"], ("IN",)),
    External("grep", "grep", ["grep", "-E", "-c", r"(the|and) [a-z]+[0-9]{2}\b", "IN"], ("IN",)),
    External("jq", "jq", ["jq", "-n", "[range(20000) | {a: ., b: (. * 7 % 101)}] | group_by(.b) | map(length) | add"]),
    External("bc", "bc", "echo 'scale=300;4*a(1);e(1);l(2)' | bc -l", follow=True),
    External("bash", "bash", ["bash", "m.sh"], ("m.sh", "IN_SMALL"), follow=True, status=7),
    External("dash", "dash", ["dash", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; echo $i; "
             "echo a | cat | cat; trap 'echo t' TERM; kill $$; exit 9"], follow=True, status=9),
    External("make", "make", ["make", "-s", "-j2"], ("Makefile",), follow=True),
    External("xargs", "xargs", "seq 1 40 | xargs -P2 -n4 sh -c 'echo $(($1 * $2 * $3 * $4))' x | sort -n",
             follow=True),
    External("git", "git", "git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -q -m x && "
             "git log --format=%T && git fsck --strict && rm -rf .git", ("IN_SMALL", "m.py"), follow=True),
    External("lua", "lua", ["lua", "m.lua"], ("m.lua",)),
    External("luajit", "luajit", ["luajit", "m.lua"], ("m.lua",)),
    External("luajit-interpreter", "luajit", ["luajit", "-joff", "m.lua"], ("m.lua",)),
    External("tclsh", "tclsh", "echo 'proc f n {expr {$n < 2 ? $n : [f [expr {$n-1}]] + [f [expr {$n-2}]]}}; "
             "puts [f 17]; puts [lsort -integer {3 1 2}]' | tclsh", follow=True),
    External("ruby", "ruby", ["ruby", "m.rb"], ("m.rb",)),
    External("ruby-yjit", "ruby", ["ruby", "--yjit", "m.rb"], ("m.rb",), quick=False,
             probe="ruby --yjit -e 1"),
    External("node", "node", ["node", "m.js"], ("m.js",)),
    External("node-interpreter", "node", ["node", "--jitless", "m.js"], ("m.js",), quick=False),
    External("java", "java", "javac Main.java && $UNDER java -Xmx128m -XX:-UsePerfData Main; s=$?; rm -f *.class; "
             "exit $s", ("Main.java",), quick=False, wraps_itself=True, probe="command -v javac", status=3),
    External("java-interpreter", "java", "javac Main.java && $UNDER java -Xint -Xmx128m -XX:-UsePerfData Main; s=$?; "
             "rm -f *.class; exit $s", ("Main.java",), quick=False, wraps_itself=True,
             probe="command -v javac", status=3),
    External("redis", "redis-server", "$UNDER redis-server --port 0 --unixsocket $PWD/s --save '' --daemonize no >log & "
             "i=0; while ! redis-cli -s s ping 2>/dev/null && [ $i -lt 300 ]; do i=$((i+1)); sleep 0.1; done; "
             "redis-benchmark -s s -n 20000 -c 20 -q -t set,get,incr >bench && "
             "redis-cli -s s get counter:__rand_int__; redis-cli -s s shutdown nosave; wait $!; echo $?; "
             "rm -f bench log s", wraps_itself=True, probe="command -v redis-benchmark",
             # How many times the socket was not there yet.
             normalise=((rb"(Could not connect.*\n)+", b""),)),
    External("timeout", "timeout", ["timeout", "-s", "INT", "1", "sh", "-c", "trap 'echo int; exit 5' INT; "
             "while :; do :; done"], follow=True, status=124),
    External("true", "true", ["true"]),
    External("echo", "echo", ["echo", "one", "two"]),
    External("yes-head", "yes", "yes | head -n 200000 | cksum", follow=True),
    External("find", "find", "find . -type f | sort", ("IN_SMALL", "m.py", "Makefile"), follow=True),
    stress("cpu", "--cpu", "1", "--cpu-method", "all", "--cpu-ops", "88", "--verify", quick=False),
    *(stress(name, f"--{name}", "1", f"--{name}-ops", "20", "--verify", quick=False)
      for name in ("vecmath", "vecfp", "vecshuf", "vecwide", "crypt")),
    *(stress(name, f"--{name}", "1", f"--{name}-ops", "2000", "--verify")
      for name in ("sigsegv", "sigfpe", "sigq", "sigpending")),
    stress("sigsuspend", "--sigsuspend", "1", "--sigsuspend-ops", "2000", "--verify"),
    stress("pthread", "--pthread", "1", "--pthread-ops", "500"),
    # It fails by itself when its first thread has done them all before pthread_create returns, which
    # 5000 were too few for on a machine that was busy.
    stress("mutex", "--mutex", "1", "--mutex-ops", "50000"),
    stress("futex", "--futex", "1", "--futex-ops", "2000"),
    stress("fork", "--fork", "1", "--fork-ops", "200"),
    stress("vfork", "--vfork", "1", "--vfork-ops", "200"),
    stress("clone", "--clone", "1", "--clone-ops", "100"),
    stress("switch", "--switch", "1", "--switch-ops", "2000"),
    stress("memory", "--vm", "1", "--vm-bytes", "8m", "--vm-ops", "200", "--verify", quick=False),
    stress("malloc", "--malloc", "1", "--malloc-ops", "5000", "--verify"),
    stress("stackmmap", "--stackmmap", "1", "--stackmmap-ops", "5"),
]
