// SPDX-License-Identifier: MIT
//
// Call sites of the frames that a thread is in, the innermost last. Returns from frames that were
// entered before it began to be watched are no error; what is beneath is 0, unknown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shadowprof::collect {

class SiteStack {
 public:
  void push(uint32_t site) {
    if (size_ == sites_.size()) [[unlikely]]
      make_room(1);
    sites_[size_++] = site;
  }
  void pop() { size_ -= size_ != 0 ? 1 : 0; }
  // The frame's that is `depth` calls further out than the innermost.
  uint32_t at(size_t depth) const { return depth < size_ ? sites_[size_ - 1 - depth] : 0; }

  // Where the next site goes, with room for as many sites behind it and to return from before it;
  // until close(), which is told where it is then.
  uint32_t* open(size_t room) {
    if (size_ < room) {
      sites_.insert(sites_.begin(), room, 0);
      size_ += room;
    }
    make_room(room);
    return &sites_[size_];
  }
  void close(const uint32_t* next) { size_ = static_cast<size_t>(next - sites_.data()); }

 private:
  // Programs that leave frames without returning from them do not take more and more.
  static constexpr size_t kMost = size_t{1} << 16;

  void make_room(size_t room) {
    if (size_ > kMost) {
      sites_.erase(sites_.begin(), sites_.begin() + kMost / 2);
      size_ -= kMost / 2;
    }
    if (sites_.size() < size_ + room) sites_.resize(size_ + room + size_ / 2 + 64);
  }

  std::vector<uint32_t> sites_;  // what is behind size_ is of no meaning
  size_t size_ = 0;
};

}  // namespace shadowprof::collect
