// SPDX-License-Identifier: MIT
#include "sample/code_history.h"

#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "../temporary_folder.h"

namespace shadowprof::sample {
namespace {

constexpr uint64_t kStart = 0x10000;
const std::string kConditions = "as ever\n";

// A program, a library, and a folder for what is kept of them.
struct Files {
  CodeHistory history(const std::string& conditions = kConditions) const {
    return {CacheFolder::at(kept), program, conditions};
  }
  std::string file() const {
    const auto all = std::filesystem::directory_iterator(kept);
    REQUIRE(std::distance(begin(all), end(all)) == 1);
    return std::filesystem::directory_iterator(kept)->path();
  }

  test::TemporaryFolder folder;
  std::string program = folder.write("program", "code");
  std::string library = folder.write("library", "code");
  std::string kept = folder / "kept";
};

// What runs have been made of the code, and how often each was executed.
struct Made {
  ModuleId module(const std::string& path, uint64_t start) {
    trace::Module m;
    m.path = path;
    m.inode = path.empty() ? 0 : 1;
    m.file_start = GuestAddr(start);
    m.range = {GuestAddr(start), GuestAddr(start + 0x10000)};
    return table.add_module(m);
  }
  RunId run(ModuleId module, uint64_t offset, uint64_t count,
            trace::RunExit exit = trace::RunExit::split) {
    trace::Block b;
    b.start = table.module(module).file_start + offset;
    b.end = b.last_insn = b.start + 4;
    b.module = module;
    b.insns = 1;
    blocks.push_back(table.add_block(b));
    trace::Run r;
    r.insns = 1;
    r.exit = exit;
    r.target = b.end;
    const BlockId first[] = {blocks.back()};
    const RunId id = table.add_run(r, first, {});
    executions.resize(id.value + 1);
    executions[id.value] = count;
    return id;
  }
  void keep_in(const Files& files) { files.history().keep(table, executions, pairs); }

  trace::BlockTable table;
  std::vector<BlockId> blocks;
  std::vector<uint64_t> executions;
  std::vector<trace::PairCount> pairs;
};

std::vector<uint64_t> offsets(const emu::CodeOrder& order) {
  std::vector<uint64_t> all;
  for (const emu::OrderedPlace& place : order.places()) all.push_back(place.offset);
  return all;
}

TEST_CASE("what was executed is known again, in its order") {
  const Files files;
  CHECK(files.history().order().places().empty());
  Made made;
  const ModuleId program = made.module(files.program, kStart);
  const ModuleId library = made.module(files.library, 5 * kStart);
  const ModuleId generated = made.module("", 9 * kStart);
  made.run(program, 0x900, 1);
  made.run(library, 0x20, 2, trace::RunExit::syscall);
  made.run(program, 0x100, 0);  // only translated
  made.run(generated, 0x10, 5);
  made.run(program, 0x900, 3);
  made.run(library, 0x24, 1);  // behind the system call
  const RunId branch = made.run(program, 0x200, 1, trace::RunExit::indirect_jump);
  made.pairs.push_back({branch, made.blocks.front(), 1});
  made.keep_in(files);

  const CodeHistory history = files.history();
  const emu::CodeOrder& order = history.order();
  CHECK(offsets(order) == std::vector<uint64_t>{0x900, 0x20, 0x24, 0x200});
  CHECK(order.places()[0].by_branch);
  CHECK(!order.places()[1].by_branch);
  CHECK(order.places()[2].by_branch);
  CHECK(!order.places()[3].by_branch);
  CHECK(order.places()[0].module == order.places()[3].module);
  CHECK(order.places()[0].module != order.places()[1].module);
  CHECK(order.find(order.places()[1].module, 0x24) == 2);
  CHECK(!order.find(order.places()[0].module, 0x24));
  CHECK(files.history("otherwise\n").order().places().empty());
}

TEST_CASE("what only an earlier run has executed comes behind what this one has") {
  const Files files;
  for (const auto& run : {std::vector<uint64_t>{0x10, 0x20, 0x30}, {0x40, 0x30}}) {
    Made made;
    const ModuleId program = made.module(files.program, kStart * run.size());
    for (const uint64_t offset : run) made.run(program, offset, 1);
    made.keep_in(files);
  }
  CHECK(offsets(files.history().order()) == std::vector<uint64_t>{0x40, 0x30, 0x10, 0x20});
}

TEST_CASE("a run that executes nothing new leaves the file as it is") {
  const Files files;
  Made made;
  const ModuleId program = made.module(files.program, kStart);
  for (const uint64_t offset : {0x10, 0x20, 0x30}) made.run(program, offset, 1);
  made.keep_in(files);
  const std::string file = files.file();
  struct stat before {
  }, after{};
  REQUIRE(::stat(file.c_str(), &before) == 0);
  Made again;
  const ModuleId same = again.module(files.program, kStart);
  for (const uint64_t offset : {0x30, 0x10}) again.run(same, offset, 1);
  again.keep_in(files);
  REQUIRE(::stat(file.c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);
}

TEST_CASE("a file that is damaged or cut off is none, and is replaced") {
  const Files files;
  const auto keep = [&] {
    Made made;
    const ModuleId program = made.module(files.program, kStart);
    for (const uint64_t offset : {0x10, 0x2000, 0x30}) made.run(program, offset, 1);
    made.keep_in(files);
  };
  keep();
  const std::string file = files.file();
  std::ifstream in(file, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto expect_ignored = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    CHECK(files.history().order().places().empty());
    keep();
    CHECK(files.history().order().places().size() == 3);
  };
  for (size_t at = 0; at < whole.size(); at++) {
    CAPTURE(at);
    expect_ignored(whole.substr(0, at));
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    expect_ignored(flipped);
  }
}

TEST_CASE("what is known of a program is not of another file that has taken its place") {
  const Files files;
  Made made;
  const ModuleId library = made.module(files.library, kStart);
  made.run(library, 0x10, 1);
  made.keep_in(files);
  CHECK(files.history().order().places().size() == 1);
  std::ofstream(files.program) << "other code";
  CHECK(files.history().order().places().empty());
  made.keep_in(files);
  CHECK(files.history().order().places().size() == 1);
  CHECK(!files.file().empty());  // the only one
}

TEST_CASE("where modules lie is learnt from the first of their code") {
  const Files files;
  Made made;
  const ModuleId program = made.module(files.program, kStart);
  const ModuleId library = made.module(files.library, 5 * kStart);
  made.run(program, 0x10, 1);
  made.run(library, 0x20, 1);
  made.keep_in(files);

  const CodeHistory history = files.history();
  Made now;  // elsewhere
  const ModuleId here = now.module(files.program, 2 * kStart);
  const ModuleId unknown = now.module(files.kept, 3 * kStart);
  const ModuleId there = now.module(files.library, 7 * kStart);
  for (const auto& [module, offset] : {std::pair(here, 0x10), {unknown, 0x10}, {there, 0x20}})
    now.run(module, static_cast<uint64_t>(offset), 1);
  emu::Foresight foresight(history.order(), now.table);
  CHECK(foresight.size() == 2);
  CHECK(!foresight.place(0));
  CHECK(foresight.find(now.table.block(now.blocks[0])) == 0);
  CHECK(foresight.place(0)->address == GuestAddr(2 * kStart + 0x10));
  CHECK(!foresight.place(1));
  CHECK(!foresight.find(now.table.block(now.blocks[1])));
  CHECK(foresight.find(now.table.block(now.blocks[2])) == 1);
  CHECK(foresight.place(1)->address == GuestAddr(7 * kStart + 0x20));
}

}  // namespace
}  // namespace shadowprof::sample
