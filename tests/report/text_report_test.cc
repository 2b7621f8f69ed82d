// SPDX-License-Identifier: MIT
#include "report/short_names.h"
#include "report/text_report.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "../profile/sample_profile.h"
#include "report/columns.h"

namespace shadowprof {
namespace {

using report::fit_name;
using report::printable;
using report::render_text;
using report::TextOptions;

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t columns = 0;
    for (char c : line) columns += (c & 0xc0) != 0x80;
    widest = std::max(widest, columns);
  }
  return widest;
}

TEST_CASE("names cannot drive the terminal") {
  CHECK(printable("plain <T> äöü") == "plain <T> äöü");
  CHECK(printable("\x1b[31m\n\x7f") == "\\x1b[31m\\x0a\\x7f");
  CHECK(printable("\xff\xc3(") == "\\xff\\xc3(");
  CHECK(printable("a\xe2\x80\xae z") == "a\\xe2\\x80\\xae z");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");
  CHECK(printable("\xc0\x80\xed\xa0\x80") == "\\xc0\\x80\\xed\\xa0\\x80");
  CHECK(printable(std::string_view("\0x", 2)) == "\\x00x");
  const std::string text = render_text(test::sample_profile(), TextOptions{});
  for (char c : text) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
}

TEST_CASE("a probe's stack has a line for each call, and says where more are not known") {
  const std::string text = render_text(test::sample_profile(), TextOptions{});
  std::istringstream lines(text.substr(text.find("Probe stacks")));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line) && !line.empty();) all.push_back(line);
  REQUIRE(all.size() == 7);
  CHECK(all[4].find("  main") != std::string::npos);
  CHECK(all[5].find_first_not_of(' ') == all[5].find("caller not known"));
  CHECK(all[5].find("caller not known") == all[4].find("main"));
  CHECK(all[6].ends_with("  no caller"));
}

TEST_CASE("every width is kept, whatever the names are") {
  profile::Profile p = test::sample_profile();
  for (auto& m : p.hotlists.methods) m.at.function = std::string(300, 'x') + "é";
  for (auto& e : p.hotlists.edges) {
    e.from.function = std::string(90, 'y');
    e.to.file = std::string(90, 'z') + ".cc";
    e.count = ~uint64_t{0};
  }
  p.coverage.instructions_total = ~uint64_t{0};
  for (size_t columns : {80u, 100u, 109u, 110u, 200u}) {
    CAPTURE(columns);
    TextOptions options;
    options.columns = columns;
    CHECK(widest_line(render_text(p, options)) <= columns);
  }
}

TEST_CASE("the lists hold what the profile says") {
  const std::string text = render_text(test::sample_profile(), TextOptions{});
  CHECK(text.find("killed by signal 11") != std::string::npos);
  CHECK(text.find("30 instructions, 100.0% of them profiled (exact, 2 dropped)") !=
        std::string::npos);
  CHECK(text.find("  82.1%   93.3%") == std::string::npos);
  CHECK(text.find("  82.1%  100.0%       23        1        4  main") != std::string::npos);
  CHECK(text.find("indirect_call") != std::string::npos);
}

TEST_CASE("of several threads each has a row, with where it was most") {
  profile::Profile p = test::sample_profile();
  p.time.source = "cpu-clock";
  p.time.user_s = 1;
  p.time.ticks = 100;
  p.functions = {{{0, 0x10}, 0x20, "main", "", ""}};
  p.threads = {{7, 7, "app", 250'000'000, 0, 25}, {8, 7, "help\ner", 750'000'000, 0, 75}};
  p.tables.time = {{{0, 0x12}, 1, 600'000'000, 0}};
  const std::string text = render_text(p, TextOptions{});
  const size_t helper = text.find("  75.0% 8.5      0.0%        8  help\\x0aer       80.0% main");
  CHECK(helper != std::string::npos);
  CHECK(text.find("  25.0% 8.5      0.0%        7  app") > helper);
  p.threads.pop_back();
  CHECK(render_text(p, TextOptions{}).find("Threads") == std::string::npos);
}

