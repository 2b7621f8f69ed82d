// SPDX-License-Identifier: MIT
#include "cli/command_line.h"

#include <algorithm>
#include <csignal>
#include <sstream>

#include "base/log.h"
#include "cli/exit_codes.h"
#include "profile/output_file.h"

namespace shadowprof::cli {
namespace {

// What a terminal of 80 columns shows without folding: names to the left, behind them what they are
// for, with the default in brackets. Which words an option takes its text says, not its type.
constexpr size_t kColumns = 80;
constexpr size_t kNameColumns = 26;

class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string operands) : operands_(std::move(operands)) {
    label("Positionals", "Operands");
  }
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " [OPTIONS]" + operands_ + "\n";
  }
  std::string make_option(const CLI::Option* option, bool is_operand) const override {
    std::string name = "  " + option->get_name(is_operand, !is_operand);
    if (!is_operand && option->get_type_size() != 0) {
      const std::string type = option->get_type_name();  // "N:UINT in [0 - 9]"
      name += " " + type.substr(0, type.find(':'));
    }
    std::string text = option->get_description();
    if (const std::string chosen = option->get_default_str(); !chosen.empty())
      text += chosen == "-" ? " (standard output)" : " (" + chosen + ")";
    if (name.size() + 2 > kNameColumns)
      name += "\n" + std::string(kNameColumns, ' ');
    else
      name.resize(kNameColumns, ' ');
    return name + folded(text) + "\n";
  }

 private:
  static std::string folded(const std::string& text) {
    std::istringstream words(text);
    std::string result;
    size_t column = kNameColumns;
    for (std::string word; words >> word;) {
      if (result.empty()) {
        column += word.size();
      } else if (column + 1 + word.size() > kColumns) {
        result += "\n" + std::string(kNameColumns, ' ');
        column = kNameColumns + word.size();
      } else {
        result += ' ';
        column += 1 + word.size();
      }
      result += word;
    }
    return result;
  }

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
