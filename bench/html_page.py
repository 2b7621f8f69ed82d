#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How a browser copes with the page that report --html makes of a large profile.

usage: html_page.py SHADOWPROF PROFILE

Renders PROFILE, opens the page in headless Chromium and prints the sizes of profile and page, what
rendering took, the time until the page is drawn, the memory of the page's process, and of each list
the slowest keystroke of a search, the slowest change of order and the change to it. Times are from
the event to the next frame drawn after it, which alone takes up to 33 ms (60 frames a second), and
in brackets what of that the page's script and its layout take.
"""

import argparse
import importlib.util
import os
import pathlib
import resource
import shutil
import sys
import tempfile
import time

from measure import seconds

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "gate" / "html.py"
WORDS = ["std", "vector", "tree_node", "a", "mem", "xyzzy"]

# An action; when its script and its layout are done, and when it is on the screen.
DRAWN = """new Promise((done) => {
  const start = performance.now();
  %s;
  document.body.offsetHeight;
  const busy = performance.now() - start;
  requestAnimationFrame(() => requestAnimationFrame(() => done([busy, performance.now() - start])));
})"""
TYPE = """(() => { const s = document.getElementById('search'); s.value = %r;
  s.dispatchEvent(new Event('input')); })()"""


def browser_class():
    sys.path.insert(0, str(TESTS.parent))  # of what it imports
    spec = importlib.util.spec_from_file_location("html_test", TESTS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Browser


def slowest(browser, actions):
    times = [browser.run(DRAWN % action) for action in actions]
    return max(t[1] for t in times), max(t[0] for t in times)


def shown(times):
    return f"{times[1]:.0f} ms, with the frame {times[0]:.0f} ms"


def lists(browser):
    buttons = "document.querySelectorAll('#tabs button')"
    for tab in range(browser.run(f"{buttons}.length")):
        name = browser.run(f"{buttons}[{tab}].firstChild.textContent")
        change = slowest(browser, [f"{buttons}[{tab}].click()"])
        rows = browser.run("document.querySelectorAll('#view tbody tr').length")
        if name == "Run":
            print(f"  {name}: to it {shown(change)}")
            continue
        typed = [TYPE % word[:n + 1] for word in WORDS for n in range(len(word))] + [TYPE % ""]
        keys = slowest(browser, typed)
        heads = browser.run("document.querySelectorAll('#view > * thead th button').length")
        order = slowest(browser, [f"document.querySelectorAll('#view > * thead th button')[{h}].click()"
                                  for h in range(min(heads, 4))])
        print(f"  {name}: {rows} rows; to it {shown(change)}; keystroke {shown(keys)}; "
              f"order {shown(order)}", flush=True)


def page_memory(browser):
    """Resident memory of the largest process of the browser that draws pages."""
    sizes = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if b"--type=renderer" in (entry / "cmdline").read_bytes() and \
                    os.getpgid(int(entry.name)) == os.getpgid(browser.process.pid):
                status = (entry / "status").read_text()
                sizes.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
        except (OSError, ValueError, IndexError):
            pass
    return max(sizes, default=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shadowprof")
    parser.add_argument("profile", type=pathlib.Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        page = pathlib.Path(name) / "page.html"
        took = seconds([options.shadowprof, "report", "--html", "-o", page, options.profile])
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"profile {options.profile.stat().st_size / 1e6:.1f} MB, page "
              f"{page.stat().st_size / 1e6:.2f} MB, rendered in {took:.1f} s with {memory:.0f} MB")
        browser = browser_class()(chromium, pathlib.Path(name) / "browser")
        try:
            start = time.monotonic()
            browser.open(page)
            browser.run(DRAWN % "")
            drawn = time.monotonic() - start
            heap = browser.call("Runtime.getHeapUsage")["usedSize"] / 1e6
            print(f"drawn after {drawn:.2f} s; the script's memory {heap:.0f} MB, the page's process "
                  f"{page_memory(browser):.0f} MB")
            lists(browser)
            print(f"after all lists: the page's process {page_memory(browser):.0f} MB")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
