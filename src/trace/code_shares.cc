// SPDX-License-Identifier: MIT
#include "trace/code_shares.h"

namespace shadowprof::trace {

uint64_t count_instructions(const BlockTable& table, std::span<const Word> words,
                            CodeShares& shares) {
  uint64_t sum = 0;
  Reader reader(table, words);
  for (;;) {
    const auto record = reader.next();
    if (!record || !*record) return sum;
    if ((*record)->special()) continue;
    const Run& run = table.run((*record)->run());
    shares[run.cell] += run.insns;
    sum += run.insns;
  }
}

}  // namespace shadowprof::trace
