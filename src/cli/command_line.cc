// SPDX-License-Identifier: MIT
#include "cli/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sstream>

#include "base/log.h"
#include "base/printable.h"
#include "cli/exit_codes.h"
#include "profile/file/json_file.h"
#include "profile/file/output_file.h"

namespace shadowprof::cli {
namespace {

// What a terminal of 80 columns shows without folding: names to the left, behind them what they are
// for, with the default in brackets. Which words an option takes its text says, not its type.
constexpr size_t kColumns = 80;
constexpr size_t kNameColumns = 26;

class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(Usage usage) : usage_(std::move(usage)) {
    label("Positionals", "Operands");
  }
  std::string make_usage(const CLI::App*, std::string name) const override {
    const std::string operands = usage_.operands.empty() ? "" : " " + usage_.operands;
    return usage_lines(name + " [OPTIONS]" + operands, usage_.examples);
  }
  // Options that are shown with another one are a group of their own, of which a line's end is all
  // that is shown.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = Formatter::make_help(app, std::move(name), mode);
    if (const size_t two = text.find("\n\n\n"); two != std::string::npos) text.erase(two, 1);
    while (text.ends_with("\n\n")) text.pop_back();
    return text;
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

  Usage usage_;
};

// How many letters must be changed, added, left out or swapped with the next to make `b` of `a`.
size_t typing_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) {
    for (size_t j = 0; j <= b.size(); j++) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      size_t& least = cost[i][j];
      least = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + !same});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least = std::min(least, cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// The one of a command's long options that is most like it, with its dashes; "": none is like it.
std::string nearest_option(const CLI::App& app, std::string_view word) {
  if (!word.starts_with("--")) return "";
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  const std::string best = nearest(word.substr(2), names, 2);
  return best.empty() ? "" : "--" + best;
}

// What other commands call so.
std::string_view commands_with(std::string_view option) {
  if (option == "--format") return "check and export";
  if (option == "--every" || option == "--keep") return "attach";
  if (option == "--color") return "report, annotate and diff";
  if (option == "--limit") return "report, diff and check";
  if (option == "--html") return "report and diff";
  if (option == "--json")
    return "report, annotate, diff, compare, stat, doctor, probes and syscalls";
  if (option == "--mode" || option == "--profile") return "run and attach";
  return "";
}

// The first word that nobody expected, in our words.
std::string unexpected(const CLI::App& app, const std::vector<std::string>& words) {
  const auto odd = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  if (odd == words.end())
    return fmt::format("'{}' is one word too many", words.empty() ? "" : printable(words.back()));
  return no_such_option(app, *odd);
}

// The library may say several lines; we say one.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

std::string no_such_option(const CLI::App& app, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  const std::string text = fmt::format("there is no option {}", printable(name));
  if (const std::string_view others = commands_with(name); !others.empty())
    return fmt::format("{} here: it is one of {}", text, others);
  if (const std::string near = nearest_option(app, name); !near.empty())
    return text + ": did you mean " + near + "?";
  return text;
}

std::string nearest(std::string_view word, const std::vector<std::string>& names, size_t most) {
  if (word.size() > kColumns) return "";
  std::string best;
  for (const std::string& name : names) {
    const size_t distance = typing_distance(word, name);
    // Short words resemble everything.
    if (distance > most || distance * 2 > std::max(word.size(), name.size())) continue;
    best = name;
    most = distance - (distance != 0);
  }
  return best;
}

std::string instead_of(std::string_view word, const std::vector<std::string>& names) {
  if (const std::string near = nearest(word, names, 2); !near.empty())
    return "did you mean " + near + "?";
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "there are " : ", ") + name;
  return list;
}

CLI::Validator one_of(std::string what, std::vector<std::string> names) {
  return CLI::Validator(
      [what = std::move(what), names = std::move(names)](std::string& word) -> std::string {
        if (std::find(names.begin(), names.end(), word) != names.end()) return {};
        return fmt::format("there is no {} '{}': {}", what, printable(word),
                           instead_of(word, names));
      },
      "");
}

void add_color_option(CLI::App& app, std::string& when) {
  app.add_option("--color", when, "always, auto or never")
      ->type_name("WHEN")
      ->check(one_of("choice", {"always", "auto", "never"}))
      ->capture_default_str();
}

std::string usage_lines(const std::string& line, const std::vector<std::string>& examples) {
  std::string text = "Usage:    " + line + "\n";
  for (size_t i = 0; i < examples.size(); i++)
    text += (i == 0 ? "Examples: " : "          ") + examples[i] + "\n";
  return text;
}

std::optional<int> parse_command_line(CLI::App& app, Usage usage, int argc, char** argv) {
  app.formatter(std::make_shared<UsageFormatter>(std::move(usage)));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const Status printed = print(app.help());
    if (printed) return kExitOk;
    error("{}", printed.error().message);
    return kExitOwnFailure;
  } catch (const CLI::ExtrasError&) {
    error("{} (see {} --help)", unexpected(app, app.remaining()), app.get_name());
    return kExitOwnFailure;
  } catch (const CLI::RequiredError&) {
    for (const CLI::Option* option : app.get_options())
      if (option->get_required() && option->count() == 0) {
        error("{} is missing (see {} --help)", option->get_name(option->get_positional()),
              app.get_name());
        return kExitOwnFailure;
      }
    error("a word is missing (see {} --help)", app.get_name());
    return kExitOwnFailure;
  } catch (const CLI::ParseError& problem) {
    error("{} (see {} --help)", one_line(problem.what()), app.get_name());
    return kExitOwnFailure;
  }
  return std::nullopt;
}

Result<profile::Profile> read_given_profile(const std::string& file) {
  if (file == kDefaultProfile && ::access(file.c_str(), F_OK) != 0 && errno == ENOENT)
    return fail("no profile given, and there is no {} here", kDefaultProfile);
  return profile::read_profile(file);
}

Status print(std::string_view text) {
  std::signal(SIGPIPE, SIG_IGN);
  SP_ASSIGN(profile::OutputFile out, profile::OutputFile::open("-"));
  out.write(text);
  Status status = out.finish();
  if (!status && status.error().errno_value == EPIPE) return {};
  return status;
}

Status write_text(const std::string& text, const std::string& output) {
  if (output == "-") return print(text);
  SP_ASSIGN(profile::OutputFile out, profile::OutputFile::open(output));
  out.write(text);
  return out.finish();
}

}  // namespace shadowprof::cli
