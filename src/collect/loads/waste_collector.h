// SPDX-License-Identifier: MIT
//
// Folds a trace with address registers into accesses that need not have been made:
//
//   dead stores      overwritten by one later store of the same thread, all bytes of them, while no
//                    load of that thread has had any of them; by (store, store that overwrote it)
//   redundant loads  of the bytes that a load of the same thread has had before, with no store of
//                    it to any of them between; by (load before, load)
//
//   silent stores    of what is there already, where the record has both; by store
//
// Memory is bounded: WasteThread has a table of fixed size, in which older entries make place for
// newer ones. What is forgotten, what an access of unknown address may have touched, and what was
// open when a system call, a signal handler or code that is not traced came is unknown, and no
// waste. What other threads load and store is not seen.
#pragma once

#include <memory>

#include "collect/collector.h"
#include "collect/loads/access_follower.h"

namespace shadowprof::collect {

// It adds to a profile: modules, the table of waste, events of coverage.
std::unique_ptr<Collector> make_waste_collector(const trace::BlockTable& table,
                                                AccessFollowerOptions options);

}  // namespace shadowprof::collect
