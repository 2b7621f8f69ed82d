#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""House rules that a compiler does not know, checked over the whole tree.

usage: tidy.py [ROOT]

Every violation is one line: file:line, the rule, what is wrong, and how to fix it. The rules are
data at the top of this file; ARCHITECTURE.md shows the room table to readers, and the two must
agree. tests/tidy/self_test.py sees each rule fire on a small bad tree.
"""

import ast
import pathlib
import re
import sys
from typing import NamedTuple

# Which folders of src/ a folder may include, besides itself and base. None: any.
ROOMS = {
    "base": [],
    "kernel": [],
    "machine": [],
    "decoder": [],
    "trace": ["decoder"],
    "ptrace": ["kernel", "machine"],
    "emu": ["machine", "decoder", "trace"],
    "cache": ["kernel", "machine", "ptrace", "emu", "trace"],
    "inject": ["kernel", "machine", "ptrace", "decoder", "emu", "cache", "trace"],
    "shadow": ["kernel", "machine", "ptrace", "emu", "cache", "trace"],
    "plan": [],
    "plugin": [],
    "profile": [],
    "probe": ["ptrace", "kernel", "machine", "emu", "profile"],
    "clock": ["kernel", "profile"],
    "symbols": ["profile", "kernel"],
    "collect": ["trace", "decoder", "plugin", "profile"],
    "report": ["decoder", "profile", "symbols"],
    "sample": ["plan", "plugin", "ptrace", "inject", "shadow", "emu", "trace", "collect", "profile", "symbols",
               "kernel", "machine", "clock", "probe", "decoder"],
    "cli": None,
    "main": None,  # src/main.cc
}

# (what an include line of src/ holds, the only path prefixes that may hold it)
SINGLE_OWNERS = [
    ("sys/ptrace.h", ["src/ptrace/", "src/kernel/features."]),
    ("linux/ptrace.h", ["src/ptrace/", "src/kernel/features."]),
    ("Zydis", ["src/decoder/"]),
    ("Zycore", ["src/decoder/"]),
]

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 70

# Words are put together here so that this file does not hold what it forbids.
FORBIDDEN = [
    ("work-path", re.compile("/wor" + "k/"),
     "names a directory of one machine",
     "name the path relative to the top of the tree, or make it an argument"),
    ("tracker", re.compile(r"(?<![\w&#/'\"%])#\d{1,5}(?![\w\"'])"),
     "points at a numbered issue that no reader can open",
     "say the reason itself in a sentence"),
    ("process-word", re.compile(r"\bsess" + r"ions?\b", re.IGNORECASE),
     "speaks of how the code was made, or is too vague a name",
     "say what it is (run, trace, sample); in the POSIX sense write it beside setsid or getsid"),
    ("registry", re.compile("|".join(re.escape(".".join(name)) for name in (
        ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("crates", "io"),
        ("rubygems", "org"), ("proxy.golang", "org"), ("docker", "io"), ("ghcr", "io"),
        ("deb.debian", "org"))) + "|" + "artifact" + "ory", re.IGNORECASE),
     "names a package registry's host",
     "name the package; where it is fetched from is the machine's configuration"),
    ("todo", re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b(?!: \S+ \S+ \S+)"),
     "is a note that does not say what is left and why",
     "write 'TO" + "DO: what is left and why it may wait', or do it"),
]
POSIX_SENSE = re.compile(r"setsid|getsid|POSIX|terminal|tty", re.IGNORECASE)

CODE = {".cc", ".h", ".inc", ".c", ".S", ".s"}
CPP = {".cc", ".h", ".c"}
SCRIPT = {".py", ".sh"}
TEXT = CODE | SCRIPT | {".md", ".build", ".txt", ".json", ".1", ".html", ".js", ".css", ".yml"}
SKIPPED_FOLDERS = re.compile(r"^(build.*|\.git|\.cache|__pycache__|subprojects)$")

LONG_BECAUSE = "Long because"


class Violation(NamedTuple):
    path: str
    line: int
    rule: str
    what: str
    fix: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.what}. Fix: {self.fix}."


class File:
    """A text file of the tree: its path from the top, its lines."""

    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.name = path.name
        self.folder = path.parent.relative_to(root).as_posix()
        self.suffix = path.suffix
        self.text = path.read_bytes().decode("utf-8", errors="replace")
        self.lines = self.text.split("\n")
        self.is_script = self.suffix in SCRIPT or self.text.startswith("#!")

    def is_source(self):
        return self.suffix in CODE or self.is_script or self.name in ("meson.build",
                                                                       "meson_options.txt")


def read_tree(root):
    files = []
    pending = [root]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.is_symlink():
                continue
            if path.is_dir():
                if not SKIPPED_FOLDERS.match(path.name):
                    pending.append(path)
            elif path.suffix in TEXT or (path.suffix == "" and path.read_bytes()[:2] == b"#!"):
                files.append(File(root, path))
    return sorted(files, key=lambda file: file.path)


# --- includes ---------------------------------------------------------------------------------

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(file):
    parts = file.path.split("/")
    if parts[0] != "src":
        return None
    return "main" if len(parts) == 2 else parts[1]


def check_includes(files):
    paths = {file.path for file in files}
    for file in files:
        room = room_of(file)
        if room is None or file.suffix not in CODE:
            continue
        if room not in ROOMS:
            yield Violation(file.path, 1, "rooms", f"src/{room} is not in the room table",
                            "add the folder to ROOMS in tests/tidy/tidy.py and to ARCHITECTURE.md, "
                            "with the least it must include")
            continue
        for number, line in enumerate(file.lines, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            bracket, target = found.groups()
            if bracket == '"':
                yield from check_room_include(file, room, number, target, paths)
            yield from check_owner(file, number, target)


def check_room_include(file, room, number, target, paths):
    if f"src/{target}" not in paths:
        # A header made at build time lies beside no source; its folder is still checked.
        if "/" not in target:
            yield Violation(file.path, number, "include-path",
                            f'"{target}" does not name its folder',
                            f'write "{room}/{target}", or <...> for a system header')
            return
    other = target.split("/")[0]
    allowed = ROOMS[room]
    if allowed is None or other in (room, "base") or other in allowed:
        return
    if other not in ROOMS:
        yield Violation(file.path, number, "include-path", f'"{target}" is no file of src/',
                        "use <...> for headers of libraries")
        return
    may = ", ".join(["base", *allowed])
    yield Violation(file.path, number, "rooms", f"src/{room} may not include {other}",
                    f"it may include {may}; move what is needed down into one of these, or pass it "
                    "in from a folder that may see both")


def check_owner(file, number, target):
    for header, owners in SINGLE_OWNERS:
        if (target == header or target.startswith(header + "/")) and not any(
                file.path.startswith(owner) for owner in owners):
            yield Violation(file.path, number, "single-owner",
                            f"<{target}> belongs to {' and '.join(owners)}",
                            "call what the owner offers, or add the operation there")


def check_room_table(files):
    """ARCHITECTURE.md repeats ROOMS as a table with the rows `| folders | may include |`."""
    page = next((file for file in files if file.path == "ARCHITECTURE.md"), None)
    if page is None:
        yield Violation("ARCHITECTURE.md", 1, "room-table", "is missing",
                        "write the page, with the room table of tests/tidy/tidy.py")
        return
    documented, first_line = {}, 1
    inside = False
    for number, line in enumerate(page.lines, 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 2 and cells[0] == "folder" and cells[1].startswith("may include"):
            inside, first_line = True, number
        elif inside and not line.startswith("|"):
            break
        elif inside and len(cells) == 2 and not set(cells[0]) <= set("-: "):
            may = {"nothing": [], "any": None}.get(cells[1], cells[1].split(", "))
            for room in cells[0].split(", "):
                documented[room] = may
    for room, may in ROOMS.items():
        if room == "base":
            continue
        shown = documented.pop(room, "absent")
        if shown == "absent" or (may is None) != (shown is None) or (
                may is not None and set(may) != set(shown)):
            right = "any" if may is None else ", ".join(may) or "nothing"
            yield Violation(page.path, first_line, "room-table",
                            f"says of {room}: {shown}; tests/tidy/tidy.py says: {right}",
                            f"make the row `| {room} | {right} |`, or change both")
    for room in documented:
        yield Violation(page.path, first_line, "room-table", f"knows a folder {room} that is not "
                        "in tests/tidy/tidy.py", "take the row out, or add it to ROOMS")


# --- files --------------------------------------------------------------------------------------

def check_spdx(files):
    for file in files:
        is_man_page = file.suffix == ".1"
        if not (file.is_source() or is_man_page):
            continue
        at = 1 if file.text.startswith("#!") else 0
        line = file.lines[at] if at < len(file.lines) else ""
        if "SPDX-License-Identifier: MIT" not in line:
            mark = {".cc": "//", ".h": "//", ".inc": "//", ".c": "//", ".S": "//",
                    ".s": "#", ".1": '.\\"'}.get(file.suffix, "#")
            yield Violation(file.path, at + 1, "spdx", "does not begin with its licence",
                            f"make it '{mark} SPDX-License-Identifier: MIT'")


def check_blanks(files):
    for file in files:
        if file.suffix == ".json" or file.path.startswith("tests/golden/"):
            continue
        for number, line in enumerate(file.lines, 1):
            if line.endswith("\r"):
                yield Violation(file.path, number, "line-end", "ends with a carriage return",
                                "save the file with Unix line ends")
            elif line != line.rstrip(" \t"):
                yield Violation(file.path, number, "trailing-blank", "ends with blanks",
                                "remove them: sed -i 's/[ \\t]*$//' FILE")
            # The recipes of a makefile begin with one.
            if "\t" in line.rstrip("\t") and file.path != "debian/rules":
                yield Violation(file.path, number, "tab", "holds a tab",
                                "indent with spaces; write \\t in a string")
        if file.text and not file.text.endswith("\n"):
            yield Violation(file.path, len(file.lines), "last-line", "ends without a newline",
                            "add one")


def check_words(files):
    for file in files:
        for number, line in enumerate(file.lines, 1):
            for rule, pattern, what, fix in FORBIDDEN:
                found = pattern.search(line)
                if not found or (rule == "tracker" and file.suffix in (".html", ".css", ".js")):
                    continue
                if rule == "process-word" and POSIX_SENSE.search(line):
                    continue
                yield Violation(file.path, number, rule, f"'{found.group(0).strip()}' {what}", fix)


def check_file_lengths(files):
    for file in files:
        if file.suffix in CPP | SCRIPT and len(file.lines) > MAX_FILE_LINES:
            yield Violation(file.path, MAX_FILE_LINES, "file-length",
                            f"has {len(file.lines)} lines, more than {MAX_FILE_LINES}",
                            "split it by responsibility; a table goes into an .inc file")


# --- dead files ---------------------------------------------------------------------------------

QUOTED = re.compile(r"'([^'\n]*)'")
SUBDIR = re.compile(r"\bsubdir\(\s*'([^']+)'")
VARIABLE_SUBDIR = re.compile(r"\bsubdir\(\s*[^'\s)]")


def normalise(folder, name):
    """folder/name without . and .., as a path from the top; None if it leaves the tree."""
    parts = []
    for part in ([] if folder == "." else folder.split("/")) + name.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def check_dead_files(files):
    by_path = {file.path: file for file in files}
    builds = [file for file in files if file.name == "meson.build"]
    yield from check_reached(by_path)
    listed = set()
    for build in builds:
        code = "\n".join(line.split("#")[0] for line in build.lines)
        for name in QUOTED.findall(code):
            path = normalise(build.folder, name)
            listed.add(path)
            # A list of names kept in a text file beside the build file: first word of each line.
            if name.endswith(".txt") and path in by_path:
                for line in by_path[path].lines:
                    if line.split() and not line.startswith("#"):
                        listed.add(normalise(build.folder, line.split()[0]))
    for file in files:
        if file.suffix not in (".cc", ".c", ".S", ".s"):
            continue
        stem = file.path[: -len(file.suffix)]
        if file.path not in listed and stem not in listed:
            yield Violation(file.path, 1, "dead-source", "is in no meson.build",
                            f"list it in {file.folder}/meson.build, or delete it")
    yield from check_dead_headers(files)


def check_reached(by_path):
    reached = set()
    pending = ["meson.build"]
    while pending:
        path = pending.pop()
        if path in reached or path not in by_path:
            continue
        reached.add(path)
        build = by_path[path]
        code = "\n".join(line.split("#")[0] for line in build.lines)
        names = SUBDIR.findall(code)
        if VARIABLE_SUBDIR.search(code):
            names += QUOTED.findall(code)
        pending += [p for p in (normalise(build.folder, name + "/meson.build") for name in names)
                    if p]
    for path, file in by_path.items():
        if file.name == "meson.build" and path not in reached:
            parent = pathlib.PurePosixPath(file.folder).parent
            yield Violation(path, 1, "dead-build", "is reached by no subdir()",
                            f"add subdir('{pathlib.PurePosixPath(file.folder).name}') to "
                            f"{parent / 'meson.build'}, or delete the folder")


def check_dead_headers(files):
    included = set()
    for file in files:
        if file.suffix not in CODE:
            continue
        for line in file.lines:
            found = INCLUDE.match(line)
            if found:
                for folder in (file.folder, "src", "include", "."):
                    included.add(normalise(folder, found.group(2)))
    for file in files:
        if file.suffix in (".h", ".inc") and file.path not in included:
            yield Violation(file.path, 1, "dead-header", "is included nowhere",
                            "include it where it is used, or delete it")


# --- functions ------------------------------------------------------------------------------------

LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s"]*)\(.*?\)(?P=tag)"'
    r"""|"(?:\\.|[^"\\\n])*"|(?<![\w])'(?:\\.|[^'\\\n])+'""", re.DOTALL)
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum)\b")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\b(alignas|__attribute__)\s*\(\)|\btemplate\s*<[^{}();]*>")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*", re.MULTILINE)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def without_parentheses(head):
    """The head of a declaration with `()` for each parameter list, without attributes."""
    before = None
    while before != head:
        before = head
        head = re.sub(r"\((?:[^()]|\(\))+\)", "()", head)
    return ATTRIBUTE.sub("", head)


