// SPDX-License-Identifier: MIT
#include "sample/plugin_code.h"

#include <algorithm>

namespace shadowprof::sample {

PluginCode::PluginCode(const trace::BlockTable& table, int64_t started, trace::CaptureWishes* also)
    : table_(table), also_(also), named_(table, {{.module = "", .function = "*"}}, started) {}

void PluginCode::meet(BlockId id) {
  if (also_ != nullptr) also_->meet(id);
  collect::NamedBlock& named = code_->blocks[id.value];
  if (named.module != nullptr) return;
  const trace::Block& block = table_.block(id);
  const trace::Module& module = table_.module(block.module);
  named.offset = static_cast<uint64_t>(block.start - module.file_start);
  named.function_number = named_.find(block).function;
  named.function = "";
  if (named.function_number != 0) {
    if (functions_.size() <= named.function_number)
      functions_.resize(std::max<size_t>(named.function_number + 1, 2 * functions_.size()));
    const char*& name = functions_[named.function_number];
    if (name == nullptr) name = kept(named_.name_of(block));
    named.function = name;
  }
  named.module = kept(module.path);
}

}  // namespace shadowprof::sample
