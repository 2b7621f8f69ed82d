#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes one header of the report's page, style and script.

usage: embed.py OUT PAGE STYLE SCRIPT
"""

import pathlib
import sys

DELIMITER = "sp_asset"


def main(out, *sources):
    lines = ["// SPDX-License-Identifier: MIT", "// Made by embed.py at build time.", "#pragma once",
             "namespace shadowprof::report::html {"]
    for name, source in zip(("kPage", "kStyle", "kScript"), sources):
        text = pathlib.Path(source).read_text(encoding="utf-8")
        if f"){DELIMITER}\"" in text:
            sys.exit(f"{source} holds the end of a raw string")
        lines.append(f'inline constexpr char {name}[] = R"{DELIMITER}({text}){DELIMITER}";')
    lines.append("}")
    pathlib.Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
