// SPDX-License-Identifier: MIT
#include "symbols/rust_demangle.h"

#include <cstdint>
#include <utility>

namespace shadowprof::symbols {
namespace {

// Back references can nest and repeat; these end what no compiler writes.
constexpr int kMaxDepth = 200;
constexpr int kMaxSteps = 100000;
constexpr size_t kMaxOutputBytes = 65536;

// One pass over a v0 name that writes the path as it goes. `failed_` is sticky: every parser may
// be called after it and does nothing of harm.
class V0Parser {
 public:
  explicit V0Parser(std::string_view name) : text_(name.substr(2)) {}

  std::optional<std::string> run() {
    if (!text_.empty() && is_digit(text_[0])) return std::nullopt;  // a version we do not know
    path(true);
    if (failed_) return std::nullopt;
    // What may follow: the crate that instantiated it, a suffix of the code generator.
    if (at_ < text_.size() && text_[at_] >= 'A' && text_[at_] <= 'Z') {
      std::string shown = std::move(out_);
      path(false);
      out_ = std::move(shown);
    }
    if (failed_ || (at_ < text_.size() && text_[at_] != '.' && text_[at_] != '$')) {
      return std::nullopt;
    }
    return out_;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char next() {
    if (at_ < text_.size()) return text_[at_++];
    failed_ = true;
    return '\0';
  }
  bool eat(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void put(std::string_view s) {
    if (out_.size() + s.size() > kMaxOutputBytes) {
      failed_ = true;
    } else {
      out_ += s;
    }
  }

  // "_" is 0, "0_" is 1, ...
  uint64_t base62() {
    uint64_t value = 0;
    if (eat('_')) return 0;
    while (!failed_) {
      char c = next();
      if (c == '_') return value + 1;
      uint64_t digit = 0;
      if (is_digit(c)) {
        digit = static_cast<uint64_t>(c - '0');
      } else if (c >= 'a' && c <= 'z') {
        digit = static_cast<uint64_t>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'Z') {
        digit = static_cast<uint64_t>(c - 'A') + 36;
      } else {
        failed_ = true;
      }
      if (value > (UINT64_MAX - digit) / 62 - 1) failed_ = true;
      value = value * 62 + digit;
    }
    return 0;
  }

  uint64_t disambiguator() { return eat('s') ? base62() + 1 : 0; }

  // A back reference continues parsing earlier in the name; only backwards, so that it ends.
  template <typename Parse>
  void back_reference(Parse parse) {
    size_t start = at_ - 1;
    uint64_t target = base62();
    if (failed_ || target >= start) {
      failed_ = true;
      return;
    }
    size_t resume = std::exchange(at_, static_cast<size_t>(target));
    parse();
    at_ = resume;
  }

  struct Deeper {
    explicit Deeper(V0Parser& parser) : p(parser) {
      if (++p.depth_ > kMaxDepth || ++p.steps_ > kMaxSteps) p.failed_ = true;
    }
    ~Deeper() { --p.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    V0Parser& p;
  };

  std::string identifier_text() {
    bool punycode = eat('u');
    size_t length = 0;
    if (!is_digit(peek())) failed_ = true;
    if (!eat('0')) {
      while (is_digit(peek()) && length < text_.size()) {
        length = length * 10 + static_cast<size_t>(next() - '0');
      }
    }
    eat('_');
    if (failed_ || length > text_.size() - at_) {
      failed_ = true;
      return {};
    }
    std::string_view bytes = text_.substr(at_, length);
    at_ += length;
    return punycode ? decode_punycode(bytes) : std::string(bytes);
  }

  static std::string decode_punycode(std::string_view bytes);

  void path(bool in_value) {
    Deeper deeper(*this);
    if (failed_) return;
    switch (next()) {
      case 'C':
        disambiguator();
        put(identifier_text());
        return;
      case 'M':
        impl_path();
        put("<");
        type();
        put(">");
        return;
      case 'X':
        impl_path();
        [[fallthrough]];
      case 'Y':
        put("<");
        type();
        put(" as ");
        path(false);
        put(">");
        return;
      case 'N':
        nested_path(in_value);
        return;
      case 'I':
        path(in_value);
        put(in_value ? "::<" : "<");
        generic_arguments();
        put(">");
        return;
      case 'B':
        back_reference([&] { path(in_value); });
        return;
      default:
        failed_ = true;
    }
  }

  // Where an impl stands is not part of how it is written.
  void impl_path() {
    disambiguator();
    std::string shown = out_;
    path(false);
    if (!failed_) out_ = std::move(shown);
  }

  void nested_path(bool in_value) {
    char space = next();
    path(in_value);
    uint64_t number = disambiguator();
    std::string name = identifier_text();
    if (space >= 'A' && space <= 'Z') {
      put("::{");
      put(space == 'C' ? "closure" : space == 'S' ? "shim" : std::string_view(&space, 1));
      if (!name.empty()) put(":" + name);
      put("#" + std::to_string(number) + "}");
    } else if (!name.empty()) {
      put("::" + name);
    }
  }

  void generic_arguments() {
    for (bool first = true; !failed_ && !eat('E'); first = false) {
      if (!first) put(", ");
      if (eat('L')) {
        lifetime();
      } else if (eat('K')) {
        constant();
      } else {
        type();
      }
    }
  }

  void lifetime() {
    uint64_t index = base62();
    if (index == 0) {
      put("'_");
    } else if (index > bound_lifetimes_) {
      failed_ = true;
    } else {
      lifetime_name(bound_lifetimes_ - index);
    }
  }

  void lifetime_name(uint64_t depth) {
    put("'");
    if (depth < 26) {
      char letter = static_cast<char>('a' + depth);
      put(std::string_view(&letter, 1));
    } else {
      put("_" + std::to_string(depth));
    }
  }

  // for<'a, 'b>; returns how many names it bound.
  uint64_t binder() {
    if (!eat('G')) return 0;
    uint64_t count = base62() + 1;
    if (failed_ || count > 64) {
      failed_ = true;
      return 0;
    }
    put("for<");
    for (uint64_t i = 0; i < count; ++i) {
      if (i > 0) put(", ");
      lifetime_name(bound_lifetimes_++);
    }
    put("> ");
    return count;
  }

  static const char* basic_type(char c) {
    switch (c) {
      case 'a':
        return "i8";
      case 'b':
        return "bool";
      case 'c':
        return "char";
      case 'd':
        return "f64";
      case 'e':
        return "str";
      case 'f':
        return "f32";
      case 'h':
        return "u8";
      case 'i':
        return "isize";
      case 'j':
        return "usize";
      case 'l':
        return "i32";
      case 'm':
        return "u32";
      case 'n':
        return "i128";
      case 'o':
        return "u128";
      case 'p':
        return "_";
      case 's':
        return "i16";
      case 't':
        return "u16";
      case 'u':
        return "()";
      case 'v':
        return "...";
      case 'x':
        return "i64";
      case 'y':
        return "u64";
      case 'z':
        return "!";
      default:
        return nullptr;
    }
  }

  void type() {
    Deeper deeper(*this);
    if (failed_) return;
    if (const char* basic = basic_type(peek())) {
      ++at_;
      put(basic);
      return;
    }
    switch (peek()) {
      case 'A':
      case 'S':
        array_or_slice(next() == 'A');
        return;
      case 'T':
        tuple();
        return;
      case 'R':
      case 'Q':
        reference(next() == 'Q');
        return;
      case 'P':
      case 'O':
        put(next() == 'P' ? "*const " : "*mut ");
        type();
        return;
      case 'F':
        function_type();
        return;
      case 'D':
        dynamic_type();
        return;
      case 'B':
        ++at_;
        back_reference([&] { type(); });
        return;
      default:
        path(false);
    }
  }

  void array_or_slice(bool array) {
    put("[");
    type();
    if (array) {
      put("; ");
      constant();
    }
    put("]");
  }

  void tuple() {
    ++at_;
    put("(");
    int count = 0;
    for (; !failed_ && !eat('E'); ++count) {
      if (count > 0) put(", ");
      type();
    }
    put(count == 1 ? ",)" : ")");
  }

  void reference(bool is_mutable) {
    put("&");
    if (eat('L')) {
      size_t before = out_.size();
      lifetime();
      if (out_.substr(before) == "'_") {
        out_.resize(before);
      } else {
        put(" ");
      }
    }
    if (is_mutable) put("mut ");
    type();
  }

  void function_type() {
    ++at_;
    uint64_t bound = binder();
    if (eat('U')) put("unsafe ");
    if (eat('K')) {
      put("extern \"");
      std::string abi = eat('C') ? "C" : identifier_text();
      for (char& c : abi) c = c == '_' ? '-' : c;
      put(abi + "\" ");
    }
    put("fn(");
    for (bool first = true; !failed_ && !eat('E'); first = false) {
      if (!first) put(", ");
      type();
    }
    put(")");
    if (!eat('u')) {
      put(" -> ");
      type();
    }
    bound_lifetimes_ -= bound;
  }

  void dynamic_type() {
    ++at_;
    put("dyn ");
    uint64_t bound = binder();
    for (bool first = true; !failed_ && !eat('E'); first = false) {
      if (!first) put(" + ");
      dynamic_trait();
    }
    bound_lifetimes_ -= bound;
    if (!eat('L')) failed_ = true;
    size_t before = out_.size();
    put(" + ");
    lifetime();
    if (!failed_ && out_.ends_with(" + '_")) out_.resize(before);
  }

  // Associated types stand among the generic arguments: Iterator<Item = u8>.
  void dynamic_trait() {
    path(false);
    bool open = !failed_ && out_.ends_with('>');
    if (peek() != 'p') return;
    if (open) {
      out_.pop_back();
      put(", ");
    } else {
      put("<");
    }
    for (bool first = true; !failed_ && eat('p'); first = false) {
      if (!first) put(", ");
      put(identifier_text() + " = ");
      type();
    }
    put(">");
  }

  void constant() {
    Deeper deeper(*this);
    if (failed_) return;
    char kind = next();
    switch (kind) {
      case 'p':
        put("_");
        return;
      case 'B':
        back_reference([&] { constant(); });
        return;
      case 'b':
      case 'c':
        character_or_bool(kind);
        return;
      case 'a':
      case 'h':
      case 'i':
      case 'j':
      case 'l':
      case 'm':
      case 'n':
      case 'o':
      case 's':
      case 't':
      case 'x':
      case 'y':
        integer();
        return;
      default:
        failed_ = true;
    }
  }

  std::string_view hex_digits() {
    size_t start = at_;
    while (is_hex(peek())) ++at_;
    std::string_view digits = text_.substr(start, at_ - start);
    if (!eat('_')) failed_ = true;
    return digits;
  }

  static uint64_t hex_value(std::string_view digits) {
    uint64_t value = 0;
    for (char c : digits) {
      value = value * 16 + static_cast<uint64_t>(is_digit(c) ? c - '0' : c - 'a' + 10);
    }
    return value;
  }

  void integer() {
    if (eat('n')) put("-");
    std::string_view digits = hex_digits();
    if (digits.size() > 16) {
      put("0x");
      put(digits);
    } else {
      put(std::to_string(hex_value(digits)));
    }
  }

  void character_or_bool(char kind) {
    std::string_view digits = hex_digits();
    uint64_t value = digits.size() > 8 ? UINT64_MAX : hex_value(digits);
    if (kind == 'b') {
      put(value == 0 ? "false" : "true");
    } else if (value > 0x10FFFF) {
      failed_ = true;
    } else {
      std::string shown = "'";
      append_utf8(shown, static_cast<uint32_t>(value));
      put(shown + "'");
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
  uint64_t bound_lifetimes_ = 0;
  int depth_ = 0;
  int steps_ = 0;
  bool failed_ = false;
};

// RFC 3492 with '_' as delimiter. What does not decode is shown as it is.
std::string V0Parser::decode_punycode(std::string_view bytes) {
  constexpr uint32_t kBase = 36, kTMin = 1, kTMax = 26, kSkew = 38, kDamp = 700;
  std::u32string points;
  size_t delimiter = bytes.rfind('_');
  std::string_view rest = bytes;
  if (delimiter != std::string_view::npos) {
    for (char c : bytes.substr(0, delimiter)) points += static_cast<unsigned char>(c);
    rest = bytes.substr(delimiter + 1);
  }
  uint32_t n = 0x80, bias = 72, i = 0;
  for (size_t at = 0; at < rest.size();) {
    uint32_t start = i, weight = 1;
    for (uint32_t k = kBase;; k += kBase) {
      if (at >= rest.size() || weight > (1u << 26) || i > (1u << 26)) return std::string(bytes);
      char c = rest[at++];
      if (!is_digit(c) && !(c >= 'a' && c <= 'z')) return std::string(bytes);
      uint32_t digit = static_cast<uint32_t>(is_digit(c) ? c - '0' + 26 : c - 'a');
      i += digit * weight;
      uint32_t threshold = k <= bias ? kTMin : k >= bias + kTMax ? kTMax : k - bias;
      if (digit < threshold) break;
      weight *= kBase - threshold;
    }
    uint32_t length = static_cast<uint32_t>(points.size()) + 1;
    uint32_t delta = (start == 0 ? (i - start) / kDamp : (i - start) / 2);
    delta += delta / length;
    uint32_t k = 0;
    for (; delta > (kBase - kTMin) * kTMax / 2; k += kBase) delta /= kBase - kTMin;
    bias = k + (kBase - kTMin + 1) * delta / (delta + kSkew);
    n += i / length;
    i %= length;
    if (n > 0x10FFFF) return std::string(bytes);
    points.insert(points.begin() + i, static_cast<char32_t>(n));
    ++i;
  }
  std::string text;
  for (char32_t point : points) append_utf8(text, point);
  return text;
}

}  // namespace

std::optional<std::string> demangle_rust_v0(std::string_view name) {
  if (!name.starts_with("_R") || name.size() < 4) return std::nullopt;
  return V0Parser(name).run();
}

}  // namespace shadowprof::symbols
