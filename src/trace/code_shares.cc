// SPDX-License-Identifier: MIT
#include "trace/code_shares.h"

namespace shadowprof::trace {

RecordSums sum_records(const BlockTable& table, std::span<const Word> words, CodeShares& shares) {
  RecordSums sums;
  Reader reader(table, words);
  for (;;) {
    const auto record = reader.next();
    if (!record || !*record) return sums;
    if ((*record)->special()) continue;
    const Run& run = table.run((*record)->run());
    shares[run.cell] += run.insns;
    sums.instructions += run.insns;
    sums.timed_loads += run.timed_loads;
    if (!run.of_bouts) sums.captured_words += run.words - 1u;
  }
}

}  // namespace shadowprof::trace
