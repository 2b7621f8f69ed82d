// SPDX-License-Identifier: MIT
#include "report/check_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/columns.h"
#include "report/diff_report.h"

namespace shadowprof::report {
namespace {

using profile::Finding;
using profile::Severity;

size_t count(const Comparison& c, Severity severity) {
  return static_cast<size_t>(
      std::count_if(c.findings.begin(), c.findings.end(),
                    [&](const Finding& f) { return f.severity == severity; }));
}

std::string where(const Finding& f) {
  if (f.file.empty()) return "";
  return f.line == 0 ? f.file : fmt::format("{}:{}", f.file, f.line);
}

std::string summary(const Comparison& c) {
  const std::string name = c.name.empty() ? "" : printable(c.name) + ": ";
  if (!c.knows_totals) return name + kNoTotal;
  return fmt::format("{}instructions {} ({} before, {} now)", name, change_ratio(c.instructions),
                     c.instructions.base, c.instructions.now);
}

std::string plural(size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string text_report(const std::vector<Comparison>& all) {
  std::string text;
  size_t errors = 0;
  size_t warnings = 0;
  for (const Comparison& c : all) {
    text += summary(c) + (c.exact ? "\n" : " (not exact)\n");
    if (!c.seen.empty()) text += "  " + printable(c.seen) + "\n";
    for (const Finding& f : c.findings) {
      const std::string place = where(f);
      text += fmt::format("  {}: {}{}\n", f.severity == Severity::error ? "error" : "warning",
                          place.empty() ? "" : printable(place) + ": ", printable(f.message));
    }
    errors += count(c, Severity::error);
    warnings += count(c, Severity::warning);
  }
  text += fmt::format("{}, {}\n", plural(errors, "regression"), plural(warnings, "warning"));
  return text;
}

// Characters that mean something in a table of GitHub's and GitLab's Markdown.
std::string markdown(std::string_view text) {
  std::string result;
  for (char c : printable(text)) {
    if (std::string_view("\\`*_{}[]<>()#+-!|~&@").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string markdown_report(const std::vector<Comparison>& all) {
  std::string text;
  for (const Comparison& c : all) {
    const size_t errors = count(c, Severity::error);
    text += fmt::format("### {}{}\n\n", errors != 0 ? "Slower" : "No regression",
                        c.name.empty() ? "" : ": " + markdown(c.name));
    if (c.knows_totals)
      text +=
          fmt::format("Instructions: {} → {} (**{}**){}\n", c.instructions.base, c.instructions.now,
                      markdown(change_ratio(c.instructions)), c.exact ? "" : ", not exact");
    else
      text += markdown(kNoTotal) + "\n";
    if (!c.seen.empty()) text += "\n" + markdown(c.seen) + "\n";
    if (!c.findings.empty())
      text +=
          "\n| | what | where | before | now | change | limit |\n|---|---|---|--:|--:|--:|---|\n";
    for (const Finding& f : c.findings) {
      const double unit = f.share ? 1e-4 : 1;
      const auto figure = [&](uint64_t n) {
        return f.share ? fmt::format("{:.2f} %", static_cast<double>(n) * unit)
                       : fmt::format("{}", n);
      };
      text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n",
                          f.severity == Severity::error ? "error" : "warning", markdown(f.subject),
                          markdown(where(f)), figure(f.change.base), figure(f.change.now),
                          markdown(change_ratio(f.change)), markdown(f.rule));
    }
    text += '\n';
  }
  return text;
}

// The workflow commands of GitHub Actions: data has %, CR and LF escaped, properties : and , too.
// "##[" would be a command wherever it stands, and has no escape of theirs.
std::string escape_github(std::string_view text, bool property) {
  std::string result;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (text.substr(i, 3) == "##[") {
      result += "\\x23";
      continue;
    }
    const bool special = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    result += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return result;
}

// What is only shown must not be taken for a command: "::" at the begin of a line, or "##["
// anywhere.
std::string without_commands(const std::string& text) {
  std::string result;
  bool line_begins = true;
  for (size_t i = 0; i < text.size(); i++) {
    if (line_begins && text.compare(i, 2, "::") == 0)
      result += "\\x3a";
    else if (text.compare(i, 3, "##[") == 0)
      result += "\\x23";
    else
      result += text[i];
    line_begins = text[i] == '\n' || (line_begins && text[i] == ' ');
  }
  return result;
}

std::string github_report(const std::vector<Comparison>& all) {
  std::string text;
  for (const Comparison& c : all) {
    for (const Finding& f : c.findings) {
      text += f.severity == Severity::error ? "::error " : "::warning ";
      if (!f.file.empty()) text += fmt::format("file={},", escape_github(printable(f.file), true));
      if (f.line != 0) text += fmt::format("line={},", f.line);
      const std::string name = c.name.empty() ? "" : c.name + ": ";
      text += fmt::format("title={}::{}\n", escape_github(printable(name + f.subject), true),
                          escape_github(printable(name + f.message), false));
    }
  }
  return text + without_commands(text_report(all));
}

}  // namespace

std::optional<CheckFormat> check_format_from(std::string_view name) {
  if (name == "text") return CheckFormat::text;
  if (name == "markdown") return CheckFormat::markdown;
  if (name == "github") return CheckFormat::github;
  if (name == "sarif") return CheckFormat::sarif;
  if (name == "junit") return CheckFormat::junit;
  return std::nullopt;
}

std::string render_check(const std::vector<Comparison>& all, CheckFormat format,
                         const std::string& version) {
  switch (format) {
    case CheckFormat::text:
      break;
    case CheckFormat::markdown:
      return markdown_report(all);
    case CheckFormat::github:
      return github_report(all);
    case CheckFormat::sarif:
      return sarif_report(all, version);
    case CheckFormat::junit:
      return junit_report(all);
  }
  return text_report(all);
}

}  // namespace shadowprof::report
