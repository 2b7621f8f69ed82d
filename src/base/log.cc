// SPDX-License-Identifier: MIT
#include "base/log.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/line_eraser.h"
#include "base/printable.h"

namespace shadowprof {
namespace {

Verbosity current = Verbosity::normal;

// Messages quote names out of programs and files; none of them may write a second line or drive the
// reader's terminal. One write per line: lines of several threads do not mix, and a full pipe is
// not an error of ours.
void write_line(std::string_view message) {
  if (const auto erase = line_eraser.load()) erase();
  std::string line = "shadowprof: ";
  line += printable(message);
  line += '\n';
  write_to_user(line);
}

}  // namespace

void write_to_user(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written > 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (written == 0 || errno != EINTR)
      return;
  }
}

void set_verbosity(Verbosity v) { current = v; }
Verbosity verbosity() { return current; }

void say(std::string_view message) {
  if (current != Verbosity::quiet) write_line(message);
}
void say_always(std::string_view message) { write_line(message); }
void say_detail(std::string_view message) {
  if (current == Verbosity::verbose) write_line(message);
}

}  // namespace shadowprof
