#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Snapshots of real programs in both engines (`shadowprof run --verify`): no instruction may differ.

usage: verify.py SHADOWPROF
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

SQL = "with recursive c(x) as (select 1 union all select x+1 from c where x<900000) " \
      "select sum(x), count(*), max(x*3.5), sum(length('row'||x)) from c"
PERL = "my %h; for(1..900000){$h{$_%97}+=$_; $s.=chr(97+$_%26)} print length($s), join(',',%h)"
PYTHON = "print(sum(hash(str(i)) % 7 for i in range(900000)), sorted(str(i*7919%10007) " \
         "for i in range(90000))[5])"


def cases(folder):
    data = os.path.join(folder, "data")
    with open(data, "wb") as out:
        out.write(b"".join(str(i * i).encode() for i in range(900000)))
    yield ["gzip", "-9", "-c", data]
    yield ["bzip2", "-c", data]
    yield ["xz", "-2", "-T1", "-c", data]
    yield ["openssl", "dgst", "-sha3-512", data, data, data]
    yield ["sqlite3", ":memory:", SQL]
    yield ["perl", "-e", PERL]
    yield ["/usr/bin/python3", "-c", PYTHON]


def main():
    shadowprof = sys.argv[1]
    failed, total = 0, 0
    with tempfile.TemporaryDirectory(prefix="verify-") as folder:
        profile = os.path.join(folder, "profile.json")
        for command in cases(folder):
            if not shutil.which(command[0]):
                print(f"{command[0]}: not installed")
                continue
            done = subprocess.run(
                [shadowprof, "run", "-v", "--verify", "--max-overhead=100%", "--load=1",
                 "--sample-size=1M", "-o", profile, "--", *command],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300, check=True)
            found = read_profile(profile)["coverage"].get("verified", {})
            total += found.get("instructions", 0)
            print(f"{command[0]}: {found}")
            if found.get("diverged", 0) != 0:
                failed += 1
                print("\n".join(l for l in done.stderr.splitlines() if "do not agree" in l))
    print(f"{total} instructions agree")
    return 1 if failed or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