TEST_CASE("without time threads are in the order of their instructions") {
  const std::string text = render_text(test::sample_profile(), TextOptions{});
  const size_t app = text.find("  71.4%       20       43  app              100.0% main");
  REQUIRE(app != std::string::npos);
  CHECK(text.find("  17.9%        5       44  \\x1b[31m") > app);
}

TEST_CASE("the list of threads has all that is known of each, in any width") {
  profile::Profile p = test::sample_profile();
  p.confidence.exact = false;
  p.confidence.groups = 30;
  p.time.source = "cpu-clock";
  p.time.user_s = 1;
  p.time.ticks = 100;
  p.threads[0].user_ns = 750'000'000;
  p.threads[1].user_ns = 250'000'000;
  p.threads[1].process = 44;
  for (const size_t columns : {80, 100, 140}) {
    TextOptions options;
    options.columns = columns;
    const std::string text = render_threads(p, options);
    CAPTURE(text);
    CHECK(text.find("  75.0% 8.5      0.0%   71.4% 14.6        20") != std::string::npos);
    CHECK((text.find("samples") != std::string::npos) == (columns >= 90));
    CHECK(widest_line(text) <= columns);
  }
}

TEST_CASE("of some threads the report says what they are of all, and what is not known of them") {
  profile::Profile p = test::sample_profile();
  p.hotlists.edges.resize(1);
  TextOptions options;
  options.of_threads = true;
  const profile::ThreadPart part = profile::keep_threads(p, {0}, 20);
  const std::string text = render_part(p, part, options);
  CHECK(text.starts_with("thread app (43): 71.4% of the instructions; shares below"));
  CHECK(text.find(" 100.0%       20  main") != std::string::npos);
  CHECK(text.find("known of all threads together only:") != std::string::npos);
  CHECK(text.find("edges") != std::string::npos);
}

TEST_CASE("sentences at the top go on in a further line, and estimates have three digits") {
  profile::Profile p = test::sample_profile();
  p.run.mode = "shadow";
  p.coverage.samples = 40;
  p.coverage.estimated = p.coverage.assumed_speeds = true;
  p.coverage.instructions_total = 10'103'198'598;
  const std::string text = render_text(p, TextOptions{});
  CHECK(text.find("10.1 G instructions (roughly estimated), ") != std::string::npos);
  CHECK(text.find("no sample tells how fast the program is where: shares of instructions take it\n"
                  "  for equally fast everywhere, and cycles per instruction are not known\n") !=
        std::string::npos);
}

TEST_CASE("of how much time no load was timed is said where loads were to be timed") {
  profile::Profile p = test::sample_profile();
  p.run.mode = "shadow";
  p.coverage.samples = 40;
  p.tables.latencies.clear();
  p.tables.time = {{.at = {0, 0x10}, .thread = 0, .user_ns = 300, .kernel_ns = 0}};
  const auto says = [&] {
    return render_text(p, TextOptions{}).find("no load was timed in functions that had 100.0%") !=
           std::string::npos;
  };
  CHECK(!says());
  p.run.options["profile"] = "edge,latency";
  CHECK(says());
  profile::LatencyRow load;
  load.at = {0, 0x12};
  load.timed = 1;
  p.tables.latencies = {load};
  CHECK(!says());
}

TEST_CASE("what is assumed is not called an estimate") {
  profile::Profile p = test::sample_profile();
  p.coverage.estimated = p.coverage.assumed_total = true;
  const std::string text = render_text(p, TextOptions{});
  CHECK(text.find(" instructions profiled (") != std::string::npos);
  CHECK(text.find(" dropped): too few to estimate of how many\n") != std::string::npos);
  CHECK(text.find("roughly") == std::string::npos);
}

