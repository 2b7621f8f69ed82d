// SPDX-License-Identifier: MIT
#include "cli/top_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <sstream>

#include "base/printable.h"
#include "profile/evidence.h"
#include "report/annotation.h"
#include "report/columns.h"
#include "report/selection.h"
#include "report/source_files.h"
#include "symbols/module_set.h"

// Its macros have the names of everyday functions: after everything else, and within this file
// only.
#define NCURSES_NOMACROS
#include <curses.h>

namespace shadowprof::cli {
namespace {

constexpr int kKeyPatience_ms = 200;
constexpr int kEscape = 27, kControlC = 3, kControlH = 8, kDelete = 127;
constexpr size_t kRows = 1000;
constexpr const char* kSorts[] = {"", "instructions", "total", "calls", "loops", "name"};
constexpr int kLinesAround = 3;  // tabs, budget, keys
constexpr short kGoodPair = 1, kBadPair = 2;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);)
    if (!lines.empty() || !line.empty()) lines.push_back(line);
  return lines;
}

void put(int row, int width, const std::string& text, attr_t how) {
  ::wmove(stdscr, row, 0);
  ::wclrtoeol(stdscr);
  ::wattr_on(stdscr, how, nullptr);
  ::waddstr(stdscr, report::fit(text, static_cast<size_t>(width)).c_str());
  ::wattr_off(stdscr, how, nullptr);
}

std::string empty_list(const TopTab& tab) {
  if (tab.list == report::TextList::threads) return "one thread, or none that was seen yet";
  return fmt::format("no {} yet", tab.name);
}

std::string dearest_cause(const profile::Overhead& overhead) {
  double all = 0;
  std::pair<double, std::string> most;
  for (const auto& [cause, seconds] : overhead.by_cause) {
    all += seconds;
    most = std::max(most, std::pair(seconds, cause));
  }
  if (most.first <= 0) return "";
  std::ranges::replace(most.second, '_', ' ');
  return fmt::format(", cost {:.0f} % {}", 100 * most.first / all, most.second);
}

}  // namespace

Status TopView::open() {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return fail("top needs a terminal; shadowprof attach writes a profile without one");
  std::setlocale(LC_CTYPE, "");
  ::set_escdelay(25);
  SCREEN* screen = ::newterm(nullptr, stdout, stdin);
  if (screen == nullptr) {
    const char* term = std::getenv("TERM");
    return fail("nothing is known of the terminal '{}'", term == nullptr ? "" : printable(term));
  }
  is_open_ = true;
  ::raw();
  ::noecho();
  ::keypad(stdscr, true);
  ::wtimeout(stdscr, kKeyPatience_ms);
  ::curs_set(0);
  if (report::use_color("auto", STDOUT_FILENO) && ::has_colors()) {
    ::start_color();
    ::use_default_colors();
    ::init_pair(kGoodPair, COLOR_GREEN, -1);
    ::init_pair(kBadPair, COLOR_RED, -1);
  }
  return {};
}

void TopView::close() {
  if (is_open_) ::endwin();
  is_open_ = false;
}

void TopView::show(profile::Profile profile) {
  const bool is_first = !profile_;
  profile_ = std::move(profile);
  state_.clear();
  if (is_first)
    choose(tab_);
  else if (!is_code_)
    rebuild();
}

void TopView::rebuild() {
  lines_.clear();
  functions_.clear();
  if (!profile_) return;
  profile::Profile shown = *profile_;
  report::select_rows(shown.hotlists, kSorts[sort_], filter_);
  report::TextOptions options;
  options.columns = static_cast<size_t>(std::max(::getmaxx(stdscr), 80));
  options.limit = kRows;
  options.filtered = !filter_.empty();
  options.sort = kSorts[sort_];
  lines_ = lines_of(report::render_list(shown, kTopTabs[tab_].list, options));
  const auto names = std::ranges::find_if(
      lines_, [](const std::string& line) { return line.find("  function") != std::string::npos; });
  first_row_ = static_cast<size_t>(names - lines_.begin()) + 1;
  if (kTopTabs[tab_].list == report::TextList::functions)
    functions_ = report::functions_listed(shown, options);
  if (lines_.empty()) lines_ = {empty_list(kTopTabs[tab_])};
  selected_ = std::min(selected_, lines_.size() - 1);
}

void TopView::choose(size_t tab) {
  tab_ = tab % kTopTabs.size();
  selected_ = top_ = 0;
  is_code_ = false;
  rebuild();
  if (!functions_.empty()) selected_ = first_row_;
}

void TopView::move(int lines) {
  const int last = static_cast<int>(lines_.size()) - 1;
  selected_ =
      static_cast<size_t>(std::clamp(static_cast<int>(selected_) + lines, 0, std::max(last, 0)));
}

// Files are read for whoever runs us, as `annotate` does.
void TopView::open_function() {
  if (functions_.empty() || selected_ < first_row_ || selected_ - first_row_ >= functions_.size())
    return;
  const profile::Place& at = functions_[selected_ - first_row_];
  const symbols::ModuleSet modules(profile_->modules);
  const auto module = std::ranges::find(profile_->modules, at.module, &profile::Module::path);
  const profile::Function* function =
      module == profile_->modules.end()
          ? nullptr
          : profile::find_function(
                profile_->functions,
                {static_cast<uint32_t>(module - profile_->modules.begin()), at.offset});
  auto rules = report::source_rules(*profile_, "", "");
  if (function == nullptr || !rules) return;
  report::SourceFiles sources(std::move(*rules));
  report::AnnotateOptions options;
  options.columns = static_cast<size_t>(std::max(::getmaxx(stdscr), 80));
  const auto annotation = report::annotate(*profile_, modules, *function, sources);
  if (!annotation) {
    state_ = annotation.error().message;
    return;
  }
  lines_ = lines_of(report::render_annotation(*annotation, options));
  is_code_ = true;
  selected_ = top_ = 0;
}

