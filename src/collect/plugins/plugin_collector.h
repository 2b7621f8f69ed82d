// SPDX-License-Identifier: MIT
//
// Gives a trace to a plug-in of the user's (include/shadowprof/collector.h, docs/plugins.md), which
// runs in a process of its own, and takes a table from it:
//
//   trace ── PluginPlans: what an execution of each run gives ──▶ records ──▶ PluginProcess
//                                                                                   │
//   profile: plugins, tables.plugins ◀── cells to places and texts ◀── its table ◀──┘
//
// Where all of a program is traced, a plug-in that is slow makes the program wait. A sample is left
// out as a whole where the plug-in has more than half of the batches before it still to read. Once
// begun, a sample of a replica waits for a moment, since nobody waits for the replica; but others
// may wait behind it, so it is cut then, as those of bursts are at once.
//
// What a plug-in cannot do, or its end, is a sentence in the profile, and ends nothing else.
#pragma once

#include <memory>

#include "collect/collector.h"
#include "collect/plugins/named_code.h"
#include "plugin/plugins.h"

namespace shadowprof::collect {

struct PluginCollectorOptions {
  std::shared_ptr<plugin::Keeper> keeper;
  std::shared_ptr<const plugin::Plugin> plugin;
  std::shared_ptr<const NamedCode> code;
  bool sampled = false;      // samples may be left out
  bool by_replicas = false;  // what is traced may wait
};

// It adds to a profile: modules, plugins, their table.
std::unique_ptr<Collector> make_plugin_collector(const trace::BlockTable& table,
                                                 const PluginCollectorOptions& options);

}  // namespace shadowprof::collect
