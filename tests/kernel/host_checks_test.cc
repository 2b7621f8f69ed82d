// SPDX-License-Identifier: MIT
//
// What settings of a host mean, for texts that the kernel would write.
#include "kernel/host_checks.h"

#include <doctest/doctest.h>

using namespace shadowprof::kernel;

TEST_CASE("ptrace_scope: what it forbids depends on who asks") {
  CHECK(check_ptrace_scope("", false).good);
  CHECK(check_ptrace_scope("0\n", false).good);
  CHECK(check_ptrace_scope("1\n", true).good);
  CHECK(check_ptrace_scope("1\n", false).advice.find("attach") != std::string::npos);
  CHECK(!check_ptrace_scope("2\n", false).good);
  CHECK(check_ptrace_scope("2\n", true).good);
  CHECK(!check_ptrace_scope("3\n", true).good);
}

TEST_CASE("strict overcommit, one core and little space are limits") {
  CHECK(check_overcommit("0\n").good);
  CHECK(check_overcommit("1\n").good);
  CHECK(!check_overcommit("2\n").good);
  CHECK(!check_cores(1).good);
  CHECK(check_cores(2).good);
  CHECK(check_space("/tmp", uint64_t{1} << 30, true).good);
  CHECK(!check_space("/tmp", uint64_t{1} << 30, false).good);
  CHECK(!check_space("/tmp", 1000, true).good);
}

TEST_CASE("latencies need a clock of constant speed") {
  const std::string name = "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu ";
  CHECK(check_cpu(name + "constant_tsc nonstop_tsc sse\n").good);
  CHECK(check_cpu(name + "constant_tsc nonstop_tsc sse\n").finding == "A CPU");
  CHECK(!check_cpu(name + "constant_tsc xnonstop_tsc\n").good);
  CHECK(!check_cpu("").good);
}

TEST_CASE("every check of this host says what it found, and what helps where it is limited") {
  for (const HostCheck& check : check_host(".")) {
    CAPTURE(check.name);
    CHECK(!check.finding.empty());
    CHECK(check.good == check.advice.empty());
  }
}