def cpp_functions(text):
    """Yields (first line, last line) of each function definition: a brace matcher, not a parser.

    Namespaces and classes are looked into; whatever else has a parameter list before its brace and
    no '=' outside it is a function, whose inner braces (lambdas too) belong to it.
    """
    code = DIRECTIVE.sub(blank, LITERALS.sub(blank, text))
    head_start = 0     # where the text before the next brace of a container begins
    depth = 0          # inside a function or an initialiser
    start = None       # offset of the function's head
    for at in (m.start() for m in re.finditer(r"[{};]", code)):
        c = code[at]
        if depth > 0:
            depth += {"{": 1, "}": -1, ";": 0}[c]
            if depth == 0:
                if start is not None:
                    yield code.count("\n", 0, start) + 1, code.count("\n", 0, at) + 1
                    start = None
                head_start = at + 1
            continue
        if c == "{":
            head = code[head_start:at]
            flat = without_parentheses(head)
            if flat.strip() == "extern" or (CONTAINER.search(flat) and "(" not in flat):
                head_start = at + 1
                continue
            depth = 1
            # The text of `= {...}` initialisers has its '=' outside all parentheses.
            is_function = "(" in flat and not re.search(r"(?<![=!<>])=(?!=)",
                                                        re.sub(r"operator\s*\S+", "", flat))
            if is_function:
                start = head_start + len(head) - len(head.lstrip())
        else:
            head_start = at + 1


