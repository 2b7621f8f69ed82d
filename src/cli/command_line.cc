// SPDX-License-Identifier: MIT
#include "cli/command_line.h"

#include <algorithm>
#include <csignal>

#include "base/log.h"
#include "cli/exit_codes.h"
#include "profile/output_file.h"

namespace shadowprof::cli {
namespace {

class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string operands) : operands_(std::move(operands)) {}
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " [OPTIONS]" + operands_ + "\n";
  }

 private:
  std::string operands_;
};

// The library may say several lines; we say one.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, std::string operands, int argc, char** argv) {
  app.formatter(std::make_shared<UsageFormatter>(operands.empty() ? "" : " " + operands));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const Status printed = print(app.help());
    if (printed) return kExitOk;
    error("{}", printed.error().message);
    return kExitOwnFailure;
  } catch (const CLI::ParseError& problem) {
    error("{} (see {} --help)", one_line(problem.what()), app.get_name());
    return kExitOwnFailure;
  }
  return std::nullopt;
}

Status print(std::string_view text) {
  std::signal(SIGPIPE, SIG_IGN);
  SP_ASSIGN(profile::OutputFile out, profile::OutputFile::open("-"));
  out.write(text);
  Status status = out.finish();
  if (!status && status.error().errno_value == EPIPE) return {};
  return status;
}

}  // namespace shadowprof::cli
