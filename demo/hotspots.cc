// SPDX-License-Identifier: MIT
//
// A small program with known hot spots, to show what a profile says. Text is made by a fixed
// random generator, its words are counted in a hash table of our own, the counts are sorted
// through a function pointer, and the table's checksum is printed. Most of the time goes to
// hash_word (a byte loop) and find_slot (a probe loop whose loads miss the cache).
//
// Deterministic: the same output and, but for the dynamic loader, the same instructions each run.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

class Random {
 public:
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  uint64_t state_ = 0x9E3779B97F4A7C15u;
};

struct Entry {
  std::string_view word;
  uint64_t count = 0;
};

[[gnu::noinline]] std::string make_text(size_t words) {
  Random random;
  std::string text;
  for (size_t i = 0; i < words; ++i) {
    // The product of two draws makes few words frequent and many rare, like language.
    uint64_t number = (random.next() % 300) * (random.next() % 300);
    do {
      text += static_cast<char>('a' + number % 26);
      number /= 26;
    } while (number != 0);
    text += ' ';
  }
  return text;
}

[[gnu::noinline]] uint64_t hash_word(std::string_view word) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

[[gnu::noinline]] Entry& find_slot(std::vector<Entry>& table, std::string_view word) {
  const size_t mask = table.size() - 1;
  size_t at = hash_word(word) & mask;
  while (table[at].count != 0 && table[at].word != word) at = (at + 1) & mask;
  return table[at];
}

[[gnu::noinline]] void count_words(std::vector<Entry>& table, std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find(' ');
    Entry& entry = find_slot(table, text.substr(0, end));
    entry.word = text.substr(0, end);
    ++entry.count;
    text.remove_prefix(end + 1);
  }
}

bool more_frequent(const Entry& a, const Entry& b) {
  return a.count != b.count ? a.count > b.count : a.word < b.word;
}

}  // namespace

int main() {
  const std::string text = make_text(400'000);
  std::vector<Entry> table(size_t{1} << 17);
  for (int round = 0; round < 20; ++round) count_words(table, text);
  std::sort(table.begin(), table.end(), more_frequent);

  uint64_t total = 0;
  for (const Entry& entry : table) total += entry.count;
  std::printf("%llu words, the most frequent:", static_cast<unsigned long long>(total));
  for (int i = 0; i < 3; ++i) {
    std::printf(" %.*s (%llu)", static_cast<int>(table[i].word.size()), table[i].word.data(),
                static_cast<unsigned long long>(table[i].count));
  }
  std::printf("\n");
  return 0;
}
