// SPDX-License-Identifier: MIT
//
// Text in the making, line by line, with colour where it is asked for.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace shadowprof::report {

class TextPage {
 protected:
  explicit TextPage(bool color) : color_(color) {}

  void line(std::string_view content) {
    text_ += content;
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }
  void heading(std::string_view title) {
    text_ += '\n';
    line(color_ ? fmt::format("\x1b[1m{}\x1b[0m", title) : std::string(title));
  }
  // Rows that matter stand out: 10 % and more, 1 % and more.
  std::string colored(double share, const std::string& content) const {
    if (!color_ || share < 0.01) return content;
    return fmt::format("\x1b[{}m{}\x1b[0m", share >= 0.1 ? "1;31" : "33", content);
  }

  std::string text_;

 private:
  bool color_;
};

}  // namespace shadowprof::report
