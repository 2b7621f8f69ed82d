// SPDX-License-Identifier: MIT
#include "plugin/plugins.h"

#include <algorithm>

#include "plugin/keeper.h"
#include "plugin/plugin_process.h"

namespace shadowprof::plugin {

bool Plugins::want(uint32_t what) const {
  return std::ranges::any_of(
      all, [&](const auto& plugin) { return (plugin->description.wants & what) != 0; });
}

Result<Plugins> open_plugins(const std::vector<std::string>& paths) {
  Plugins plugins;
  if (paths.empty()) return plugins;
  if (paths.size() > kMostPlugins)
    return fail("there are {} plug-ins, and {} at most", paths.size(), kMostPlugins);
  SP_ASSIGN(plugins.keeper, Keeper::start());
  for (const std::string& path : paths) {
    SP_ASSIGN(PluginFile file, PluginFile::open(path));
    SP_ASSIGN(const auto process, PluginProcess::start(plugins.keeper, file));
    Description said = process->description();
    for (const auto& other : plugins.all)
      if (other->description.name == said.name)
        return fail("two plug-ins have the name {}", said.name);
    plugins.all.push_back(std::make_shared<const Plugin>(Plugin{std::move(file), std::move(said)}));
  }
  return plugins;
}

}  // namespace shadowprof::plugin