TEST_CASE("paths have the time that they are in the order of") {
  profile::Profile p = test::sample_profile();
  p.hotlists.paths.resize(2);
  p.hotlists.paths[0].share = 0.1;
  p.hotlists.paths[1].share = 0.6;
  CHECK(render_text(p, TextOptions{}).find("Hot paths (by instructions)") != std::string::npos);
  p.time.source = "cpu-clock";
  p.time.user_s = 1;
  p.time.ticks = 100;
  p.hotlists.paths[0].time.share = 0.7;
  const std::string text = render_text(p, TextOptions{});
  const size_t list = text.find("Hot paths (by processor time)\n   time   share ");
  REQUIRE(list != std::string::npos);
  CHECK(text.find("\n  70.0%   10.0% ", list) < text.find("\n   0.0%   60.0% ", list));
}

TEST_CASE("names are shortened to what tells them apart") {
  const auto shown = [](const std::string& name) {
    profile::Profile p = test::sample_profile();
    p.hotlists.methods.resize(1);
    p.hotlists.methods[0].at.function = name;
    const std::string text = render_text(p, TextOptions{});
    const size_t row = text.find("  function\n") + 11;
    return text.substr(row + 44, text.find('\n', row) - row - 44);
  };
  CHECK(shown("main") == "main");
  CHECK(shown("(anonymous namespace)::find(std::string const&, int) const") == "find");
  CHECK(shown("A::operator()(int) const") == "A::operator()");
  CHECK(shown("A::operator()") == "A::operator()");
  CHECK(shown("ns::Op const* ns::load<2, 4>(ns::State&, ns::Op const*)") == "ns::load<2, 4>");
  CHECK(shown("decltype (p->q()) pick<A<(1 > 0)>>(A<true>*) [clone .cold]") == "pick<A<(1 > 0)>>");
  CHECK(shown("A& std::operator<< <char>(A&, char)") == "std::operator<< <char>");
  CHECK(shown("A::operator B const*<int>()") == "A::operator B const*<int>");
  CHECK(shown("non-virtual thunk to A<int>::f()") == "non-virtual thunk to A<int>::f");
  CHECK(shown("std::function<void (int)>::swap") == "std::function<void (int)>::swap");
  CHECK(shown("f(int)::{lambda()}") == "f(int)::{lambda()}");
  CHECK(shown("g(int (*)(long)) [clone .cold]") == "g");
  CHECK(shown("memcpy@plt") == "memcpy@plt");
  CHECK(shown("bytes.(*Buffer).Write") == "bytes.(*Buffer).Write");
  CHECK(shown("function@0x10") == "app+0x10");
  const std::string string =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  CHECK(shown(string + "::append(" + string + " const&)") == "std::string::append");
  CHECK(shown("std::vector<int, std::allocator<int> >::f()") == "std::vector<int>::f");
  CHECK(shown("A<std::vector<B<int>, std::allocator<B<int> > > >::f()") ==
        "A<std::vector<B<int>>>::f");
}

TEST_CASE("of a name that is too long the function's own is what is left") {
  const std::string name = "ns::deep::Table<ns::Key<4>, std::less<int> >::look_up<true>";
  CHECK(fit_name(name, 80) == name);
  CHECK(fit_name(name, 40) == "ns::deep::Table<…>::look_up<true>");
  CHECK(fit_name(name, 30) == "ns::deep::Table<…>::look_up<…>");
  CHECK(fit_name(name, 28) == "…::Table<…>::look_up<…>");
  CHECK(fit_name(name, 16) == "…::look_up<…>");
  CHECK(fit_name(name, 8) == "…::look…");
  CHECK(fit_name("std::operator<< <std::char_traits<char> >", 24) == "std::operator<< <…>");
  CHECK(fit_name("A::operator<", 12) == "A::operator<");
  CHECK(fit_name("unbalanced<int", 10) == "unbalance…");
}

