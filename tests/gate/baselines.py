#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Baselines, what check writes for GitHub, and the scripts of ci/ as their services run them.

usage: baselines.py --shadowprof PATH --base PROGRAM --slower PROGRAM --seeded-base PROGRAM
                    --seeded PROGRAM --ci FOLDER

Ends with "N passed, N failed"; status 1 on failure.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from gate_cases import require, run_cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
from profile_file import checked  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

OK, REGRESSION, OWN = 0, 3, 125
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
EVERYTHING = ("--profile", "edge,call,path,value,latency", "--condition", "values=all")


class Baselines:
    def __init__(self, options, folder):
        self.shadowprof = os.path.abspath(options.shadowprof)
        self.programs = tuple(map(os.path.abspath, (options.base, options.slower)))
        self.seeded = tuple(map(os.path.abspath, (options.seeded_base, options.seeded)))
        self.ci = pathlib.Path(options.ci).resolve()
        self.dir = pathlib.Path(folder)
        for program, name in zip(self.programs, ("base.json", "slower.json")):
            self.profile(program, name)

    def execute(self, *command, status=OK, cwd=None, **environment):
        done = subprocess.run(list(map(str, command)), cwd=cwd or self.dir, check=False,
                              env={**ENVIRONMENT, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        require(done.returncode == status,
                f"{command}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
        return done

    def run(self, *arguments, **options):
        return self.execute(self.shadowprof, *arguments, **options)

    def profile(self, program, name, *options):
        self.run("run", "--mode", "full", "-q", "--deterministic", *options, "-o", name, "--", program)


def a_baseline_is_small_and_finds_what_its_profile_finds(b):
    said = b.run("baseline", "save", "words", "base.json").stderr
    require(re.match(r"shadowprof: \d+ bytes, without blocks and edges: "
                     r"\.shadowprof/baselines/words\.json\.zst\n", said), said)
    file = b.dir / ".shadowprof/baselines/words.json.zst"
    require(file.stat().st_size < (b.dir / "base.json").stat().st_size / 5, file.stat().st_size)
    same = b.run("check", "--baseline", "words", "base.json", "--limit", "instructions<=+0",
                 "--limit", "function:*:instructions<=+0", "--limit", "calls:*<=+0",
                 "--limit", "function:*:inclusive<=+0", "--limit", "syscalls:*<=+0").stdout
    require("words: instructions 0%" in same and "0 regressions, 0 warnings" in same, same)
    by_profile = b.run("check", "base.json", "slower.json", status=REGRESSION).stdout
    by_baseline = b.run("check", "--baseline", "words", "slower.json", status=REGRESSION).stdout
    # The reason is in lines and edges, which a baseline has not.
    by_profile = re.sub(r": new code at words\.cc:\d+", "", by_profile)
    require(by_baseline == "words: " + by_profile, f"{by_profile}\n{by_baseline}")
    listed = b.run("baseline", "list").stdout
    require(listed.startswith("words ") and "words_base" in listed, listed)


def a_baseline_of_everything_raises_no_alarm(b):
    for name, program in zip(("all.json", "again.json", "seeded.json"), (b.seeded[0], *b.seeded)):
        b.profile(program, name, *EVERYTHING)
    b.run("baseline", "save", "all", "all.json", "--baseline-dir", "kept")
    limits = ("--limit", "path:*:instructions<=+0", "--limit", "value:*:invariance>=-30%@0.5%",
              "--limit", "function:*:instructions<=+0")
    require("0 regressions" in b.run("check", "--baseline", "all", "--baseline-dir", "kept",
                                     "again.json", *limits).stdout, "an alarm")
    found = b.run("check", "--baseline", "all", "--baseline-dir", "kept", "seeded.json",
                  status=REGRESSION).stdout
    for name in ("parse", "classify", "look_up"):
        require(name in found, found)
    require((b.dir / "kept/all.json.zst").stat().st_size <= 100_000, "too large")


def a_baseline_is_taken_by_check_and_diff_alone(b):
    file = ".shadowprof/baselines/words.json.zst"
    b.run("diff", file, "slower.json")
    if shutil.which("zstd"):
        document = json.loads(b.execute("zstd", "-dcq", file).stdout)
        require(checked(document)["left_out"]["edges"] > 0, document.keys())
    for command in (("report", file), ("merge", "-o", "m.json", file, "base.json"),
                    ("export", "--format", "folded", file), ("baseline", "save", "b", file)):
        said = b.run(*command, status=OWN).stderr
        require("it is a baseline" in said and said.count("\n") == 1, said)
    for command in (("baseline", "save", "../x", "base.json"), ("baseline", "save"),
                    ("baseline", "list", "x"), ("baseline", "forget"), ("check", "base.json"),
                    ("check", "--baseline", "nightly", "base.json"),
                    ("check", "--baseline", "words", "base.json", "slower.json"),
                    ("check", "--github", "--format", "sarif", "base.json", "slower.json")):
        said = b.run(*command, status=OWN)
        require(said.stderr.count("\n") == 1 and said.stdout == "", said)
    require("there are words" in b.run("check", "--baseline", "nightly", "base.json",
                                       status=OWN).stderr, "names are not said")


def github_gets_annotations_summary_and_sarif_in_one_go(b):
    summary = b.dir / "summary.md"
    summary.write_text("before\n")
    for number in (1, 2):
        done = b.run("check", "--baseline", "words", "slower.json", "--github", "-o", "words.sarif",
                     status=REGRESSION, GITHUB_STEP_SUMMARY=str(summary))
        require(re.match(r"::error file=\S*words\.cc,line=\d+,title=", done.stdout), done.stdout)
        require(done.stderr == "", done.stderr)
        text = summary.read_text()
        require(text.startswith("before\n") and text.count("### Slower: words") == number, text)
    results = json.loads((b.dir / "words.sarif").read_text())["runs"][0]["results"]
    prints = [result["partialFingerprints"] for result in results]
    require(len(prints) == 1 and prints[0]["subject/v1"], results)
    said = b.run("check", "base.json", "base.json", "--github").stderr
    require("GITHUB_STEP_SUMMARY" in said and (b.dir / "shadowprof.sarif").exists(), said)


def has_one_processor(b, profile):
    """Machines of one service are not alike."""
    if shutil.which("zstd"):
        options = json.loads(b.execute("zstd", "-dcq", profile).stdout)["run"]["options"]
        require(options["cpu_features"] == "baseline", options)


def inputs_of_the_action(b):
    """Those of action.yml with their defaults, as the names that its step gives them."""
    action = yaml.safe_load((b.ci / "action.yml").read_text())
    step, = action["runs"]["steps"]
    require(step["run"] == 'bash "$GITHUB_ACTION_PATH/check.sh"', step["run"])
    values = {}
    for name, expression in step["env"].items():
        wanted = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", expression)[1]
        values[name] = str(action["inputs"][wanted].get("default", ""))
    require(len(values) == len(action["inputs"]), f"an input has no variable: {values}")
    return step["run"], values


def the_action_for_github_keeps_and_checks_a_baseline(b):
    script, values = inputs_of_the_action(b)
    folder = b.dir / "github"
    folder.mkdir()
    files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    values.update(CHECK_NAME="words", CHECK_SHADOWPROF=b.shadowprof, RUNNER_TEMP=str(folder),
                  GITHUB_ACTION_PATH=str(b.ci), **{name: str(file) for name, file in files.items()})

    def step(program, status, **inputs):
        files["GITHUB_OUTPUT"].write_text("")
        done = b.execute("bash", "-eo", "pipefail", "-c", script, cwd=folder, status=status,
                         **{**values, "CHECK_COMMAND": f"'{program}'", **inputs})
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        return done, outputs

    done, outputs = step(b.programs[0], OK, CHECK_UPDATE="true")
    require(outputs == {"result": "no-baseline"} and "::notice" in done.stdout, f"{outputs} {done}")
    _, outputs = step(b.programs[0], OK)
    require(outputs["result"] == "passed", outputs)
    has_one_processor(b, folder / "words.json.zst")
    done, outputs = step(b.programs[1], REGRESSION)
    require(outputs["result"] == "regression" and "::error file=" in done.stdout, f"{outputs} {done}")
    require(json.loads(pathlib.Path(outputs["sarif"]).read_text())["runs"][0]["results"], outputs)
    require("Slower: words" in files["GITHUB_STEP_SUMMARY"].read_text(), "no summary")
    step(b.programs[1], OK, CHECK_LIMITS="instructions<=+5%\n\nfunction:parse:instructions<=+10%\n")
    _, outputs = step(b.programs[1], OWN, CHECK_LIMITS="nonsense")
    require(outputs["result"] == "undecidable", outputs)
    step("/bin/false", 1)


def the_template_for_gitlab_keeps_and_checks_a_baseline(b):
    job = yaml.safe_load((b.ci / "gitlab.yml").read_text())[".shadowprof"]
    script, = job["script"]
    folder = b.dir / "gitlab"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/shadowprof").symlink_to(b.shadowprof)
    values = {**job["variables"], "CHECK_NAME": "words", "CI_DEFAULT_BRANCH": "main",
              "PATH": f"{folder}/bin:{ENVIRONMENT['PATH']}"}
    for shell in (("bash", "-eo", "pipefail", "-c"), ("sh", "-e", "-c")):
        def step(program, status, command=shell, **variables):
            return b.execute(*command, script, cwd=folder, status=status,
                             **{**values, "CHECK_COMMAND": f"'{program}'", **variables})

        shutil.rmtree(folder / ".shadowprof", ignore_errors=True)
        done = step(b.programs[0], OK, CI_COMMIT_BRANCH="main")
        require("there is no baseline words" in done.stdout, done)
        require((folder / ".shadowprof/baselines/words.json.zst").exists(), "nothing was kept")
        step(b.programs[0], OK, CI_COMMIT_BRANCH="topic")
        has_one_processor(b, folder / "words.json.zst")
        step(b.programs[1], REGRESSION, CI_COMMIT_BRANCH="topic")
        require('failures="1"' in (folder / "words.xml").read_text(), "no JUnit")
        step(b.programs[1], OK, CHECK_LIMITS="instructions<=+5%\nfunction:parse:instructions<=+10%")
        step("/bin/false", 1)


CASES = [a_baseline_is_small_and_finds_what_its_profile_finds,
         a_baseline_of_everything_raises_no_alarm,
         a_baseline_is_taken_by_check_and_diff_alone,
         github_gets_annotations_summary_and_sarif_in_one_go]
CI_CASES = [the_action_for_github_keeps_and_checks_a_baseline,
            the_template_for_gitlab_keeps_and_checks_a_baseline]


def main():
    parser = argparse.ArgumentParser()
    for name in ("shadowprof", "base", "slower", "seeded-base", "seeded", "ci"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    cases = CASES + (CI_CASES if yaml else [])
    if not yaml:
        print("skip  scripts of ci/: python3-yaml is not installed")
    with tempfile.TemporaryDirectory(prefix="shadowprof-baselines-") as folder:
        return run_cases(cases, Baselines(options, folder))


if __name__ == "__main__":
    sys.exit(main())
