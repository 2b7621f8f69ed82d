#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sees every rule of tidy.py fire: a clean tree has no violation, and each small change to it has
exactly the one that the change deserves."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tidy  # noqa: E402  (a sibling file, found by the line above)

SPDX = "// SPDX-License-Identifier: MIT\n"
MESON_SPDX = "# SPDX-License-Identifier: MIT\n"


def room_table():
    rows = ["| folder | may include (besides base) |", "|---|---|"]
    for room, may in tidy.ROOMS.items():
        if room != "base":
            rows.append(f"| {room} | {'any' if may is None else ', '.join(may) or 'nothing'} |")
    return "# Architecture\n\n" + "\n".join(rows) + "\n\nText.\n"


def clean_tree():
    return {
        "meson.build": MESON_SPDX + "subdir('src')\nexecutable('p', 'src/main.cc')\n",
        "ARCHITECTURE.md": room_table(),
        "src/meson.build": MESON_SPDX + "foreach name : ['base', 'trace']\n  subdir(name)\nendforeach\n",
        "src/main.cc": SPDX + '#include "trace/t.h"\nint main() { return t(); }\n',
        "src/base/meson.build": MESON_SPDX,
        "src/base/b.h": SPDX + "#pragma once\n",
        "src/trace/meson.build": MESON_SPDX + "lib = static_library('t', files('t.cc'))\n",
        "src/trace/t.h": SPDX + '#pragma once\n#include "base/b.h"\nint t();\n',
        "src/trace/t.cc": SPDX + '#include "trace/t.h"\n#include <vector>\nint t() { return 0; }\n',
    }


def violations(tree):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in tree.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8", newline="")
        return tidy.check_tree(root)


def function(lines, above=""):
    return above + "int f(int a, int b = 3) {\n" + "  g();\n" * (lines - 2) + "}\n"


# (what is broken, file, text added at its end, the rule that must fire)
ADDITIONS = [
    ("an include across rooms", "src/trace/t.cc", '#include "sample/s.h"\n', "rooms"),
    ("a quoted include without a folder", "src/trace/t.cc", '#include "t.h"\n', "include-path"),
    ("a ptrace header outside its owners", "src/trace/t.cc", "#include <sys/ptrace.h>\n",
     "single-owner"),
    ("the kernel's ptrace header", "src/trace/t.cc", "#include <linux/ptrace.h>\n",
     "single-owner"),
    ("a decoder header outside its owners", "src/trace/t.cc", "#include <Zydis/Zydis.h>\n",
     "single-owner"),
    ("trailing blanks", "src/trace/t.cc", "int a; \n", "trailing-blank"),
    ("a tab", "src/trace/t.cc", "\tint a;\n", "tab"),
    ("a carriage return", "src/trace/t.cc", "int a;\r\n", "line-end"),
    ("no newline at the end", "src/trace/t.cc", "int a;", "last-line"),
    ("a path of one machine", "src/trace/t.cc", "// see /wor" + "k/main\n", "work-path"),
    ("an issue number", "src/trace/t.cc", "// fixes #" + "12\n", "tracker"),
    ("a word about how it was made", "src/trace/t.cc", "// made in a sess" + "ion\n",
     "process-word"),
    ("a registry's host", "src/trace/t.cc", "// from https://py" + "pi.org/\n", "registry"),
    ("a bare note", "src/trace/t.cc", "// TO" + "DO later\n", "todo"),
    ("a page that names a file of yesterday", "ARCHITECTURE.md", "See trace/gone.h.\n", "page-file"),
    ("a long line", "src/trace/t.cc", "// " + "x" * 98 + "\n", "columns"),
    ("a read that throws", "src/trace/t.cc", "std::istreambuf_" + "iterator<char> it(file);\n", "throwing-read"),
    ("a long line of a build file", "src/trace/meson.build", "# " + "x" * 99 + "\n", "columns"),
    ("a long line of a page", "ARCHITECTURE.md", "x " * 51 + "x\n", "columns"),
    ("a comment without a subject", "src/trace/t.cc", "// Of a thread.\n", "dangling-of"),
    ("a long file", "src/trace/t.cc", "// x\n" * 801, "file-length"),
    ("a long function", "src/trace/t.cc", function(71), "function-length"),
    ("a long member function", "src/trace/t.h",
     "namespace n {\nclass C {\n  int x = 1;\n" + function(71) + "};\n}\n", "function-length"),
    ("a long function of a template", "src/trace/t.cc", "template <class T>\n" + function(70),
     "function-length"),
]


