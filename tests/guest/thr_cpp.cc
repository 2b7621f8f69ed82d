// SPDX-License-Identifier: MIT
//
// The C++ view of threads: a pool with futures, exceptions that cross threads, thread_local objects
// with destructors, call_once, timed waits, shared locks, and a parallel sort.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "guest.h"

namespace {

std::atomic<int> constructed{0}, destructed{0};
struct Local {
  Local() { ++constructed; }
  ~Local() { ++destructed; }
  uint64_t value = 0;
};
thread_local Local local;

class Pool {
 public:
  explicit Pool(int size) {
    for (int i = 0; i < size; ++i) threads_.emplace_back([this] { run(); });
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  std::future<uint64_t> submit(std::function<uint64_t()> work) {
    std::packaged_task<uint64_t()> task(std::move(work));
    auto future = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    changed_.notify_one();
    return future;
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return done_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      task();
      ++local.value;
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<uint64_t()>> queue_;
  bool done_ = false;
  std::vector<std::thread> threads_;
};

void parallel_sort(uint64_t* begin, uint64_t* end, int depth) {
  if (depth == 0 || end - begin < 1000) {
    std::sort(begin, end);
    return;
  }
  uint64_t* middle = begin + (end - begin) / 2;
  std::nth_element(begin, middle, end);
  std::thread left([=] { parallel_sort(begin, middle, depth - 1); });
  parallel_sort(middle, end, depth - 1);
  left.join();
}

}  // namespace

int main() {
  uint64_t sum = 0;
  int caught = 0;
  {
    Pool pool(8);
    std::vector<std::future<uint64_t>> futures;
    for (uint64_t i = 0; i < 500; ++i) {
      futures.push_back(pool.submit([i]() -> uint64_t {
        if (i % 10 == 3) throw std::runtime_error("task");
        return burn(i, 200);
      }));
    }
    for (auto& future : futures) {
      try {
        sum = mix(sum, future.get());
      } catch (const std::runtime_error&) {
        ++caught;
      }
    }
  }
  printf("sum %016llx caught %d locals balanced %d\n", static_cast<unsigned long long>(sum), caught,
         constructed == destructed);
  std::vector<uint64_t> values(200000);
  uint64_t random = 9;
  for (auto& value : values) value = next_random(&random);
  parallel_sort(values.data(), values.data() + values.size(), 4);
  printf("sorted %d %016llx\n", std::is_sorted(values.begin(), values.end()),
         static_cast<unsigned long long>(mix_bytes(1, values.data(), values.size() * 8)));
  std::shared_mutex shared;
  std::once_flag flag;
  std::atomic<int> once{0}, reads{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      std::call_once(flag, [&] { ++once; });
      for (int j = 0; j < 200; ++j) {
        const std::shared_lock lock(shared);
        ++reads;
      }
    });
  }
  threads.clear();
  auto late = std::async(std::launch::async, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return 5;
  });
  const bool timed_out = late.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout;
  printf("once %d reads %d timed out %d late %d\n", once.load(), reads.load(), timed_out,
         late.get());
  return 0;
}
