// SPDX-License-Identifier: MIT
//
// What `shadowprof top` shows: one list of the last snapshot at a time, a line with the budget's
// state, and the keys. Draws with curses, which sends only what has changed, so a slow line gets a
// few hundred bytes for a refresh and nothing in between. It knows no process: whoever owns it
// gives it profiles.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profile/profile.h"
#include "report/text_report.h"

namespace shadowprof::cli {

struct TopTab {
  const char* name;
  report::TextList list;
};
inline constexpr std::array kTopTabs{
    TopTab{"functions", report::TextList::functions}, TopTab{"edges", report::TextList::edges},
    TopTab{"paths", report::TextList::paths},         TopTab{"values", report::TextList::values},
    TopTab{"loads", report::TextList::loads},         TopTab{"threads", report::TextList::threads}};

class TopView {
 public:
  explicit TopView(std::string title) : title_(std::move(title)) {}

  // The terminal is ours from here on, until close().
  Status open();
  void close();

  void show(profile::Profile profile);
  void say(std::string state) { state_ = std::move(state); }
  const std::optional<profile::Profile>& profile() const { return profile_; }
  // That the user wants what is shown in a file. Once for each time.
  bool take_save() { return std::exchange(is_save_wanted_, false); }
  // Waits for a key for a moment and does what it says. False: the user leaves.
  bool serve_key();
  void draw();

 private:
  void take_key(int key);
  void take_filter_key(int key);
  void move(int lines);
  void choose(size_t tab);
  void open_function();
  void rebuild();
  void draw_tabs(int width) const;
  void draw_lines(int width, int height);
  void draw_keys(int width, int height) const;
  std::string budget() const;

  std::string title_;
  std::string state_ = "waiting for the first samples";
  std::optional<profile::Profile> profile_;
  std::vector<std::string> lines_;  // of the list, or of the function's code
  size_t first_row_ = 0;            // of `lines_`: behind the columns' names
  std::vector<profile::Place> functions_;
  size_t tab_ = 0;
  size_t selected_ = 0;  // line
  size_t top_ = 0;       // line at the upper edge
  size_t sort_ = 0;
  std::string filter_;
  bool is_typing_ = false;
  bool is_code_ = false;  // the function's annotated code is shown
  bool is_save_wanted_ = false;
  bool is_left_ = false;
  bool is_open_ = false;
};

}  // namespace shadowprof::cli
