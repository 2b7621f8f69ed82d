// SPDX-License-Identifier: MIT
//
// All tables of a profile.
#pragma once

#include "profile/tables/access_pair_table.h"
#include "profile/tables/block_count_table.h"
#include "profile/tables/call_table.h"
#include "profile/tables/context_table.h"
#include "profile/tables/course_table.h"
#include "profile/tables/edge_table.h"
#include "profile/tables/latency_table.h"
#include "profile/tables/memory_table.h"
#include "profile/tables/path_table.h"
#include "profile/tables/plugin_table.h"
#include "profile/tables/probe_table.h"
#include "profile/tables/sharing_table.h"
#include "profile/tables/stream_table.h"
#include "profile/tables/thread_code_table.h"
#include "profile/tables/time_table.h"
#include "profile/tables/value_table.h"

namespace shadowprof::profile {

struct Tables {
  BlockTable blocks;
  InterruptionTable interruptions;
  EdgeTable edges;
  CallTable calls;
  EntryTable entries;
  ContextTable contexts;
  ValueTable values;
  ArgumentTable arguments;
  PathTable paths;
  LatencyTable latencies;
  LatencyPageTable latency_pages;
  LatencyValueTable latency_values;
  CacheLineTable cache_lines;
  AccessPairTable hazards;
  AccessPairTable waste;
  SharingTable sharing;
  StreamTable streams;
  ProbeTable probes;
  PluginTable plugins;
  TimeTable time;
  CourseTable course;
  ThreadCodeTable thread_code;
};

// Calls visit(layout, member) for each table, in the order of the file.
template <typename Visit>
void for_each_table(Visit visit) {
  visit(kBlockLayout, &Tables::blocks);
  visit(kInterruptionLayout, &Tables::interruptions);
  visit(kEdgeLayout, &Tables::edges);
  visit(kCallLayout, &Tables::calls);
  visit(kEntryLayout, &Tables::entries);
  visit(kContextLayout, &Tables::contexts);
  visit(kPathLayout, &Tables::paths);
  visit(kLatencyLayout, &Tables::latencies);
  visit(kLatencyPageLayout, &Tables::latency_pages);
  visit(kLatencyValueLayout, &Tables::latency_values);
  visit(kCacheLineLayout, &Tables::cache_lines);
  visit(kHazardLayout, &Tables::hazards);
  visit(kWasteLayout, &Tables::waste);
  visit(kSharingLayout, &Tables::sharing);
  visit(kStreamLayout, &Tables::streams);
  visit(kProbeLayout, &Tables::probes);
  visit(kPluginLayout, &Tables::plugins);
  visit(kValueLayout, &Tables::values);
  visit(kArgumentLayout, &Tables::arguments);
  visit(kTimeLayout, &Tables::time);
  visit(kCourseLayout, &Tables::course);
  visit(kThreadCodeLayout, &Tables::thread_code);
}

// The same for those whose rows have a thread.
template <typename Visit>
void for_each_table_by_thread(Visit visit) {
  visit(kTimeLayout, &Tables::time);
  visit(kCourseLayout, &Tables::course);
  visit(kThreadCodeLayout, &Tables::thread_code);
}

// Sorts the rows of tables whose rows have keys, and makes equal ones one.
void normalise(Tables& tables);

}  // namespace shadowprof::profile
