// SPDX-License-Identifier: MIT
//
// An array of a fixed size whose elements are zeros until they are written: only pages that are
// written to take memory, and the time to clear them. For tables that are large enough for the
// longest runs.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "base/reserved_memory.h"

namespace shadowprof {

template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T>, "zeros are its first value");

 public:
  explicit ZeroedArray(size_t size)
      : data_(static_cast<T*>(reserve_memory_or_end(size * sizeof(T)))), size_(size) {}
  ~ZeroedArray() {
    if (data_ != nullptr) ::munmap(data_, size_ * sizeof(T));
  }
  ZeroedArray(ZeroedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ZeroedArray& operator=(ZeroedArray&&) = delete;
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;

  // Zeros again.
  void clear() { give_back_memory(data_, size_ * sizeof(T)); }
  size_t size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }

 private:
  T* data_;
  size_t size_;
};

}  // namespace shadowprof