TEST_CASE("a place without a line says how far into its function it is") {
  profile::Profile p = test::sample_profile();
  p.functions[0].file.clear();
  p.hotlists.edges.resize(1);
  profile::Place& from = p.hotlists.edges[0].from;
  from = {p.modules[0].path, p.functions[0].at.offset + 0x8, p.functions[0].name, "", 0};
  p.hotlists.edges[0].to = from;
  p.hotlists.edges[0].to.offset += 2;
  CHECK(render_text(p, TextOptions{}).find("main+0x8") != std::string::npos);
  CHECK(render_text(p, TextOptions{}).find("-> +0xa\n") != std::string::npos);
  from.function = "not what lies there";
  CHECK(render_text(p, TextOptions{}).find("app+0x18") != std::string::npos);
}

TEST_CASE("a path's route has a line of its own where the terminal is narrow") {
  profile::Profile p = test::sample_profile();
  profile::HotPath path;
  for (int i = 0; i < 3; i++)
    path.blocks.push_back({"app", 0x10, "a_function_of_the_route", "", 0});
  path.from = profile::Place{"app", 0x20, "the_caller", "caller.cc", 7};
  p.hotlists.paths = {path};
  TextOptions options;
  const std::string narrow = render_text(p, options);
  CHECK(narrow.find("  blocks  from; route\n") != std::string::npos);
  CHECK(narrow.find("  the_caller caller.cc:7\n          a_function_of_the_route +0x") !=
        std::string::npos);
  options.columns = 160;
  const std::string wide = render_text(p, options);
  CHECK(wide.find("  blocks  route\n") != std::string::npos);
  CHECK(wide.find("\n          from the_caller caller.cc:7\n") != std::string::npos);
}

TEST_CASE("a call site has the room that the name of its callee leaves") {
  profile::Profile p = test::sample_profile();
  profile::HotArgument argument;
  argument.site = {"app", 0x10, "count_words", "hotspots.cc", 68};
  argument.callee = {"app", 0x20, "find", "", 0};
  argument.reg = "rdi";
  p.hotlists.arguments = {argument};
  CHECK(render_text(p, TextOptions{}).find("  count_words hotspots.cc:68 -> find, rdi\n") !=
        std::string::npos);
}

TEST_CASE("values of one sample, and those in a wide interval, are counted and not listed") {
  profile::Profile p = test::sample_profile();
  p.confidence = {.exact = false, .groups = 8};
  profile::HotValue value;
  value.disassembly = "mov rax, rdx";
  value.figures.count = 9;
  value.figures.invariance = 0.9;
  p.hotlists.values = {value, value, value};
  p.hotlists.values[1].figures.invariance_error = 0.95;
  p.hotlists.values[2].disassembly = "mov rbx, rdx";
  p.hotlists.values[2].figures.invariance_error = 0.1;
  p.tables.values.resize(3);
  std::string text = render_text(p, TextOptions{});
  CHECK(text.find("mov rax, rdx") == std::string::npos);
  CHECK(text.find("mov rbx, rdx") != std::string::npos);
  CHECK(text.find("  2 more rows are not certain\n") != std::string::npos);
  p.hotlists.values.pop_back();
  text = render_text(p, TextOptions{});
  CHECK(text.find("\nValues (*") == std::string::npos);
  CHECK(text.find("values (2)") != std::string::npos);
  p.confidence.groups = 0;
  CHECK(render_text(p, TextOptions{}).find("mov rax, rdx") != std::string::npos);
}

TEST_CASE("two samples make no list, unless it is asked for") {
  profile::Profile p = test::sample_profile();
  p.confidence = {.exact = false, .groups = 1};
  p.coverage.estimated = true;
  p.coverage.samples = 2;
  const std::string text = render_text(p, TextOptions{});
  CHECK(text.find("\nHot edges") == std::string::npos);
  CHECK(text.find("left out, as no row is certain: ") != std::string::npos);
  CHECK(render_list(p, report::TextList::edges, TextOptions{}).find("Hot edges") !=
        std::string::npos);
}

