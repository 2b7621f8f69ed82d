// SPDX-License-Identifier: MIT
//
// What we say to the user goes to stderr, one line each, prefixed with our name.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace shadowprof {

enum class Verbosity { quiet, normal, verbose };

void set_verbosity(Verbosity v);
Verbosity verbosity();

// As it is, to standard error, and all of it. What cannot be written is lost: standard error may be
// closed or full.
void write_to_user(std::string_view text);

void say(std::string_view message);          // unless -q
void say_always(std::string_view message);   // errors, and what -q must not hide
void say_detail(std::string_view message);   // with -v

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  say(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  say_always(fmt::format(format, std::forward<Args>(args)...));
}
// What must not be missed, and is no error: said with -q, too.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  say_always(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void detail(fmt::format_string<Args...> format, Args&&... args) {
  if (verbosity() == Verbosity::verbose)
    say_detail(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace shadowprof
