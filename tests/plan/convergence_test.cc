// SPDX-License-Identifier: MIT
#include "plan/convergence.h"

#include <doctest/doctest.h>

#include <array>
#include <random>

namespace shadowprof::plan {
namespace {

// A sample of a program that spends its time in a few cells behind `first`, give or take `noise`.
using Cells = std::array<uint64_t, 64>;

Cells sample(size_t first, uint64_t noise, std::mt19937& random) {
  Cells shares{};
  for (size_t i = 0; i < 8; i++) shares[first + i] = 100'000 + random() % (noise + 1);
  return shares;
}

TEST_CASE("a program that goes on doing the same needs fewer samples") {
  std::mt19937 random(1);
  Convergence convergence;
  for (int i = 0; i < 16; i++) convergence.sampled(sample(0, 10'000, random));
  CHECK(convergence.patience() == 1);
  for (int i = 0; i < 200; i++) convergence.sampled(sample(0, 10'000, random));
  CHECK(convergence.patience() == kMostPartsRatio);
  CHECK(convergence.changes() == 0);
}

TEST_CASE("a program that does something else needs all of them again, at once") {
  std::mt19937 random(1);
  Convergence convergence;
  for (int i = 0; i < 200; i++) convergence.sampled(sample(0, 0, random));
  for (int i = 0; i < 8; i++) convergence.sampled(sample(20, 0, random));
  CHECK(convergence.patience() == 1);
  CHECK(convergence.changes() == 1);
  for (int i = 0; i < 200; i++) convergence.sampled(sample(20, 0, random));
  CHECK(convergence.patience() == kMostPartsRatio);
}

TEST_CASE("samples that differ from one another go on coming") {
  std::mt19937 random(1);
  Convergence convergence;
  for (int i = 0; i < 400; i++) {
    const size_t phase = static_cast<size_t>(random() % 4);
    convergence.sampled(sample(8 * phase, 0, random));
  }
  CHECK(convergence.patience() < 1.6);
}

TEST_CASE("samples that executed nothing say nothing") {
  Convergence convergence;
  for (int i = 0; i < 100; i++) convergence.sampled({});
  CHECK(convergence.windows() == 0);
}

}  // namespace
}  // namespace shadowprof::plan
