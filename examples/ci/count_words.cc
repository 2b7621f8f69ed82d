// SPDX-License-Identifier: MIT
//
// A benchmark whose instructions are counted: README.md has the commands. With -DGOOGLE_BENCHMARK
// it is one for that library; without, the loop below does what the library would. With
// -DREGRESSION it is slower by about one percent.
#include <cstdint>
#include <cstdio>
#include <string>

#ifdef GOOGLE_BENCHMARK
#include <benchmark/benchmark.h>
#endif

namespace {

constexpr int kIterations = 50;

std::string made_up_text() {
  std::string text;
  uint32_t random = 1;
  for (int i = 0; i < 20'000; i++) {
    random = random * 1664525 + 1013904223;
    text += (random >> 24) % 6 == 0 ? ' ' : static_cast<char>('a' + (random >> 16) % 26);
  }
  return text;
}

}  // namespace

// What is measured. It is not inlined, so that it has an entry and a return.
__attribute__((noinline)) size_t count_words(const std::string& text) {
  size_t words = 0;
  bool inside = false;
#ifdef REGRESSION
  volatile size_t checked = 0;
  for (size_t i = 0; i < text.size(); i += 64) checked = checked + i;
#endif
  for (size_t i = 0; i < text.size(); i++) {
    const bool letter = text[i] != ' ';
    words += letter && !inside ? 1 : 0;
    inside = letter;
  }
  return words;
}

#ifdef GOOGLE_BENCHMARK
static void words(benchmark::State& state) {
  const std::string text = made_up_text();
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(count_words(text));
}
BENCHMARK(words)->Iterations(kIterations);
BENCHMARK_MAIN();
#else
int main() {
  const std::string text = made_up_text();
  size_t words = 0;
  for (int i = 0; i < kIterations; i++) {
    words += count_words(text);
    asm volatile("" ::: "memory");  // the text may have changed: count it again
  }
  std::printf("%zu words\n", words / kIterations);
}
#endif
