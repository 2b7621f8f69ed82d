# SPDX-License-Identifier: MIT
"""The programs that pgo.py builds: their sources, how each is run for training and for timing."""

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n"
                 f"{done.stderr.decode(errors='replace')[-3000:]}")
    return done.stdout


class Subject:
    """A program that one call of the compiler builds.

    train is the input of instrumented builds and of full mode, sampled that of shadow mode (the same
    kind, longer), timed another one. writes: the file that has the result, unless it is printed.
    """

    def __init__(self, name, sources, flags, libraries, *, train, sampled, timed, bolt_skips="",
                 writes=None):
        self.name, self.sources, self.flags, self.libraries = name, sources, flags, libraries
        self.train, self.sampled, self.timed = train, sampled, timed
        self.bolt_skips, self.writes = bolt_skips, writes

    def compile(self, compiler, flags, link_flags, out):
        run(compiler, *flags, *self.flags, *link_flags, "-o", out, *self.sources, *self.libraries)


class MadeSubject(Subject):
    """A program that has a makefile. It is made in one place always, so names of files stay."""

    def __init__(self, name, folder, work, product, variables, **runs):
        super().__init__(name, [], [], [], **runs)
        self.folder, self.product, self.variables = folder, product, variables
        self.build = work / f"{name}-build"

    def compile(self, compiler, flags, link_flags, out):
        shutil.rmtree(self.build, ignore_errors=True)
        shutil.copytree(self.folder, self.build, symlinks=True)
        # Libraries are made of the same objects: one that is not whole would not be relinked.
        run("make", "-C", self.build, "-j2", f"CC={compiler}", f"CFLAGS={' '.join(flags)}",
            f"LDFLAGS={' '.join([*flags, *link_flags])}", *self.variables)
        shutil.copy2(self.build / self.product, out)


def lua(folder):
    sources = [str(f) for f in sorted(pathlib.Path(folder).glob("*.c")) if f.name != "luac.c"]
    script = str(HERE / "work.lua")
    # BOLT 19 cannot move this function: it jumps through a table of labels (computed goto).
    # The seed of its hashes would come from the clock.
    flags = ["-DLUA_USE_LINUX", "-Dluai_makeseed(L)=42u"]
    return Subject("lua", sources, flags, ["-lm", "-ldl"],
                   train=[script, "1", "7"], sampled=[script, "60", "7"],
                   timed=[script, "4", "42"], bolt_skips="luaV_execute.*")


def sqlite(folder, work):
    script = (HERE / "work.sql").read_text()

    def write(name, rows, seeds):
        parts = (script.replace("ROWS", str(rows)).replace("SEED", str(seed)) for seed in seeds)
        (work / f"{name}.sql").write_text("DROP TABLE item;\n".join(parts))

    # Again and again, not with more rows: those would make the joins, which are quadratic, all of it.
    write("train", 4000, [7])
    write("sampled", 4000, range(7, 1507))
    write("timed", 20000, [42])
    sources = [f"{folder}/sqlite3.c", f"{folder}/shell.c"]
    flags = ["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DHAVE_READLINE=0"]
    arguments = {name: [":memory:", f".read {work}/{name}.sql"]
                 for name in ("train", "sampled", "timed")}
    return Subject("sqlite3", sources, flags, ["-lm"], **arguments)


def tcc(folder, work, sqlite_folder):
    """A compiler: of SQLite's shell in training, of SQLite itself when timed, many times over."""
    flags = ["-DTCC_TARGET_X86_64", "-DONE_SOURCE=1", f"-I{folder}", "-w"]
    options = [f"-I{folder}/include", "-I/usr/include", "-I/usr/include/x86_64-linux-gnu", "-w",
               "-DSQLITE_THREADSAFE=0", "-c"]
    shell, library = f"{sqlite_folder}/shell.c", f"{sqlite_folder}/sqlite3.c"
    return Subject("tcc", [f"{folder}/tcc.c"], flags, ["-lm", "-ldl", "-lpthread"],
                   train=[*options, shell], sampled=[*options, *[shell] * 350],
                   timed=[*options, *[library] * 4], writes=work / "sqlite3.o")


def some_text(path, folder, size):
    """The sources of a program, one behind the other."""
    text = b"".join(f.read_bytes() for f in sorted(pathlib.Path(folder).rglob("*.[ch]")))
    path.write_bytes(text[:size])
    return str(path)


def compressor(name, folder, work, other_folder, product, variables, options):
    """Compresses its own sources in training, those of another program when timed."""
    train = some_text(work / f"{name}.train", folder, 600_000)
    timed = some_text(work / f"{name}.timed", other_folder, 900_000)
    return MadeSubject(name, folder, work, product, variables, train=[*options, train],
                       sampled=[*options, *[train] * 40], timed=[*options, timed])


def xz(folder, work, other_folder):
    return compressor("xz", folder, work, other_folder, "src/xz/xz", [], ["-6", "-T1", "-k", "-c"])


def zstd(folder, work, other_folder):
    variables = ["-C", "programs", "zstd", "HAVE_THREAD=0", "HAVE_ZLIB=0", "HAVE_LZMA=0",
                 "HAVE_LZ4=0"]
    return compressor("zstd", folder, work, other_folder, "programs/zstd", variables,
                      ["-9", "-q", "-k", "-c"])
