// SPDX-License-Identifier: MIT
#include "collect/probes/probe_lexer.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

namespace shadowprof::collect {
namespace {

using Kind = ProbeToken::Kind;

constexpr std::string_view kSigns[] = {"=>", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||",
                                       "(",  ")",  ",",  ":",  "+",  "-",  "*",  "/",  "%",
                                       "&",  "|",  "^",  "~",  "!",  "<",  ">"};

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool begins_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

}  // namespace

size_t ProbeLexer::end_of_word(size_t at) const {
  while (at < text_.size() && (begins_word(text_[at]) || is_digit(text_[at]))) at++;
  return at;
}

ProbeToken ProbeLexer::number_at(size_t at) const {
  const size_t end = end_of_word(at);
  std::string_view digits = text_.substr(at, end - at);
  ProbeToken token{Kind::number, std::string(digits), 0, at, end};
  const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
  if (hexadecimal) digits.remove_prefix(2);
  const char* const last = digits.data() + digits.size();
  const auto [stopped, error] =
      std::from_chars(digits.data(), last, token.number, hexadecimal ? 16 : 10);
  if (error == std::errc() && stopped == last) return token;
  token.kind = Kind::wrong;
  token.text = error == std::errc::result_out_of_range
                   ? fmt::format("{} does not fit into 64 bits", token.text)
                   : fmt::format("'{}' is no number", token.text);
  return token;
}

ProbeToken ProbeLexer::token_at(size_t at) const {
  while (at < text_.size() && is_space(text_[at])) at++;
  if (at == text_.size()) return {Kind::end, "", 0, at, at};
  if (is_digit(text_[at])) return number_at(at);
  if (begins_word(text_[at])) {
    const size_t end = end_of_word(at);
    return {Kind::word, std::string(text_.substr(at, end - at)), 0, at, end};
  }
  for (const std::string_view sign : kSigns)
    if (text_.substr(at).starts_with(sign))
      return {Kind::sign, std::string(sign), 0, at, at + sign.size()};
  return {Kind::wrong, "this sign means nothing in a probe", 0, at, at + 1};
}

void ProbeLexer::take() {
  next_ = token_at(next_.end);
}

ProbeToken ProbeLexer::take_name() {
  const size_t begin = next_.begin;
  ProbeToken token{Kind::quoted, "", 0, begin, begin};
  if (begin < text_.size() && text_[begin] == '"') {
    const size_t end = text_.find('"', begin + 1);
    if (end == std::string_view::npos)
      return {Kind::wrong, "a second \" is missing", 0, begin, text_.size()};
    token.text = text_.substr(begin + 1, end - begin - 1);
    token.end = end + 1;
  } else {
    while (token.end < text_.size() && !is_space(text_[token.end])) token.end++;
    token.text = text_.substr(begin, token.end - begin);
  }
  next_ = token_at(token.end);
  return token;
}

}  // namespace shadowprof::collect
