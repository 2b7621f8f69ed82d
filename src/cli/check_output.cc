// SPDX-License-Identifier: MIT
#include "cli/check_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "base/unique_fd.h"
#include "cli/command_line.h"
#include "cli/version.h"
#include "profile/file/output_file.h"

namespace shadowprof::cli {
namespace {

// Steps of one job write to the same file, one after the other.
Status append_to(const std::string& file, std::string_view text) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) return fail_errno(errno, "cannot write {}", file);
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n < 0 && errno != EINTR) return fail_errno(errno, "cannot write {}", file);
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

Status write_findings(const std::vector<report::Comparison>& all, report::CheckFormat format,
                      const std::string& file) {
  const std::string text = report::render_check(all, format, version());
  if (file == "-") return print(text);
  SP_ASSIGN(profile::OutputFile output, profile::OutputFile::open(file));
  output.write(text);
  return output.finish();
}

Status write_github(const std::vector<report::Comparison>& all, const std::string& sarif_file) {
  SP_TRY(write_findings(all, report::CheckFormat::github, "-"));
  SP_TRY(write_findings(all, report::CheckFormat::sarif, sarif_file));
  const char* summary = std::getenv("GITHUB_STEP_SUMMARY");
  if (summary == nullptr || *summary == '\0') {
    info("there is no GITHUB_STEP_SUMMARY, so no summary was written");
    return {};
  }
  return append_to(summary, report::render_check(all, report::CheckFormat::markdown, version()));
}

}  // namespace shadowprof::cli
