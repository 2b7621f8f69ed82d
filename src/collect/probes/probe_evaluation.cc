// SPDX-License-Identifier: MIT
#include "collect/probes/probe.h"

namespace shadowprof::collect {
namespace {

using Value = std::optional<uint64_t>;

Value combined(ProbeOperator what, uint64_t a, uint64_t b) {
  constexpr uint64_t kBits = 64;
  switch (what) {
    case ProbeOperator::equal:
      return a == b;
    case ProbeOperator::unequal:
      return a != b;
    case ProbeOperator::less:
      return a < b;
    case ProbeOperator::at_most:
      return a <= b;
    case ProbeOperator::greater:
      return a > b;
    case ProbeOperator::at_least:
      return a >= b;
    case ProbeOperator::or_:
      return a | b;
    case ProbeOperator::xor_:
      return a ^ b;
    case ProbeOperator::and_:
      return a & b;
    case ProbeOperator::left:
      return b < kBits ? a << b : 0;
    case ProbeOperator::right:
      return b < kBits ? a >> b : 0;
    case ProbeOperator::add:
      return a + b;
    case ProbeOperator::subtract:
      return a - b;
    case ProbeOperator::multiply:
      return a * b;
    case ProbeOperator::divide:
      return b == 0 ? Value() : a / b;
    case ProbeOperator::remainder:
      return b == 0 ? Value() : a % b;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<uint64_t> evaluate(Probe& probe, uint16_t number, const ProbeFacts& facts) {
  ProbeNode& node = probe.nodes[number];
  switch (node.what) {
    case ProbeOperator::number:
      return node.number;
    case ProbeOperator::fact:
      if (!facts.known[index_of(node.fact)]) return std::nullopt;
      return facts.values[index_of(node.fact)];
    case ProbeOperator::every:
      return ++node.asked % node.number == 0;
    case ProbeOperator::after:
      return ++node.asked > node.number;
    default:
      break;
  }
  const Value left = evaluate(probe, node.left, facts);
  if (!left) return std::nullopt;
  switch (node.what) {
    case ProbeOperator::no:
      return *left == 0;
    case ProbeOperator::negate:
      return -*left;
    case ProbeOperator::invert:
      return ~*left;
    case ProbeOperator::either:
      if (*left != 0) return 1;
      break;
    case ProbeOperator::both:
      if (*left == 0) return 0;
      break;
    default:
      return [&]() -> Value {
        const Value right = evaluate(probe, node.right, facts);
        return right ? combined(node.what, *left, *right) : Value();
      }();
  }
  const Value right = evaluate(probe, node.right, facts);
  if (!right) return std::nullopt;
  return *right != 0;
}

}  // namespace shadowprof::collect
