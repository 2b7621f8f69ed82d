// SPDX-License-Identifier: MIT
//
// The slow program of docs/tutorial.md: counts how often each word occurs in a text. It is right,
// and slower than it has to be; the tutorial finds out why. FIXED is what it ends with.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Entry {
  std::string word;
  uint32_t count = 0;
};

class Table {
 public:
  explicit Table(size_t slots) : slots_(slots) {}

  [[gnu::noinline]] void add(std::string_view word) {
    size_t i = hash(word) & (slots_.size() - 1);
    while (slots_[i].count != 0 && slots_[i].word != word) i = (i + 1) & (slots_.size() - 1);
    if (slots_[i].count++ == 0) slots_[i].word = word;
  }
  size_t distinct() const {
    size_t n = 0;
    for (const Entry& entry : slots_) n += entry.count != 0;
    return n;
  }

 private:
  static uint32_t hash(std::string_view word) {
#ifdef FIXED
    uint32_t sum = 2166136261u;
    for (const char c : word) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619u;
    return sum;
#else
    uint32_t sum = 0;
    for (const char c : word) sum += static_cast<unsigned char>(c);
    return sum;
#endif
  }
  std::vector<Entry> slots_;
};

std::string make_text(size_t words) {
  std::string text;
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < words; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    // Few words are frequent, many are rare.
    uint64_t number = (state >> 33) % ((state >> 50) % 4 == 0 ? 4000 : 60);
    for (int k = 0; k < 4; k++, number /= 13) text += static_cast<char>('a' + number % 13);
    text += ' ';
  }
  return text;
}

}  // namespace

int main() {
  const std::string text = make_text(200'000);
  Table table(8192);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find(' ', begin);
    table.add(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  std::printf("%zu distinct words\n", table.distinct());
}
