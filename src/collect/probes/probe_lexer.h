// SPDX-License-Identifier: MIT
//
// The words of a probe's text, each with where it stands. They are found one at a time, since the
// name of a function may have any sign in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shadowprof::collect {

struct ProbeToken {
  enum class Kind : uint8_t {
    word,
    number,
    quoted,  // `text` is what stands between the quotes
    sign,
    wrong,  // `text` says what is wrong with it
    end,
  } kind = Kind::end;
  std::string text;
  uint64_t number = 0;
  size_t begin = 0;  // in the text
  size_t end = 0;

  bool is(std::string_view sign_or_word) const {
    return (kind == Kind::sign || kind == Kind::word) && text == sign_or_word;
  }
};

class ProbeLexer {
 public:
  explicit ProbeLexer(std::string_view text) : text_(text) { take(); }

  std::string_view text() const { return text_; }
  const ProbeToken& next() const { return next_; }
  void take();
  // All up to a space is one word, or what is quoted.
  ProbeToken take_name();

 private:
  ProbeToken token_at(size_t at) const;
  ProbeToken number_at(size_t at) const;
  size_t end_of_word(size_t at) const;

  std::string_view text_;
  ProbeToken next_;
};

}  // namespace shadowprof::collect
