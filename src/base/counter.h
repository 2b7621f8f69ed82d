// SPDX-License-Identifier: MIT
//
// Counters with the names that a profile has for them. A file of rows COUNTER(member, name) is
// included once to declare the members and once to list them. Adding and telling go through the
// list, so a new counter is one row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>

namespace shadowprof {

template <typename Counts>
struct Counter {
  const char* name;
  uint64_t Counts::*member;
};

template <typename Counts, size_t N>
void add_counters(const Counter<Counts> (&list)[N], std::type_identity_t<Counts>& into,
                  const std::type_identity_t<Counts>& from) {
  for (const Counter<Counts>& c : list) into.*c.member += from.*c.member;
}

template <typename Counts, size_t N>
uint64_t sum_of(const Counter<Counts> (&list)[N], const std::type_identity_t<Counts>& counts) {
  uint64_t sum = 0;
  for (const Counter<Counts>& c : list) sum += counts.*c.member;
  return sum;
}

template <typename Counts, size_t N>
void tell_counters(const Counter<Counts> (&list)[N], const std::type_identity_t<Counts>& counts,
                   std::map<std::string, uint64_t>& into) {
  for (const Counter<Counts>& c : list) into[c.name] = counts.*c.member;
}

}  // namespace shadowprof
