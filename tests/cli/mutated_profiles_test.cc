// SPDX-License-Identifier: MIT
//
// Profile files that somebody has damaged or made up: every command that reads one either works or
// says one sentence and exits with its documented status. Nothing crashes, and under the sanitizers
// nothing is undefined.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../profile/sample_profile.h"
#include "../temporary_folder.h"
#include "cli/commands.h"
#include "profile/file/json_file.h"
#include "report/export.h"

using namespace shadowprof;
using test::TemporaryFolder;
using Json = nlohmann::ordered_json;

namespace {

constexpr uint64_t kFirstSeed = 1;
constexpr uint64_t kFewMutations = 400;
constexpr uint64_t kMutationsOfAChild = 50;
// A guard against a command that does not end; none takes seconds.
constexpr unsigned kSecondsOfACommand = 120;

// The sample profile, its first module a program that is there, so that code is decoded.
profile::Profile profile_of_a_program() {
  profile::Profile p = test::sample_profile();
  struct stat info {};
  REQUIRE(::stat("/bin/true", &info) == 0);
  p.modules[0].path = "/bin/true";
  p.modules[0].build_id.clear();
  p.modules[0].inode = info.st_ino;
  p.hotlists = profile::compute_hotlists(p, 10, {});
  return p;
}

// Damages one document in ways that are drawn from a seed.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string operator()(const Json& sound) {
    Json json = sound;
    if (one_of(4) != 0) return mutated(std::move(json));
    return damaged(one_of(2) == 0 ? mutated(std::move(json)) : sound.dump());
  }

 private:
  uint64_t one_of(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

  void collect(Json& json, std::vector<Json*>& all) {
    all.push_back(&json);
    if (!json.is_structured()) return;
    for (Json& child : json) collect(child, all);
  }

  Json extreme() {
    switch (one_of(12)) {
      case 0: return 0;
      case 1: return 1;
      case 2: return ~uint64_t{0};
      case 3: return uint64_t{1} << 63;
      case 4: return (uint64_t{1} << 63) - 1;
      case 5: return uint64_t{0xffffffff};
      case 6: return std::numeric_limits<int64_t>::min();
      case 7: return -1;
      case 8: return 1e308;
      case 9: return -1e308;
      case 10: return 5e-324;
      default: return one_of(40);
    }
  }

  void change_list(Json& list) {
    switch (one_of(5)) {
      case 0:
        list = Json::array();
        return;
      case 1:
        if (!list.empty()) list.erase(one_of(list.size()));
        return;
      case 2:
        if (!list.empty()) list.push_back(Json(list[one_of(list.size())]));
        return;
      case 3:
        for (Json& one : list)
          if (one.is_number()) one = extreme();
        return;
      default:
        if (list.size() > 1) std::swap(list[one_of(list.size())], list[one_of(list.size())]);
    }
  }

  // Tables are columns: a table that stays whole loses or repeats a row of each.
  void change_object(Json& object) {
    if (object.empty()) return;
    const uint64_t what = one_of(3);
    if (what == 0) {
      object.erase(
          std::next(object.begin(), static_cast<std::ptrdiff_t>(one_of(object.size()))).key());
      return;
    }
    const uint64_t row = one_of(4);
    for (Json& column : object) {
      if (!column.is_array() || column.size() <= row) continue;
      if (what == 1)
        column.erase(row);
      else
        column.push_back(Json(column[row]));
    }
  }

  void change(Json& json) {
    if (one_of(20) == 0) {
      json = one_of(2) == 0 ? Json(nullptr) : Json(Json::object());
    } else if (json.is_number()) {
      json = extreme();
    } else if (json.is_boolean()) {
      json = !json.get<bool>();
    } else if (json.is_string()) {
      constexpr const char* kWords[] = {"", "\n::error::x", "/", "../../etc/passwd", "full",
                                        "\x1b[2J", "(((((((", "operator", "a<b<c<"};
      json = one_of(6) == 0 ? std::string(70'000, 'x') : kWords[one_of(std::size(kWords))];
    } else if (json.is_array()) {
      change_list(json);
    } else if (json.is_object()) {
      change_object(json);
    }
  }

  static uint64_t count_in(const Json& json) {
    return json.is_number_integer() ? json.get<uint64_t>() : 0;
  }

  // A change that breaks the sums of a profile is found at once: let them fit again, so that what
  // lies behind that check is reached, too.
  void make_fit(Json& json) {
    try {
      const Json& blocks = json.at("tables").at("blocks");
      const Json& cut = json.at("tables").at("interruptions");
      uint64_t sum = 0;
      for (size_t i = 0; i < blocks.at("count").size(); i++)
        sum += count_in(blocks["count"][i]) * count_in(blocks.at("insns").at(i));
      for (size_t i = 0; i < cut.at("count").size(); i++)
        sum -= count_in(cut["count"][i]) *
               (count_in(blocks.at("insns").at(count_in(cut.at("block").at(i)))) -
                count_in(cut.at("executed").at(i)));
      Json& coverage = json.at("coverage");
      coverage["attributed"] = sum;
      for (const Json& count : coverage.at("dropped")) sum += count_in(count);
      coverage["instructions_profiled"] = sum;
      coverage["instructions_total"] = sum;
    } catch (const std::exception&) {
    }
  }

  std::string mutated(Json json) {
    for (uint64_t n = 1 + one_of(3); n > 0; n--) {
      std::vector<Json*> all;
      // Most of a document is hotlists; what is computed with is in the tables.
      collect(one_of(2) == 0 && json.contains("tables") ? json["tables"] : json, all);
      change(*all[one_of(all.size())]);
    }
    if (one_of(2) == 0) make_fit(json);
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  std::string damaged(std::string text) {
    for (uint64_t n = 1 + one_of(4); n > 0 && !text.empty(); n--) {
      const size_t at = one_of(text.size());
      switch (one_of(3)) {
        case 0: text[at] = static_cast<char>(one_of(256)); break;
        case 1: text.erase(at, 1 + one_of(8)); break;
        default: text.insert(at, text.substr(one_of(text.size()), 1 + one_of(30)));
      }
    }
    if (one_of(8) == 0) text.resize(one_of(text.size() + 1));
    return text;
  }

  std::mt19937_64 random_;
};

struct Command {
  std::string name;
  int (*run)(int argc, char** argv);
  std::vector<std::string> words;
};

std::vector<Command> commands(const TemporaryFolder& dir) {
  const std::string base = dir / "base.json", changed = dir / "changed.json";
  std::vector<Command> all = {
      {"report", cli::report_main, {changed}},
      {"report", cli::report_main, {"--sort", "total", "--filter", "a", changed}},
      {"report", cli::report_main, {"--json", "--limit", "100", changed}},
      {"report", cli::report_main, {"--html", changed}},
      {"annotate", cli::annotate_main, {changed, "main"}},
      {"annotate", cli::annotate_main, {"--json", "--all", changed, "true+0x10"}},
      {"compare", cli::compare_main, {base, changed}},
      {"compare", cli::compare_main, {"--json", changed, base}},
      {"diff", cli::diff_main, {base, changed}},
      {"diff", cli::diff_main, {changed, base}},
      {"diff", cli::diff_main, {changed, changed}},
      {"report", cli::report_main, {"--html", base, changed}},
      {"diff", cli::diff_main, {"--html", changed, base}},
      {"merge", cli::merge_main, {"-o", dir / "merged.json", base, changed}},
      {"merge", cli::merge_main, {"-o", dir / "merged.json", changed + ":4000000"}}};
  for (const char* format : {"text", "markdown", "github", "sarif", "junit"})
    all.push_back({"check", cli::check_main, {"--format", format, base, changed}});
  all.push_back({"check", cli::check_main, {changed, base}});
  for (const report::ExportFormat& format : report::export_formats())
    all.push_back({"export", cli::export_main, {"--format", std::string(format.name), changed}});
  return all;
}

int call(const Command& command) {
  std::vector<std::string> words = command.words;
  words.insert(words.begin(), command.name);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return command.run(static_cast<int>(words.size()), argv.data());
}

// What a child of ours does at the moment, for when it dies of it: `command` is an index.
struct Moment {
  uint64_t seed = 0;
  size_t command = 0;
  int status = 0;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

[[noreturn]] void run_mutations(const TemporaryFolder& dir, const Json& sound, uint64_t first,
                                uint64_t end, Moment& now) {
  const int out = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int err = ::open((dir / "said").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::signal(SIGABRT, SIG_DFL);
  ::signal(SIGSEGV, SIG_DFL);
  const std::vector<Command> all = commands(dir);
  for (now.seed = first; now.seed < end; now.seed++) {
    write_file(dir / "changed.json", Mutator(now.seed)(sound));
    for (size_t i = 0; i < all.size(); i++) {
      now.command = i;
      ::alarm(kSecondsOfACommand);
      if (::ftruncate(STDERR_FILENO, 0) != 0 || ::lseek(STDERR_FILENO, 0, SEEK_SET) != 0)
        ::_exit(2);
      now.status = call(all[i]);
      const bool may_find = all[i].name == "check" && now.status == 3;
      if (now.status != 0 && now.status != 125 && !may_find) ::_exit(1);
    }
  }
  ::_exit(0);
}

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("no command crashes on a profile that is damaged or made up") {
  const TemporaryFolder dir;
  const profile::Profile base = profile_of_a_program();
  const std::string text = profile::profile_json(base);
  write_file(dir / "base.json", text);
  const Json sound = Json::parse(text);
  void* shared = ::mmap(nullptr, sizeof(Moment), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0);
  REQUIRE(shared != MAP_FAILED);
  auto& now = *new (shared) Moment;
  const uint64_t first = number_from_environment("SHADOWPROF_FUZZ_SEED", kFirstSeed);
  const uint64_t end = first + number_from_environment("SHADOWPROF_FUZZ_COUNT", kFewMutations);
  for (uint64_t seed = first; seed < end; seed += kMutationsOfAChild) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) run_mutations(dir, sound, seed, std::min(end, seed + kMutationsOfAChild), now);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (status == 0) continue;
    const Command command = commands(dir)[now.command];
    std::ostringstream said;
    said << std::ifstream(dir / "said").rdbuf();
    std::string line = command.name;
    for (const std::string& word : command.words) line += " " + word;
    FAIL(line << ": wait status " << status << ", exit status " << now.status
              << "; SHADOWPROF_FUZZ_SEED=" << now.seed << " SHADOWPROF_FUZZ_COUNT=1 repeats it\n"
              << said.str().substr(0, 3000));
  }
  ::munmap(shared, sizeof(Moment));
}
