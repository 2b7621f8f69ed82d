// SPDX-License-Identifier: MIT
#include "report/text_report.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "report/columns.h"

namespace shadowprof::report {

using profile::Place;
using profile::Profile;

namespace {

class Renderer {
 public:
  Renderer(const Profile& profile, const TextOptions& options)
      : profile_(profile), options_(options), columns_(std::max<size_t>(options.columns, 80)) {}

  bool estimated() const {
    const auto option = profile_.run.options.find("inclusive");
    return option != profile_.run.options.end() && option->second == "estimated";
  }

  std::string render() {
    if (options_.summary) summary();
    methods();
    call_pairs();
    edges();
    return std::move(text_);
  }

 private:
  void line(std::string_view content) {
    text_ += content;
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }

  // Rows that matter stand out: 10 % and more, 1 % and more.
  std::string colored(double share, const std::string& content) const {
    if (!options_.color || share < 0.01) return content;
    return fmt::format("\x1b[{}m{}\x1b[0m", share >= 0.1 ? "1;31" : "33", content);
  }
  void heading(std::string_view title) {
    text_ += '\n';
    line(options_.color ? fmt::format("\x1b[1m{}\x1b[0m", title) : std::string(title));
  }
  void summary();
  void methods();
  void call_pairs();
  void edges();
  void more(size_t shown, size_t all) {
    if (shown < all) line(fmt::format("  ... and {} more", all - shown));
  }

  const Profile& profile_;
  const TextOptions& options_;
  size_t columns_;
  std::string text_;
};

void Renderer::summary() {
  const profile::Run& run = profile_.run;
  const profile::Coverage& c = profile_.coverage;
  std::string command;
  for (const std::string& word : run.command)
    command += (command.empty() ? "" : " ") + printable(word);
  line(fit(command, columns_));
  std::string end = "still running";
  if (run.exit)
    end = fmt::format("{} {}", run.exit->signalled ? "killed by signal" : "exit status",
                      run.exit->value);
  line(fit(fmt::format("{} mode, {} engine, {:.2f} s, {}", printable(run.mode),
                       printable(run.engine), run.duration_s, end),
           columns_));
  line(fmt::format("{} instructions{}, {} of them profiled ({}{})", c.instructions_total,
                   c.estimated ? " (estimated)" : "", percent(c.share()),
                   profile_.confidence.exact ? "exact, " : "",
                   c.dropped_instructions() == 0
                       ? "none dropped"
                       : fmt::format("{} dropped", c.dropped_instructions())));
  line(fmt::format("{} functions, {} blocks, {} edges, {} call pairs", profile_.functions.size(),
                   profile_.tables.blocks.size(), profile_.tables.edges.size(),
                   profile_.tables.calls.size()));
}

void Renderer::methods() {
  const auto& rows = profile_.hotlists.methods;
  const size_t shown = std::min(options_.limit, rows.size());
  heading("Hot functions (by instructions of their own)");
  if (estimated()) line("(total: estimated from calls)");
  line("   self   total    instr    calls    loops  function");
  // What is left for names; wide terminals have the source line and the file too.
  const size_t room = columns_ - 44;
  const bool wide = columns_ >= 110;
  const size_t name_columns = wide ? room - 48 : room;
  for (size_t i = 0; i < shown; i++) {
    const profile::HotMethod& m = rows[i];
    const std::string figures = fmt::format(
        "{:>7} {:>7} {:>8} {:>8} {:>8}", percent(m.self_share), percent(m.inclusive_share),
        short_count(m.self), short_count(m.invocations), short_count(m.loop_iterations));
    std::string name = left(function_or_address(m.at), name_columns);
    if (wide) name += "  " + left(source(m.at), 24) + " " + fit(module_name(m.at), 20);
    line(colored(m.self_share, figures) + "  " + name);
  }
  more(shown, profile_.functions.size());
}

void Renderer::call_pairs() {
  const auto& rows = profile_.hotlists.call_pairs;
  const size_t shown = std::min(options_.limit, rows.size());
  heading("Hot calls (by count; * the callee is computed)");
  line("  share    count    instr  call site -> callee");
  const size_t room = columns_ - 27 - 6;
  for (size_t i = 0; i < shown; i++) {
    const profile::HotCallPair& c = rows[i];
    const std::string figures = fmt::format("{:>7} {:>8} {:>8}", percent(c.share),
                                            short_count(c.count), short_count(c.inclusive));
    const std::string callee = fit(function_or_address(c.callee), room / 2);
    const std::string site = left(point(c.site, room - room / 2), room - room / 2);
    line(colored(c.share, figures) + "  " + site + (c.indirect ? " *> " : " -> ") + callee);
  }
  more(shown, profile_.tables.calls.size());
}

void Renderer::edges() {
  const auto& rows = profile_.hotlists.edges;
  const size_t shown = std::min(options_.limit, rows.size());
  heading("Hot edges (by count)");
  line("  share    count  kind           from -> to");
  const size_t room = columns_ - 33 - 6;
  for (size_t i = 0; i < shown; i++) {
    const profile::HotEdge& e = rows[i];
    const std::string figures = fmt::format("{:>7} {:>8}", percent(e.share), short_count(e.count));
    const std::string from = left(point(e.from, room - room / 2), room - room / 2);
    line(colored(e.share, figures) + "  " + left(profile::to_string(e.kind), 13) + "  " + from +
         " -> " + point(e.to, room / 2));
  }
  more(shown, profile_.tables.edges.size());
}

}  // namespace

bool use_color(std::string_view when, int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  return when == "always" || (when == "auto" && ::isatty(fd) == 1);
}

size_t terminal_columns(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    const long n = std::strtol(columns, nullptr, 10);
    if (n > 0 && n < 10'000) return static_cast<size_t>(n);
  }
  return 80;
}

std::string render_text(const Profile& profile, const TextOptions& options) {
  return Renderer(profile, options).render();
}

}  // namespace shadowprof::report
