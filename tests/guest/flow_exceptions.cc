// SPDX-License-Identifier: MIT
//
// C++ exceptions: across 50 frames with destructors, rethrown, nested, through a callback of C's
// qsort, captured and thrown again later. The unwinder walks return addresses on the stack: they
// must be the program's own.
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "guest.h"

namespace {

uint64_t destroyed = 0;
struct Guard {
  explicit Guard(uint64_t n) : number(n) {}
  ~Guard() { destroyed = mix(destroyed, number); }
  uint64_t number;
};

struct Base {
  virtual ~Base() = default;
  virtual uint64_t visit(int depth) = 0;
};
struct Recursive : Base {
  uint64_t visit(int depth) override {
    Guard guard(static_cast<uint64_t>(depth));
    if (depth == 0) throw std::runtime_error("bottom");
    return visit(depth - 1) + 1;
  }
};
struct Rethrowing : Base {
  uint64_t visit(int depth) override {
    try {
      if (depth == 0) throw std::out_of_range("range");
      return visit(depth - 1) + 1;
    } catch (const std::exception&) {
      destroyed = mix(destroyed, static_cast<uint64_t>(depth) + 1000);
      throw;
    }
  }
};
struct Nesting : Base {
  uint64_t visit(int depth) override {
    try {
      if (depth == 0) throw std::logic_error("innermost");
      return visit(depth - 1);
    } catch (...) {
      std::throw_with_nested(std::runtime_error("level " + std::to_string(depth)));
    }
  }
};

std::string unwrap(const std::exception& e) {
  try {
    std::rethrow_if_nested(e);
  } catch (const std::exception& inner) {
    return std::string(e.what()) + "; " + unwrap(inner);
  }
  return e.what();
}

constexpr int kRounds = 60;

int throwing_compare(const void*, const void*) {
  throw 42;
}

}  // namespace

int main() {
  std::vector<std::unique_ptr<Base>> visitors;
  visitors.push_back(std::make_unique<Recursive>());
  visitors.push_back(std::make_unique<Rethrowing>());
  int caught = 0;
  for (int i = 0; i < kRounds; ++i) {
    for (const auto& visitor : visitors) {
      try {
        visitor->visit(50);
      } catch (const std::runtime_error& e) {
        caught += std::string(e.what()) == "bottom";
      } catch (const std::out_of_range& e) {
        caught += std::string(e.what()) == "range";
      }
    }
  }
  printf("caught %d destroyed %016llx\n", caught, static_cast<unsigned long long>(destroyed));

  try {
    Nesting().visit(10);
  } catch (const std::exception& e) {
    printf("%s\n", unwrap(e).c_str());
  }
  try {
    int values[] = {3, 1, 2};
    qsort(values, 3, sizeof(int), throwing_compare);
  } catch (int value) {
    printf("through qsort %d\n", value);
  }
  std::exception_ptr kept;
  try {
    std::vector<int>().at(3);
  } catch (...) {
    kept = std::current_exception();
  }
  int rethrown = 0;
  for (int i = 0; i < 100; ++i) {
    try {
      std::rethrow_exception(kept);
    } catch (const std::exception&) {
      ++rethrown;
    }
  }
  std::function<int(int)> nested = [&](int n) -> int { return n == 0 ? 0 : nested(n - 1) + n; };
  printf("rethrown %d function %d\n", rethrown, nested(100));
  return caught == 2 * kRounds ? 0 : 1;
}