def comment_above(lines, first):
    """The comment lines right above line `first` (1-based), joined."""
    above = []
    at = first - 2
    while at >= 0 and re.match(r"\s*(//|#|/?\*)", lines[at]):
        above.append(lines[at])
        at -= 1
    return "\n".join(above)


def check_function_lengths(files):
    for file in files:
        if file.suffix in CPP:
            spans = list(cpp_functions(file.text))
        elif file.is_script and file.text and "python3" in file.lines[0]:
            tree = ast.parse(file.text)
            spans = [(node.lineno, node.end_lineno) for node in ast.walk(tree)
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        else:
            continue
        for first, last in spans:
            length = last - first + 1
            if length > MAX_FUNCTION_LINES and LONG_BECAUSE not in comment_above(file.lines, first):
                yield Violation(file.path, first, "function-length",
                                f"a function of {length} lines, more than {MAX_FUNCTION_LINES}",
                                "split it, or write '" + LONG_BECAUSE + " ...' in the comment "
                                "right above it")


# --- how C++ is written ---------------------------------------------------------------------------

MAX_COLUMNS = 100
DANGLING = re.compile(r"^\s*// Of ")
# An iterator over a file's buffer throws where read(2) fails, as of a process that has just ended.
THROWING_READ = "istreambuf_" + "iterator"
# In these folders a number with a fraction is a time, a share or an amount of something.
FOLDERS_WITH_UNITS = ("src/plan/", "src/probe/", "src/sample/", "src/shadow/")
CONSTANT = re.compile(r"\bconstexpr double (k\w+)")
UNIT = re.compile(r"(_s|_us|_ns|_pages|_insns|_log|Share|Ratio|Variance|Rounds)$")


def check_style(files):
    for file in files:
        is_cpp = file.suffix in CPP
        if not is_cpp and file.name != "meson.build":
            continue
        for number, line in enumerate(file.lines, 1):
            if len(line) > MAX_COLUMNS:
                fix = f"clang-format -i --lines={number}:{number} {file.path}" if is_cpp else "break the line"
                yield Violation(file.path, number, "columns",
                                f"has {len(line)} columns, more than {MAX_COLUMNS}", fix)
            if not is_cpp:
                continue
            if DANGLING.match(line):
                yield Violation(file.path, number, "dangling-of", "a comment begins with Of",
                                "begin with the subject: what it is, whose it is, when it holds")
            if THROWING_READ in line and file.path.startswith("src/"):
                yield Violation(file.path, number, "throwing-read", "throws where a file cannot be read",
                                "read it with std::getline, or with read(2)")
            constant = CONSTANT.search(line)
            if (constant and file.path.startswith(FOLDERS_WITH_UNITS)
                    and not UNIT.search(constant.group(1))):
                yield Violation(file.path, number, "unit", f"{constant.group(1)} does not say its unit",
                                "end its name in _s, _pages, Share, Ratio, ...")


# In a page a table's row, what is shown as it is, and what has no blank to break at may be longer.
LONG_IN_PAGES = re.compile(r"\||    |\S*$")


def check_page_columns(files):
    for file in files:
        shown = False
        for number, line in enumerate(file.lines if file.suffix == ".md" else [], 1):
            shown ^= line.lstrip().startswith("```")
            if len(line) > MAX_COLUMNS and not shown and not LONG_IN_PAGES.match(line):
                yield Violation(file.path, number, "columns",
                                f"has {len(line)} columns, more than {MAX_COLUMNS}",
                                "break the paragraph anew")


def check_file_names(files):
    first = {}
    for file in files:
        if not file.path.startswith("src/") or file.suffix not in CPP:
            continue
        name = file.path.split("/")[-1]
        if name in first:
            yield Violation(file.path, 1, "file-name", f"{first[name]} has the same name",
                            "name one of them by what only it holds")
        first.setdefault(name, file.path)


PAGES = ("ARCHITECTURE.md", "HACKING.md")
NAMED_FILE = re.compile(r"(?<![\w/.-])((?:\w+/)+\w+\.(?:h|cc|inc|py|json|md))\b")


def check_pages(files):
    """The pages that say where things are name files that exist."""
    paths = {file.path for file in files}
    for page in files:
        if page.path not in PAGES:
            continue
        for number, line in enumerate(page.lines, 1):
            for name in NAMED_FILE.findall(line):
                if name in paths or f"src/{name}" in paths or "NAME" in name:
                    continue
                if name.split("/")[0] in [*ROOMS, "src", "tests", "bench", "docs", "scripts"]:
                    yield Violation(page.path, number, "page-file", f"{name} does not exist",
                                    "name the file that holds it now")


CHECKS = [check_includes, check_room_table, check_spdx, check_blanks, check_words,
          check_file_lengths, check_dead_files, check_function_lengths, check_style,
          check_page_columns,
          check_file_names, check_pages]


def check_tree(root):
    files = read_tree(root)
    return [violation for check in CHECKS for violation in check(files)]


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else
                        pathlib.Path(__file__).resolve().parents[2]).resolve()
    violations = check_tree(root)
    for violation in violations:
        print(violation)
    if violations:
        print(f"{len(violations)} violations of the house rules (HACKING.md)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
