#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes one header of the report's page, style and scripts: page.html is kPage, and so on.

usage: embed.py OUT FILE...
"""

import pathlib
import sys

DELIMITER = "sp_asset"


def main(out, *sources):
    lines = ["// SPDX-License-Identifier: MIT", "// Made by embed.py at build time.", "#pragma once",
             "namespace shadowprof::report::html {"]
    for source in sources:
        name = "k" + pathlib.Path(source).stem.capitalize()
        text = pathlib.Path(source).read_text(encoding="utf-8")
        if f"){DELIMITER}\"" in text:
            sys.exit(f"{source} holds the end of a raw string")
        lines.append(f'inline constexpr char {name}[] = R"{DELIMITER}({text}){DELIMITER}";')
    lines.append("}")
    pathlib.Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
