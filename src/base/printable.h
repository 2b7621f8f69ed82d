// SPDX-License-Identifier: MIT
//
// The one way by which text from outside (names out of programs, profiles and command lines)
// reaches a terminal, a log or a file of text. What leaves here is UTF-8 on one line that drives
// nobody's terminal.
#pragma once

#include <string>
#include <string_view>

namespace shadowprof {

// `text` with control characters, line separators, characters that change the direction of writing,
// and bytes that are not UTF-8, as \xNN.
std::string printable(std::string_view text);

}  // namespace shadowprof