TEST_CASE("nobody is told to specialise for an address") {
  profile::Profile p = test::sample_profile();
  profile::HotValue value;
  value.semi_invariant = true;
  value.is_address = true;
  value.advice = "specialise";
  value.figures.values = {{0x7fab7d7b5010, 1, 1}};
  p.hotlists.values = {value};
  p.hotlists.arguments.clear();  // what is said of them is another case's
  p.tables.arguments.clear();
  std::string text = render_text(p, TextOptions{});
  CHECK(text.find("an address of this run") != std::string::npos);
  CHECK(text.find("specialise") == std::string::npos);
  p.hotlists.values[0].is_address = false;
  p.hotlists.values[0].figures.values[0].value = 4096;
  CHECK(render_text(p, TextOptions{}).find("are 4096; specialise") != std::string::npos);
}

TEST_CASE("floats and doubles are shown as numbers, with what they are the first of") {
  profile::Profile p = test::sample_profile();
  profile::HotValue value;
  value.type = profile::ValueType::f64;
  value.disassembly = "mulsd xmm0, xmm1";
  value.semi_invariant = true;
  value.figures.values = {{std::bit_cast<uint64_t>(2.0), 1, 1}};
  p.hotlists.values = {value};
  std::string text = render_text(p, TextOptions{});
  CHECK(text.find("mulsd xmm0, xmm1 (f64)") != std::string::npos);
  CHECK(text.find("semi-invariant: 0.0% are 2.0") != std::string::npos);
  value.type = profile::ValueType::f32;
  value.elements = 4;
  value.disassembly = "addps xmm0, xmm1";
  value.figures.values = {{std::bit_cast<uint32_t>(0.1f), 1, 1}};
  p.hotlists.values = {value};
  text = render_text(p, TextOptions{});
  CHECK(text.find("addps xmm0, xmm1 (f32: 1st of 4)") != std::string::npos);
  CHECK(text.find("are 0.1") != std::string::npos);
  p.hotlists.values[0].type = profile::ValueType::integer;
  p.hotlists.values[0].bits = 16;
  p.hotlists.values[0].figures.values[0].value = 7;
  CHECK(render_text(p, TextOptions{}).find("(i16: 1st of 4)") != std::string::npos);
}

TEST_CASE("a data stream has its instructions, its lines and what to do about them") {
  const std::string text = render_text(test::sample_profile(), TextOptions{});
  CHECK(text.find("Hot data streams (by references)") != std::string::npos);
  CHECK(text.find("  3      48  scattered\n") != std::string::npos);
  CHECK(text.find("always together: place together; its loads take 25 cycles\n") !=
        std::string::npos);
  CHECK(text.find("mov eax, [rbx]") != std::string::npos);
  CHECK(text.find("  2       2  contiguous\n") != std::string::npos);
}

TEST_CASE("the limit holds and the rest is counted") {
  TextOptions options;
  options.limit = 1;
  options.summary = false;
  const std::string text = render_text(test::sample_profile(), options);
  CHECK(text.find("... and 1 more") != std::string::npos);
  CHECK(text.find("... and 3 more") != std::string::npos);
}

TEST_CASE("rows that are not certain are counted and not printed") {
  profile::Profile p = test::sample_profile();
  p.run.mode = "shadow";
  p.confidence = {false, 12};
  p.coverage.estimated = true;
  p.hotlists.methods.assign(4, p.hotlists.methods[0]);
  for (size_t i = 0; i < 4; i++) {
    p.hotlists.methods[i].at.function = fmt::format("f{}", i);
    p.hotlists.methods[i].self_share = 0.2;
    p.hotlists.methods[i].self_share_error = i % 2 == 0 ? 0.1 : 0.3;
  }
  p.functions.resize(1);
  const std::string text = render_text(p, TextOptions{});
  CHECK(text.find("  f0\n") != std::string::npos);
  CHECK(text.find("  f2\n") != std::string::npos);
  CHECK(text.find("  f1\n") == std::string::npos);
  CHECK(text.find("  f3\n") == std::string::npos);
  CHECK(text.find("\n  2 more rows are not certain\n") != std::string::npos);
  p.functions.resize(9);
  CHECK(render_text(p, TextOptions{}).find("\n  ... and 5 more; 2 more rows are not certain\n") !=
        std::string::npos);
}

