// SPDX-License-Identifier: MIT
#include "shadow/io_vectors.h"

namespace shadowprof::shadow {

std::optional<std::vector<iovec>> read_io_vectors(ptrace::RemoteMemory& memory, GuestAddr at,
                                                  uint64_t count) {
  constexpr uint64_t kMost = 1024;  // UIO_MAXIOV
  if (count > kMost) return std::nullopt;
  std::vector<iovec> vectors(count);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(vectors.data()), count * sizeof(iovec));
  if (!memory.read(at, bytes)) return std::nullopt;
  return vectors;
}

}  // namespace shadowprof::shadow