class Tidy(unittest.TestCase):
    def check(self, tree, *rules):
        found = violations(tree)
        self.assertEqual(sorted(v.rule for v in found), sorted(rules), "\n".join(map(str, found)))
        for violation in found:
            self.assertTrue(violation.fix)
            self.assertIn(": [", str(violation))

    def test_clean_tree_has_no_violation(self):
        self.check(clean_tree())

    def test_each_addition_breaks_its_rule(self):
        for what, path, text, rule in ADDITIONS:
            with self.subTest(what):
                tree = clean_tree()
                tree[path] += text
                self.check(tree, rule)

    def test_room_may_not_include_a_room_above_it(self):
        tree = clean_tree()
        tree["src/base/b.h"] += '#include "trace/t.h"\n'
        self.check(tree, "rooms")

    def test_numbers_of_the_plan_say_their_unit(self):
        tree = clean_tree()
        tree["src/plan/meson.build"] = MESON_SPDX
        tree["src/plan/p.h"] = SPDX + "#pragma once\nconstexpr double kLongest = 1;\n"
        tree["src/base/b.h"] += '#include "plan/p.h"\n'
        tree["src/meson.build"] = tree["src/meson.build"].replace("'base'", "'base', 'plan'")
        self.check(tree, "rooms", "unit")
        tree["src/plan/p.h"] = tree["src/plan/p.h"].replace("kLongest", "kLongest_s")
        self.check(tree, "rooms")

    def test_no_two_sources_have_one_name(self):
        tree = clean_tree()
        tree["src/trace/b.h"] = tree["src/base/b.h"]
        tree["src/trace/t.cc"] += '#include "trace/b.h"\n'
        self.check(tree, "file-name")

    def test_unknown_room_is_a_violation(self):
        tree = clean_tree()
        tree["src/attic/meson.build"] = MESON_SPDX + "files('a.cc')\n"
        tree["src/attic/a.cc"] = SPDX
        tree["src/meson.build"] += "subdir('attic')\n"
        self.check(tree, "rooms")

    def test_owner_may_include_its_header(self):
        tree = clean_tree()
        tree["src/meson.build"] += "subdir('ptrace')\n"
        tree["src/ptrace/meson.build"] = MESON_SPDX + "files('p.cc')\n"
        tree["src/ptrace/p.cc"] = SPDX + "#include <sys/ptrace.h>\n"
        self.check(tree)

    def test_room_table_of_the_page_must_agree(self):
        tree = clean_tree()
        tree["ARCHITECTURE.md"] = tree["ARCHITECTURE.md"].replace("| trace | decoder |",
                                                                  "| trace | any |")
        self.check(tree, "room-table")
        tree["ARCHITECTURE.md"] = room_table().replace("| trace | decoder |\n", "")
        self.check(tree, "room-table")
        tree["ARCHITECTURE.md"] = room_table().replace("\n\nText", "\n| attic | any |\n\nText")
        self.check(tree, "room-table")
        del tree["ARCHITECTURE.md"]
        self.check(tree, "room-table")

    def test_missing_licence_is_a_violation(self):
        for path in ("src/trace/t.cc", "src/trace/meson.build"):
            with self.subTest(path):
                tree = clean_tree()
                tree[path] = tree[path].split("\n", 1)[1]
                self.check(tree, "spdx")
        self.check(clean_tree() | {"scripts/go": "#!/bin/sh\nexit 0\n"}, "spdx")
        self.check(clean_tree() | {"man/p.1": ".Dd x\n"}, "spdx")

    def test_dead_files_are_violations(self):
        self.check(clean_tree() | {"src/trace/old.cc": SPDX}, "dead-source")
        self.check(clean_tree() | {"src/trace/old.h": SPDX}, "dead-header")
        self.check(clean_tree() | {"src/trace/old.inc": SPDX}, "dead-header")
        self.check(clean_tree() | {"demo/meson.build": MESON_SPDX}, "dead-build")

    def test_commented_out_lines_do_not_keep_files_alive(self):
        tree = clean_tree()
        tree["src/trace/meson.build"] += "# files('old.cc')\n"
        tree["src/trace/old.cc"] = SPDX
        self.check(tree, "dead-source")

    def test_a_text_file_may_list_sources(self):
        tree = clean_tree()
        tree["src/trace/meson.build"] += "names = fs.read('list.txt')\n"
        tree["src/trace/list.txt"] = "old.c -lm\n"
        tree["src/trace/old.c"] = SPDX
        self.check(tree)

    def test_functions_with_a_reason_or_of_the_right_length_are_fine(self):
        for text in (function(70), function(71, "// Long because it is one table of moves.\n"),
                     "const int kTable[] = {\n" + "  1,\n" * 100 + "};\n",
                     "enum class E {\n" + "  a,\n" * 100 + "};\n",
                     'const char* s = "{{{{";\n' + function(70),
                     'extern "C" {\n' + function(40) + function(40) + "}\n"):
            with self.subTest(text[:30]):
                tree = clean_tree()
                tree["src/trace/t.cc"] += text
                self.check(tree)

    def test_long_python_function_is_a_violation(self):
        body = "def f():\n" + "    g()\n" * 70
        self.check(clean_tree() | {"x.py": "#!/usr/bin/env python3\n" + MESON_SPDX + body},
                   "function-length")

    def test_harmless_uses_of_forbidden_shapes_are_fine(self):
        tree = clean_tree()
        tree["src/trace/t.cc"] += ("// setsid starts a sess" + "ion\n// TO" +
                                   "DO: measure this on a big machine\n"
                                   'const char* f = "%#16x #1";\n')
        self.check(tree)

    def test_every_rule_is_seen_here(self):
        here = pathlib.Path(__file__).read_text(encoding="utf-8")
        source = (pathlib.Path(__file__).parent / "tidy.py").read_text(encoding="utf-8")
        rules = set(tidy.re.findall(r'Violation\([^"]*?"([a-z]+(?:-[a-z]+)*)",\s', source))
        rules |= {rule for rule, *_ in tidy.FORBIDDEN}
        self.assertIn("dead-source", rules)
        self.assertEqual([rule for rule in sorted(rules) if f'"{rule}"' not in here], [])


if __name__ == "__main__":
    unittest.main()