TEST_CASE("lists without a certain row are named and left out") {
  profile::Profile p = test::sample_profile();
  p.run.mode = "shadow";
  p.confidence = {false, 12};
  p.coverage.estimated = true;
  REQUIRE_FALSE(p.hotlists.edges.empty());
  for (profile::HotEdge& edge : p.hotlists.edges) edge.share_error = 1;
  const std::string text = render_text(p, TextOptions{});
  CHECK(text.find("Hot edges") == std::string::npos);
  CHECK(text.find("left out, as no row is certain: ") != std::string::npos);
  CHECK(text.find(fmt::format("edges ({})", p.hotlists.edges.size())) != std::string::npos);
  const std::string edges = report::render_list(p, report::TextList::edges, TextOptions{});
  CHECK(edges.find("Hot edges") != std::string::npos);
}

TEST_CASE("a report begins with what all of it must be read with") {
  profile::Profile p = test::sample_profile();
  CHECK(render_text(p, TextOptions{}).find("conclusions") == std::string::npos);
  p.run.mode = "shadow";
  p.confidence = {false, 1};
  p.coverage.samples = 1;
  CHECK(render_text(p, TextOptions{}).starts_with("too little for conclusions: 1 sample;"));
  p.coverage.ended_early = {{0.5, 12, "process 7 " + std::string(200, 'x') + " went away"}};
  const std::string text = render_text(p, TextOptions{});
  CHECK(text.starts_with("ended early, after 0.500 s and 12 instructions: process 7\n"));
  CHECK(text.find("an unknown share of them profiled") != std::string::npos);
  CHECK(widest_line(text) <= 80);
}

TEST_CASE("slow loads are those that lose something, and the others are counted") {
  profile::Profile p = test::sample_profile();
  const auto loads_of = [&] {
    TextOptions options;
    const std::string text = report::render_list(p, report::TextList::loads, options);
    return text.substr(text.find("Slow loads"));
  };
  profile::HotLoad load;
  load.at = {"/bin/app", 0x12, "slow", "app.c", 9};
  load.executions = load.timed = 1000;
  load.mean_cycles = 300;
  load.mean_error = 290;  // and still it is not nothing
  load.lost_cycles = 296'000;
  profile::HotLoad other = load;
  other.at.function = "other";
  other.mean_error = 1;
  other.lost_cycles = 0;
  p.hotlists.load_latency = {load, other};
  CHECK(loads_of().find("slow app.c:9") != std::string::npos);
  CHECK(loads_of().find("other") == std::string::npos);
  CHECK(loads_of().find("1 more row is not certain") != std::string::npos);
}

TEST_CASE("color is only where it was asked for") {
  TextOptions options;
  CHECK(render_text(test::sample_profile(), options).find('\x1b') == std::string::npos);
  options.color = true;
  CHECK(render_text(test::sample_profile(), options).find("\x1b[1;31m") != std::string::npos);
  ::unsetenv("NO_COLOR");
  CHECK(report::use_color("always", -1));
  CHECK(!report::use_color("auto", -1));
  CHECK(!report::use_color("never", -1));
  ::setenv("NO_COLOR", "1", 1);
  CHECK(!report::use_color("always", -1));
  ::setenv("NO_COLOR", "", 1);
  CHECK(report::use_color("always", -1));
  ::unsetenv("NO_COLOR");
}

TEST_CASE("an empty profile is rendered") {
  CHECK(!render_text(profile::Profile{}, TextOptions{}).empty());
}

}  // namespace
}  // namespace shadowprof
