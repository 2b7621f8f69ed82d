// SPDX-License-Identifier: MIT
#include "machine/machine_facts.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "machine/random_bytes.h"

using shadowprof::machine::content_of;
using shadowprof::machine::CpuModel;
using shadowprof::machine::RandomBytes;
using shadowprof::machine::system_information;

TEST_CASE("files and calls say the same of memory and cores") {
  const CpuModel& baseline = *CpuModel::find("baseline");
  const auto memory = content_of("/proc/meminfo", baseline);
  REQUIRE(memory.has_value());
  CHECK(memory->find("MemTotal:        4194304 kB\n") == 0);
  CHECK(system_information().totalram == uint64_t{4194304} << 10);
  CHECK(memory->find("MemFree:         3145728 kB\n") != std::string::npos);
  CHECK(system_information().freeram == uint64_t{3145728} << 10);
  CHECK(content_of("/sys/devices/system/cpu/online", baseline) == "0\n");
  CHECK(content_of("/sys/devices/system/cpu/online/", baseline) == std::nullopt);
  CHECK(content_of("/sys/devices/system/cpu/", baseline) == std::nullopt);
  CHECK(content_of("/proc/self/status", baseline) == std::nullopt);
}

TEST_CASE("/proc/cpuinfo lists what the model has") {
  const auto flags = [](const char* name) {
    const std::string text = *content_of("/proc/cpuinfo", *CpuModel::find(name));
    const size_t at = text.find("flags\t\t:");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find('\n', at) - at) + " ";
  };
  CHECK(flags("baseline").find(" sse4_2 ") != std::string::npos);
  CHECK(flags("baseline").find(" avx ") == std::string::npos);
  CHECK(flags("x86-64-v3").find(" avx2 ") != std::string::npos);
  CHECK(flags("x86-64-v3").find(" avx512f ") == std::string::npos);
  CHECK(flags("x86-64-v4").find(" avx512vl ") != std::string::npos);
}

TEST_CASE("random bytes are the same in each run, and others for each process") {
  const auto draw = [](RandomBytes& random, size_t bytes) {
    std::vector<uint8_t> drawn(bytes);
    random.fill(drawn);
    return drawn;
  };
  RandomBytes first, second;
  CHECK(draw(first, 13) == draw(second, 13));
  RandomBytes child = first.split(), sibling = first.split();
  std::set<std::vector<uint8_t>> all = {draw(child, 16), draw(sibling, 16), draw(first, 16),
                                        draw(second, 16)};
  CHECK(all.size() == 4);
  RandomBytes known;  // computed from the algorithm's definition
  CHECK(draw(known, 8) == std::vector<uint8_t>{0x8c, 0x8f, 0xd2, 0x6d, 0x80, 0x93, 0x83, 0x5a});
}