void TopView::take_filter_key(int key) {
  if (key == '\n' || key == KEY_ENTER || key == kEscape) {
    is_typing_ = false;
    if (key == kEscape) filter_.clear();
  } else if (key == KEY_BACKSPACE || key == kControlH || key == kDelete) {
    if (!filter_.empty()) filter_.pop_back();
  } else if (key >= ' ' && key < kDelete) {
    filter_ += static_cast<char>(key);
  }
  choose(tab_);
}

void TopView::take_key(int key) {
  const int page = std::max(::getmaxy(stdscr) - kLinesAround, 1);
  switch (key) {
    case 'q':
    case kEscape:
      if (is_code_)
        choose(tab_);
      else if (key == 'q')
        is_left_ = true;
      return;
    case '\t':
    case KEY_RIGHT:
      return choose(tab_ + 1);
    case KEY_BTAB:
    case KEY_LEFT:
      return choose(tab_ + kTopTabs.size() - 1);
    case KEY_DOWN:
    case 'j':
      return move(1);
    case KEY_UP:
    case 'k':
      return move(-1);
    case KEY_NPAGE:
    case ' ':
      return move(page);
    case KEY_PPAGE:
      return move(-page);
    case '\n':
    case KEY_ENTER:
      return is_code_ ? void() : open_function();
    case '/':
      is_typing_ = true;
      filter_.clear();
      return choose(tab_);
    case 's':
      sort_ = (sort_ + 1) % std::size(kSorts);
      return choose(tab_);
    case 'w':
      is_save_wanted_ = true;
      return;
    case KEY_RESIZE:
      return is_code_ ? void() : rebuild();
    default:
      if (key >= '1' && key < '1' + static_cast<int>(kTopTabs.size()))
        choose(static_cast<size_t>(key - '1'));
  }
}

bool TopView::serve_key() {
  const int key = ::wgetch(stdscr);
  if (key == kControlC) is_left_ = true;
  if (key != ERR && key != kControlC) is_typing_ ? take_filter_key(key) : take_key(key);
  return !is_left_;
}

void TopView::draw_tabs(int width) const {
  ::wmove(stdscr, 0, 0);
  ::wclrtoeol(stdscr);
  int column = 0;
  for (size_t i = 0; i < kTopTabs.size(); i++) {
    const std::string text = fmt::format(" {} {} ", i + 1, kTopTabs[i].name);
    if (column + static_cast<int>(text.size()) > width) return;
    ::wattr_on(stdscr, i == tab_ ? A_REVERSE : A_NORMAL, nullptr);
    ::waddstr(stdscr, text.c_str());
    ::wattr_off(stdscr, A_REVERSE, nullptr);
    column += static_cast<int>(text.size());
  }
  const int room = width - column - 2;
  if (room > 8) {
    ::waddstr(stdscr, "  ");
    ::waddstr(stdscr, report::fit(title_, static_cast<size_t>(room)).c_str());
  }
}

std::string TopView::budget() const {
  if (!state_.empty() || !profile_) return state_;
  const profile::Overhead& o = profile_->overhead;
  const profile::Evidence evidence = profile::evidence_of(*profile_);
  return fmt::format("{:.0f} s, {} samples, overhead {:.2f} % of {:.2f} %, {}{}",
                     profile_->run.duration_s, profile_->coverage.samples, 100 * o.estimated_share,
                     100 * o.budget_share,
                     evidence.enough ? "enough for conclusions" : "not enough yet",
                     dearest_cause(o));
}

void TopView::draw_lines(int width, int height) {
  const auto rows = static_cast<size_t>(std::max(height - kLinesAround, 1));
  if (selected_ < top_) top_ = selected_;
  if (selected_ >= top_ + rows) top_ = selected_ - rows + 1;
  for (size_t i = 0; i < rows; i++) {
    const size_t at = top_ + i;
    const bool is_heading = !is_code_ && at < first_row_ && !functions_.empty();
    const attr_t how = at == selected_ ? A_REVERSE : is_heading ? A_BOLD : A_NORMAL;
    put(static_cast<int>(i) + 2, width, at < lines_.size() ? lines_[at] : "",
        at < lines_.size() ? how : A_NORMAL);
  }
}

void TopView::draw_keys(int width, int height) const {
  std::string text = "1-6 Tab list  Enter code  / filter  s sort";
  if (sort_ != 0) text += fmt::format(" ({})", kSorts[sort_]);
  text += "  w save  q leave";
  if (is_code_) text = "Up Down Space move  q back";
  if (is_typing_)
    text = "filter: " + filter_ + "_";
  else if (!filter_.empty())
    text = "filter: " + filter_ + "   " + text;
  // A character in the last column of the last row would scroll some terminals.
  put(height - 1, width - 1, text, A_BOLD);
}

void TopView::draw() {
  const int width = ::getmaxx(stdscr);
  const int height = ::getmaxy(stdscr);
  if (height <= kLinesAround || width < 20) return;
  draw_tabs(width);
  const bool over =
      profile_ && profile_->overhead.estimated_share > profile_->overhead.budget_share;
  const attr_t color = report::use_color("auto", STDOUT_FILENO) && ::has_colors()
                           ? static_cast<attr_t>(COLOR_PAIR(over ? kBadPair : kGoodPair))
                           : A_NORMAL;
  put(1, width, budget(), color);
  draw_lines(width, height);
  draw_keys(width, height);
  ::wrefresh(stdscr);
}

}  // namespace shadowprof::cli
