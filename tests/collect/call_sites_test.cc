// SPDX-License-Identifier: MIT
#include "collect/values/call_sites.h"

#include <doctest/doctest.h>

namespace {

using shadowprof::collect::CallSites;

// Site n returns to 10 n.
void call(CallSites& calls, uint32_t site) {
  calls.call(site, uint64_t{10} * site);
}
void ret(CallSites& calls, uint64_t to) {
  calls.ret();
  calls.arrive(to);
}

}  // namespace

TEST_CASE("the innermost call is the last that has not returned") {
  CallSites calls;
  CHECK(calls.innermost() == 0);
  call(calls, 1);
  call(calls, 2);
  calls.arrive(77);
  CHECK(calls.innermost() == 2);
  ret(calls, 20);
  CHECK(calls.innermost() == 1);
  ret(calls, 10);
  ret(calls, 5);  // out of what was entered before anybody looked
  CHECK(calls.innermost() == 0);
}

TEST_CASE("a return beyond frames that longjmp or an exception has left ends them, too") {
  CallSites calls;
  for (uint32_t site = 1; site <= 4; site++) call(calls, site);
  call(calls, 5);
  ret(calls, 20);
  CHECK(calls.innermost() == 1);
}

TEST_CASE("a return to where nobody was called from ends one call") {
  CallSites calls;
  call(calls, 1);
  call(calls, 2);
  ret(calls, 999);
  CHECK(calls.innermost() == 1);
}

TEST_CASE("a signal handler leaves calls as they were, also between a return and where it leads") {
  CallSites calls;
  call(calls, 1);
  call(calls, 2);
  calls.ret();
  calls.enter_handler();
  CHECK(calls.innermost() == 0);
  call(calls, 3);
  CHECK(calls.innermost() == 3);
  ret(calls, 30);
  CHECK(calls.innermost() == 0);
  ret(calls, 888);  // to what returns from the signal
  calls.leave_handler();
  calls.arrive(20);
  CHECK(calls.innermost() == 1);
}

TEST_CASE("a handler that is left by siglongjmp is over with what it has interrupted") {
  CallSites calls;
  call(calls, 1);
  call(calls, 2);
  calls.enter_handler();
  call(calls, 3);
  ret(calls, 10);
  CHECK(calls.innermost() == 0);
}

TEST_CASE("as many calls as there may be") {
  CallSites calls;
  for (uint32_t site = 1; site <= 100'000; site++) call(calls, site);
  CHECK(calls.innermost() == 100'000);
  for (uint32_t site = 100'000; site > 99'000; site--) ret(calls, uint64_t{10} * site);
  CHECK(calls.innermost() == 99'000);
}
