#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The HTML pages in a real browser, of one profile and of two: they draw themselves, ask the network
nothing, and names from a hostile program do nothing.

usage: html.py --shadowprof PATH --program PROGRAM --slower PROGRAM --crew PROGRAM [--screenshots FOLDER]
               [--only CASE]

SLOWER is PROGRAM with one function that does more; CREW has several threads.

Drives headless Chromium through a pipe (its DevTools protocol); status 77 and the reason where there
is none. Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import base64
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from gate_cases import Skipped, require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import read_profile  # noqa: E402

TIMEOUT_S = 60
PAYLOADS = ["<script>window.pwned = 1</script>", "</script><img src=x onerror='window.pwned=1'>",
            "<!--<script>", "\u202eevil\u2066", "x" * 10_000, "\"'`${window.pwned=1}", "@SCRIPT@ @DATA@"]


class Browser:
    """One page of headless Chromium."""

    def __init__(self, program, folder):
        from_us, to_us = os.pipe(), os.pipe()

        def give_pipes():
            # Out of the way of 3 and 4 first: either may be one of ours.
            ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (from_us[0], to_us[1])]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars",
             "--window-size=1500,1000", f"--user-data-dir={folder}", "--remote-debugging-pipe",
             "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us[0])
        os.close(to_us[1])
        self.out, self.inp, self.last = from_us[1], to_us[0], 0
        self.rest, self.events, self.page = b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.page = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()

    def message(self):
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self.rest:
            require(time.monotonic() < deadline, "the browser says nothing")
            more = os.read(self.inp, 1 << 20)
            require(more, "the browser ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **parameters):
        self.last += 1
        request = {"id": self.last, "method": method, "params": parameters}
        if self.page:
            request["sessionId"] = self.page
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.message()
            if answer.get("id") == self.last:
                require("error" not in answer, f"{method}: {answer.get('error')}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        # From elsewhere: another fragment of the page that is open would load nothing.
        self.navigate("about:blank")
        self.navigate(f"file://{path}")

    def navigate(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        require("exceptionDetails" not in answer, f"{script}: {answer}")
        return answer["result"].get("value")

    def press(self, key, text=None):
        kind = {"type": "keyDown", "key": key}
        if text or len(key) == 1:
            kind["text"] = text or key
        self.call("Input.dispatchKeyEvent", **kind)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path):
        shot = self.call("Page.captureScreenshot", format="png")
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def complaints(self):
        """Errors on the console, exceptions, and requests for anything but the page itself."""
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(about["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
                found.append(str(about["args"]))
            elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
                found.append(about["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = about["request"]["url"]
                if not url.startswith(("file://", "data:")) or url.count("file://") and \
                        not url.split("#")[0].endswith(".html"):
                    found.append(f"request for {url}")
        return found


ROWS = "document.querySelectorAll('#view tbody')[0].rows.length"


class Pages:
    def __init__(self, options, browser, folder):
        self.options, self.browser, self.folder = options, browser, folder
        self.profile = folder / "profile.json"
        self.shadowprof("run", "--mode", "full", "-q", "--profile", "edge,call,method,path,value",
                        "-o", self.profile, "--", options.program)
        self.base, self.slower = folder / "base.json", folder / "slower.json"
        for profile, program in ((self.base, options.program), (self.slower, options.slower)):
            self.shadowprof("run", "--mode", "full", "--deterministic", "--exact-inclusive", "-q", "-o",
                            profile, "--", program)

    def shadowprof(self, *arguments):
        done = subprocess.run([self.options.shadowprof, *map(str, arguments)], check=False, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        require(done.returncode == 0, done.stderr)

    def open(self, profile=None):
        page = self.folder / "page.html"
        self.shadowprof("report", "--html", "-o", page, profile or self.profile)
        self.browser.open(page)
        return page

    def open_diff(self, base=None, now=None):
        page = self.folder / "changes.html"
        self.shadowprof("report", "--html", "-o", page, base or self.base, now or self.slower)
        self.browser.open(page)
        return page

    def tab(self, name):
        self.browser.run("[...document.querySelectorAll('#tabs button')]"
                         f".find((b) => b.firstChild.textContent === '{name}').click()")

    def again(self, page):
        """The page at the address that it has now, loaded anew."""
        self.browser.open(f"{page}{self.browser.run('location.hash')}")

    def diff(self, base=None, now=None):
        done = subprocess.run([self.options.shadowprof, "diff", "--json", "--limit", "1000", base or self.base,
                               now or self.slower], check=True, text=True, capture_output=True, timeout=120)
        return json.loads(done.stdout)


def draws_itself_and_asks_nothing(p):
    p.open()
    require(p.browser.run(ROWS) > 10, "no functions")
    require(p.browser.run("document.querySelectorAll('.tile').length") >= 4, "no summary")
    draws_each_tab(p)


def shows_what_the_profile_counts(p):
    p.open()
    profile = read_profile(p.profile)
    hottest = profile["hotlists"]["methods"][0]
    shown = p.browser.run("document.querySelector('#view .detail').textContent")
    require(f"{hottest['self_instructions']:,} instructions of its own" in shown, shown[:300])
    require(p.browser.run("document.querySelectorAll('.listing').length") == 2,
            "no source or no code of the hottest function")


def findings_stand_first_and_lead_to_the_function(p):
    p.open()
    printed = subprocess.run([p.options.shadowprof, "report", "--limit", "300", "--color", "never", p.profile], check=True, text=True,
                             env={**os.environ, "COLUMNS": "1000"}, capture_output=True, timeout=120).stdout
    shares = re.findall(r"^ +([0-9.]+%)  ", printed.partition("Findings (")[2].partition("\n\n")[0], re.MULTILINE)
    require(shares, "the report finds nothing: what does this test?")
    b = p.browser
    rows = "[...document.querySelectorAll('#findings tr')].map((r) => r.cells[%d].textContent)"
    require(b.run(rows % 0) == shares, f"{b.run(rows % 0)} on the page, {shares} in the report")
    name = b.run("document.querySelector('#findings .go').textContent.split('  ')[0]")
    b.run("document.querySelector('#findings .go').click()")
    opened = b.run("document.querySelector('#view .detail h2').textContent")
    require(name.split("::")[-1] in opened, f"{name} opens {opened}")
    require(not b.complaints(), f"{b.complaints()}")


def inlined_functions_have_a_list(p):
    p.open()
    rows = read_profile(p.profile)["inlined"]
    require(rows, "the program has none: what does this test?")
    tabs = "[...document.querySelectorAll('#tabs button')]"
    p.browser.run(f"{tabs}.find((b) => b.textContent.startsWith('Inlined')).click()")
    hottest = max(rows, key=lambda row: row["self_instructions"])
    first = p.browser.run("document.querySelector('#view tbody tr').textContent")
    require(hottest["name"].split("(")[0].split("::")[-1] in first, first)


def keys_work(p):
    p.open()
    b = p.browser
    all_rows = b.run(ROWS)
    b.press("/")
    for key in "parse":
        b.press(key)
    few = b.run(ROWS)
    require(0 < few < all_rows, f"{few} of {all_rows} rows found")
    b.press("Enter", "\r")
    require("parse" in b.run("document.querySelector('#view .detail h2').textContent"), "not opened")
    b.press("/")
    b.press("Escape")
    require(b.run(ROWS) == all_rows, "the search is not empty")
    b.press("Escape")
    b.press("j")
    b.press("j")
    require(b.run("document.querySelectorAll('tr.picked').length") == 1, "no row picked")
    b.press("3")
    require(b.run("document.querySelector('#tabs [aria-selected=true]').textContent")
            .startswith("Edges"), "not the edges")
    before = b.run("document.documentElement.getAttribute('data-scheme')")
    b.press("t")
    require(before != b.run("document.documentElement.getAttribute('data-scheme')"), "same scheme")
    b.press("?")
    require(b.run("document.querySelector('#keys').open"), "no help")
    require(not b.complaints(), f"{b.complaints()}")


def columns_sort(p):
    p.open()
    cells = ("[...document.querySelectorAll('#view tbody')[0].rows].map(r => r.cells[4].textContent)")
    p.browser.run("document.querySelectorAll('#view th button')[4].click()")
    names = p.browser.run(cells)
    require(p.browser.run("(a => JSON.stringify([...a].sort((x, y) => x < y ? -1 : x > y ? 1 : 0))"
                          f" === JSON.stringify(a))({cells})"), f"{names[:5]}")


def what_is_drawn_at_a_keystroke_is_bounded(p):
    p.open()
    b = p.browser
    there = b.run("JSON.parse(document.getElementById('data').textContent).own_list")
    drawn = b.run(ROWS)
    require(drawn < there, f"all {there} functions are drawn at once")
    b.run("document.querySelector('#view .scroll').scrollTop = 1e6")
    b.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    more = b.run(ROWS)
    require(more > drawn, f"{more} rows after scrolling, {drawn} before")
    for _ in range(more + 1):
        b.press("j")
    require(b.run(ROWS) > more, "the keys do not go beyond what was drawn")
    require(b.run("document.querySelectorAll('tr.picked').length") == 1, "no row picked")
    last = "JSON.parse(document.getElementById('data').textContent).functions[%d][0]" % (there - 1)
    b.run(f"document.querySelector('#search').value = {last};"
          "document.querySelector('#search').dispatchEvent(new Event('input'))")
    require(b.run(f"[...document.querySelectorAll('#view tbody')[0].rows].some(r => r.textContent"
                  f".includes({last}))"), "what was not drawn is not found")
    require(not b.complaints(), f"{b.complaints()}")


def samples_are_shown_over_time(p):
    profile = read_profile(p.profile)
    profile["overhead"]["timeline"] = {
        "at_us": [1000, 250000, 700000], "samples": [1, 1, 1], "instructions": [500, 100, 900],
        "paused_us": [80, 90, 1200], "lived_us": [1000, 1000, 1000]}
    sampled = p.folder / "sampled.json"
    sampled.write_text(json.dumps(profile), encoding="utf-8")
    p.open(sampled)
    b = p.browser
    b.run("[...document.querySelectorAll('#tabs button')].at(-1).click()")
    lanes = b.run("[...document.querySelectorAll('.timeline path')].map((x) => x.getAttribute('d'))")
    require([d.count("M") for d in lanes] == [3, 3], f"not three samples in two lanes: {lanes}")
    text = b.run("document.querySelector('.timeline').textContent")
    require("at most 900" in text and "at most 1.2 ms" in text, text)
    require(not b.complaints(), f"{b.complaints()}")


def hostile_names_do_nothing(p):
    profile = read_profile(p.profile)
    functions = profile["functions"]
    for i, name in enumerate(functions["name"] if isinstance(functions, dict) else functions):
        payload = PAYLOADS[i % len(PAYLOADS)] + str(i)
        if isinstance(functions, dict):
            functions["name"][i] = payload
        else:
            functions[i]["name"] = payload
    for rows in profile["hotlists"].values():
        for i, row in enumerate(rows):
            for place in [row, *(v for v in row.values() if isinstance(v, dict))]:
                if "function" in place:
                    place["function"] = PAYLOADS[i % len(PAYLOADS)]
    profile["run"]["command"] = PAYLOADS
    hostile = p.folder / "hostile.json"
    hostile.write_text(json.dumps(profile), encoding="utf-8")
    page = p.open(hostile)
    b = p.browser
    for tab in range(b.run("document.querySelectorAll('#tabs button').length")):
        b.run(f"document.querySelectorAll('#tabs button')[{tab}].click()")
        require(b.run("document.querySelectorAll('#view script, #view img, header img').length") == 0,
                "a name became markup")
    require(b.run("window.pwned") is None, "a name was executed")
    require("\u202e" not in page.read_text(encoding="utf-8"), "the direction of text is changed")
    require("x" * 1000 not in page.read_text(encoding="utf-8"), "a long name is not cut")
    require(b.run("document.documentElement.scrollWidth <= innerWidth"), "the page is too wide")
    require(not b.complaints(), f"{b.complaints()}")


FIRST_ROW = "document.querySelector('#view tbody tr').textContent"


def piece(name):
    """The frame of a function in the calling contexts, as a script."""
    return f"[...document.querySelectorAll('.flames .piece')].find((x) => x.title.startsWith({json.dumps(name + ':')}))"


def colour_of(b, name):
    """How much more red than blue the function's frame has, -1 to 1."""
    text = b.run(f"getComputedStyle({piece(name)}).backgroundColor")
    numbers = [float(x) for x in re.findall(r"[0-9.]+(?:e-?[0-9]+)?", text.replace("color(srgb", ""))]
    red, _, blue = (numbers if max(numbers[:3]) <= 1 else [x / 255 for x in numbers])[:3]
    return red - blue


def a_comparison_draws_itself_and_asks_nothing(p):
    p.open_diff()
    draws_each_tab(p)


def draws_each_tab(p):
    for tab in range(p.browser.run("document.querySelectorAll('#tabs button').length")):
        p.browser.run(f"document.querySelectorAll('#tabs button')[{tab}].click()")
        require(p.browser.run("document.querySelector('#view').textContent.length") > 50,
                f"list {tab} is empty")
    require(not p.browser.complaints(), f"{p.browser.complaints()}")


def a_comparison_shows_what_diff_counts(p):
    p.open_diff()
    b = p.browser
    changed = p.diff()["functions"][0]
    figures, text = changed["self_instructions"], b.run("document.querySelector('#view .detail').textContent")
    require("parse" in changed["function"], f"{changed}: what does this test?")
    require("parse" in b.run(FIRST_ROW), b.run(FIRST_ROW))
    titles = b.run("[...document.querySelectorAll('#view .detail [title]')].map((x) => x.title).join(' ')")
    for count in (figures["base"], figures["new"]):
        require(f"{count:,}" in titles, f"{count:,} is not in {titles}")
    require(changed["reason"]["text"].split(":")[0] in text, text)
    about = b.run(f"{piece(changed['function'])}.title")
    below = changed["inclusive_instructions"]
    require(f"{below['base']:,} before, {below['new']:,} now" in about, about)


def more_is_red_less_is_blue_and_the_same_is_neither(p):
    name = p.diff()["functions"][0]["function"]
    p.open_diff()
    red = colour_of(p.browser, name)
    p.open_diff(p.slower, p.base)
    blue = colour_of(p.browser, name)
    p.open_diff(p.base, p.base)
    same = colour_of(p.browser, name)
    require(red > same + 0.05 and blue < same - 0.05, f"more {red}, less {blue}, the same {same}")
    rows = p.browser.run("document.querySelectorAll('#view tbody')[0].rows.length")
    require(rows == 0, f"{rows} functions of a profile differ from those of itself")


def widths_are_those_of_either_profile(p):
    p.open_diff()
    b = p.browser
    name = p.diff()["functions"][0]["function"]
    numbers = re.findall(r"([0-9,]+) before, ([0-9,]+) now", b.run(f"{piece(name)}.title"))[0]
    before, now = (int(x.replace(",", "")) for x in numbers)
    whole = re.findall(r"([0-9,]+) before, ([0-9,]+) now", b.run(f"{piece('all contexts')}.title"))[0]
    all_before, all_now = (int(x.replace(",", "")) for x in whole)
    expected = {"both": (before + now) / (all_before + all_now), "now": now / all_now, "before": before / all_before}
    for choice, share in expected.items():
        b.run("[...document.querySelectorAll('.choice button')]"
              f".find((x) => x.textContent === '{choice}').click()")
        width = b.run(f"parseFloat({piece(name)}.style.width)")
        require(abs(width - 100 * share) < 0.01, f"{choice}: {width}, not {100 * share}")


def as_if_sampled(p, source, part):
    """The profile with errors that are this part of each count."""
    profile = read_profile(source)
    profile["confidence"].update(exact=False, groups=100)
    profile["coverage"]["estimated"] = True
    for f in profile["functions"]:
        f["self_error"] = f["self_instructions"] // part
    contexts = profile["tables"]["contexts"]
    contexts["error"] = [n // part for n in contexts["self"]]
    changed = p.folder / f"sampled_{source.name}"
    changed.write_text(json.dumps(profile), encoding="utf-8")
    return changed


def what_may_be_chance_is_marked_and_can_be_hidden(p):
    b, name = p.browser, p.diff()["functions"][0]["function"]
    for certain in (True, False):
        # A function that grew by a twentieth, where all are known to a millionth or to a fifth.
        sides = [as_if_sampled(p, side, 1_000_000 if certain else 5) for side in (p.base, p.slower)]
        p.open_diff(*sides)
        row = b.run("[...document.querySelectorAll('#view tbody tr')].find((r) => r.textContent.includes('parse')).textContent")
        neutral = b.run(f"{piece(name)}.style.background") == "var(--same)"
        require(("~" in row) == (not certain) == neutral, f"{certain}: {neutral} {row}")
        before = b.run(ROWS)
        b.run("[...document.querySelectorAll('.choice button')].find((x) => x.textContent === 'hidden').click()")
        hidden = b.run("[...document.querySelectorAll('#view tbody')[0].rows].every((r) => !r.textContent.includes('~'))")
        require(hidden and (b.run(ROWS) < before) == (not certain), f"{b.run(ROWS)} of {before} rows left")
    require(not b.complaints(), f"{b.complaints()}")


def views_are_kept_by_the_address(p):
    """Tab, order, search, function, context and its shape: all that is shown at once."""
    page = p.open_diff()
    b = p.browser
    p.tab("Lines")
    b.run("document.querySelectorAll('#view th button')[3].click()")
    b.run("document.querySelectorAll('#view th button')[3].click()")
    b.press("/")
    for key in "words":
        b.press(key)
    b.press("Enter", "\r")
    b.press("i")
    name = b.run("document.querySelector('.flames .piece:nth-child(3)').title.split(':')[0]")
    b.run("document.querySelector('.flames').focus(); document.querySelector('.flames .piece:nth-child(3)').click()")
    p.tab("Lines")
    shown = {what: b.run(script) for what, script in VIEW.items()}
    require(name and "words" in shown["found"] and shown["sorted"], f"{shown}")
    p.again(page)
    again = {what: b.run(script) for what, script in VIEW.items()}
    require(again == shown, f"{again} is not {shown}")
    require(not b.complaints(), f"{b.complaints()}")


VIEW = {"tab": "document.querySelector('#tabs [aria-selected=true]').textContent", "row": FIRST_ROW,
        "sorted": "document.querySelector('#view th[aria-sort]').textContent + document.querySelector('#view th[aria-sort]').getAttribute('aria-sort')",
        "found": "document.querySelector('#search').value",
        "context": "document.querySelector('.about').textContent",
        "pieces": "[...document.querySelectorAll('.flames .piece')].map((x) => x.style.left + x.style.top + x.style.width).join(' ')"}


def an_address_that_is_not_the_pages_is_none(p):
    page = p.open_diff()
    p.browser.open(f"{page}#list=Nothing&sort=99&zoom=1000000&around=nobody&row=%3Cscript%3E&width=wide")
    require(p.browser.run(ROWS) > 0, "no rows")
    require(not p.browser.complaints(), f"{p.browser.complaints()}")


def callers_and_callees_of_a_function_are_those_of_all_its_contexts(p):
    for opened in (p.open, p.open_diff):
        opened(p.base) if opened == p.open else opened()
        b = p.browser
        b.press("Escape")
        name = b.run("document.querySelector('#view .detail h2').textContent")
        b.run("[...document.querySelectorAll('.detail button')].find((x) => x.textContent.startsWith('Callers')).click()")
        require("Callers and callees of" in b.run("document.querySelector('.bar .caption').textContent"), "no caption")
        own = b.run("document.querySelector('.flames .piece.at').title")
        require(own.startswith(name), own)
        callers = b.run("(() => { const top = parseInt(document.querySelector('.flames .piece.at').style.top);"
                        "return [...document.querySelectorAll('.flames .piece')].filter((x) => parseInt(x.style.top) < top)"
                        ".map((x) => x.title); })()")
        require(any("called from main" in x for x in callers), f"main is none of {callers}")
        b.run("document.querySelector('.flames').focus()")
        b.press("Escape")
        require("Calling contexts" in b.run("document.querySelector('.bar .caption').textContent"), "still shown")
        require(not b.complaints(), f"{b.complaints()}")


def contexts_are_a_tree_of_rows_too(p):
    p.open(p.base)
    b = p.browser
    p.tab("Call tree")
    b.press("j")
    shown = b.run(ROWS)
    b.press("ArrowLeft")
    closed = b.run(ROWS)
    b.press("ArrowRight")
    require(closed < shown == b.run(ROWS), f"{shown} rows, {closed} when the first one is closed")
    require(b.run("document.querySelector('#view tr').getAttribute('aria-expanded')") is None, "no head")
    b.press("/")
    for key in "parse":
        b.press(key)
    names = b.run("[...document.querySelectorAll('#view tbody td.name')].map((x) => x.textContent)")
    require(names and any("parse" in n for n in names) and any("main" in n for n in names), f"{names}")


def source_and_code_stand_side_by_side(p):
    p.open()
    b = p.browser
    b.press("c")
    require(b.run("document.querySelectorAll('.both .listing').length") == 2, "not two listings")
    b.run("[...document.querySelectorAll('.both .listing')[0].querySelectorAll('tr')].find((r) => r.line >= 0 && !r.classList.contains('idle')).lastChild.click()")
    lit = b.run("[...document.querySelectorAll('.both .listing')].map((x) => x.querySelectorAll('tr.lit').length)")
    require(lit[0] == 1 and lit[1] >= 1, f"lit: {lit}")
    left, right = b.run("[...document.querySelectorAll('.both .listing')].map((x) => x.getBoundingClientRect().left)")
    require(left < right, "one below the other")
    require(not b.complaints(), f"{b.complaints()}")


def threads_are_listed_with_where_their_time_went(p):
    crew = p.folder / "crew.json"
    p.shadowprof("run", "-q", "-o", crew, "--", p.options.crew)
    threads = read_profile(crew)["threads"]
    if not isinstance(threads, list) or len(threads) < 2:
        raise Skipped("the clock saw one thread")
    p.open(crew)
    p.tab("Threads")
    text = p.browser.run("document.querySelector('#view').textContent")
    require(all(t["name"] in text for t in threads), text)
    require(not p.browser.complaints(), f"{p.browser.complaints()}")


def with_a_course(profile):
    """Its two hottest functions ran one after the other, each in a thread of its own: the first one twice as long."""
    hottest = sorted(profile["functions"], key=lambda f: -f["self_instructions"])[:2]
    profile["time"] = {"source": "cpu-clock", "sees_kernel": True, "user_s": 0.3, "kernel_s": 0.0, "waiting_s": 0.0,
                       "queued_s": 0.0, "ticks": 300, "lost": 0, "cycles_per_s": 0.0, "slice_us": 100000}
    profile["run"]["duration_s"] = 0.3
    thread = profile["threads"][0]
    profile["threads"] = [{**thread, "name": "early", "tid": 71, "user_ns": 200000000, "kernel_ns": 0, "ticks": 200},
                          {**thread, "name": "late", "tid": 72, "user_ns": 100000000, "kernel_ns": 0, "ticks": 100,
                           "instructions": 0, "instructions_error": 0, "samples": 0}]
    places = [hottest[0], hottest[0], hottest[1]]
    columns = {"module": [f["module"] for f in places], "offset": [f["offset"] for f in places], "thread": [0, 0, 1],
               "user_ns": [100000000] * 3, "kernel_ns": [0] * 3}
    profile["tables"]["time_course"] = {"slice": [0, 1, 2], **columns}
    profile["tables"]["time"] = {**{key: values[1:] for key, values in columns.items()}, "user_ns": [200000000, 100000000]}
    return [f["name"].replace("(anonymous namespace)::", "").partition("(")[0] for f in hottest]


def draw_over(b, begin, end):
    """With the pointer, over the lanes: a part of their width."""
    box = b.run("(() => { const r = document.querySelector('.lanes svg').getBoundingClientRect(); return [r.left, r.top, r.width]; })()")
    for kind, part in (("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)):
        b.call("Input.dispatchMouseEvent", type=kind, x=box[0] + part * box[2], y=box[1] + 5, button="left", buttons=1, clickCount=1)


def a_part_of_the_time_can_be_chosen(p):
    profile = read_profile(p.profile)
    first, second = with_a_course(profile)
    timed = p.folder / "timed.json"
    timed.write_text(json.dumps(profile), encoding="utf-8")
    page = p.open(timed)
    b = p.browser
    lanes = b.run("[...document.querySelectorAll('.lane-of')].map((x) => x.textContent)")
    require(["early" in lanes[0], "late" in lanes[1]] == [True, True], lanes)
    bars = b.run("[...document.querySelectorAll('.lane-of path')].map((x) => x.getAttribute('d').split('M').length - 1)")
    require(bars[:2] == [2, 1], bars)
    rows = "[...document.querySelectorAll('#view tbody')[0].rows].map((r) => r.textContent)"
    whole = b.run(rows)
    require(len(whole) > 2, whole)
    draw_over(b, 0.70, 0.99)
    chosen = b.run(rows)
    require(len(chosen) == 1 and second in chosen[0] and "100.0%" in chosen[0], chosen)
    require("200.0 ms to 300.0 ms: 100.0 ms of processor" in b.run("document.querySelector('.timeline').textContent"), "no times")
    p.tab("Threads")
    require(["late" in row for row in b.run(rows)] == [True], b.run(rows))
    p.tab("Edges")
    edges = b.run(rows)
    require(edges and second in edges[0] and not any(first + "  " in row for row in edges), edges)
    p.again(page)
    require(b.run(rows) == edges, "the address does not keep the part")
    b.press("w")
    require(len(b.run(rows)) > len(edges), "not the whole run")
    draw_over(b, 0.02, 0.6)
    p.tab("Functions")
    chosen = b.run(rows)
    require(len(chosen) == 1 and first in chosen[0], chosen)
    draw_over(b, 0.5, 0.5)
    require(b.run(rows) == whole, "a click does not choose the whole run")
    require(not b.complaints(), f"{b.complaints()}")


def contexts_are_by_time_where_it_is_known(p):
    profile = read_profile(p.base)
    names = with_a_course(profile)
    timed = p.folder / "timed_contexts.json"
    timed.write_text(json.dumps(profile), encoding="utf-8")
    page = p.open(timed)
    b = p.browser
    caption, titles = "document.querySelector('#flame .caption').textContent", "[...document.querySelectorAll('.flames .piece')].map((x) => x.title)"
    require("widths are processor time" in b.run(caption), b.run(caption))
    for name, share in zip(names, (66.7, 33.3)):
        shown = [re.fullmatch(r"(.*?): ([0-9.]+)% of 300\.0 ms processor time.*", title) for title in b.run(titles)]
        sum_ = sum(float(m[2]) for m in shown if m and name in m[1])
        require(abs(sum_ - share) < 0.2, f"{name} has {sum_} %: {b.run(titles)}")
    choose = "[...document.querySelectorAll('#flame .choice button')].find((x) => x.textContent === 'instructions').click()"
    b.run(choose)
    require("widths are instructions" in b.run(caption), b.run(caption))
    p.tab("Call tree")
    shown = b.run(FIRST_ROW)
    p.again(page)
    require("widths are instructions" in b.run(caption) and b.run(FIRST_ROW) == shown, "the address does not keep it")
    require(not b.complaints(), f"{b.complaints()}")


def printed_lists_have_all_their_rows(p):
    p.open()
    b = p.browser
    there = b.run("JSON.parse(document.getElementById('data').textContent).own_list")
    b.press("t")
    b.call("Page.printToPDF")
    require(b.run(ROWS) == there, f"{b.run(ROWS)} of {there} rows")


def screenshots(p):
    folder = pathlib.Path(p.options.screenshots)
    p.open()
    p.browser.screenshot(folder / "light.png")
    p.browser.press("t")
    p.browser.screenshot(folder / "dark.png")
    for tab in range(1, p.browser.run("document.querySelectorAll('#tabs button').length")):
        p.browser.run(f"document.querySelectorAll('#tabs button')[{tab}].click()")
        p.browser.screenshot(folder / f"tab{tab}.png")
    p.open_diff()
    for width in (1400, 500):
        p.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        for scheme in ("light", "dark"):
            p.browser.screenshot(folder / f"changes_{width}_{scheme}.png")
            p.browser.press("t")


CASES = [draws_itself_and_asks_nothing, shows_what_the_profile_counts,
         findings_stand_first_and_lead_to_the_function, inlined_functions_have_a_list, keys_work, columns_sort,
         what_is_drawn_at_a_keystroke_is_bounded, samples_are_shown_over_time,
         hostile_names_do_nothing, a_comparison_draws_itself_and_asks_nothing, a_comparison_shows_what_diff_counts,
         more_is_red_less_is_blue_and_the_same_is_neither, widths_are_those_of_either_profile,
         what_may_be_chance_is_marked_and_can_be_hidden, views_are_kept_by_the_address,
         an_address_that_is_not_the_pages_is_none, contexts_are_by_time_where_it_is_known,
         callers_and_callees_of_a_function_are_those_of_all_its_contexts, contexts_are_a_tree_of_rows_too,
         source_and_code_stand_side_by_side, threads_are_listed_with_where_their_time_went, a_part_of_the_time_can_be_chosen,
         printed_lists_have_all_their_rows]


def main():
    parser = argparse.ArgumentParser()
    for option in ("--shadowprof", "--program", "--slower", "--crew"):
        parser.add_argument(option, required=True)
    parser.add_argument("--screenshots")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        print("skipped: chromium is not installed")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        browser = Browser(chromium, folder / "browser")
        try:
            pages = Pages(options, browser, folder)
            return run_cases([screenshots] if options.screenshots else CASES, pages, options.only)
        finally:
            browser.close()


if __name__ == "__main__":
    sys.exit(main())
