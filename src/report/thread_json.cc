// SPDX-License-Identifier: MIT
#include "report/thread_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "profile/file/json_file.h"

namespace shadowprof::report {
namespace {

using Json = nlohmann::ordered_json;

// Names come from the program: what is no UTF-8 is replaced.
std::string document(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json thread_row_json(const profile::ThreadRow& t) {
  Json j = {{"tid", t.tid}, {"process", t.process}, {"name", t.name}};
  j["instructions"] = t.instructions;
  j["samples"] = t.samples;
  return j;
}

}  // namespace

std::string threads_json(const profile::Profile& profile) {
  Json rows = Json::array();
  const bool knows_code = !profile.tables.thread_code.empty();
  for (const profile::ThreadRow& t : profile.threads) {
    Json j = thread_row_json(t);
    if (knows_code && profile.coverage.attributed != 0) {
      j["instruction_share"] =
          static_cast<double>(t.instructions) / static_cast<double>(profile.coverage.attributed);
      if (const profile::Margin error = profile::thread_share_error(profile, t))
        j["instruction_error"] = *error;
    }
    if (profile.time.seconds() > 0) {
      const double spent_s = 1e-9 * static_cast<double>(t.user_ns + t.kernel_ns);
      j["time_s"] = spent_s;
      j["kernel_s"] = 1e-9 * static_cast<double>(t.kernel_ns);
      j["time_share"] = spent_s / profile.time.seconds();
      j["time_error"] = profile.time.error_of(spent_s / profile.time.seconds());
      j["ticks"] = t.ticks;
    }
    rows.push_back(std::move(j));
  }
  return document({{"threads", std::move(rows)}});
}

std::string part_json(const profile::Profile& profile, const profile::ThreadPart& part) {
  Json threads = Json::array();
  for (const profile::ThreadRow& t : part.threads) threads.push_back(thread_row_json(t));
  Json whole = {{"threads", std::move(threads)}};
  if (part.knows_code) {
    whole["instructions"] = part.instructions;
    whole["instruction_share"] = part.instruction_share;
    if (part.instruction_error) whole["instruction_error"] = *part.instruction_error;
  }
  if (profile.time.is_known()) {
    whole["time_s"] = profile.time.seconds();
    whole["time_share"] = part.time_share;
    whole["time_error"] = part.time_error;
  }
  Json lists = Json::parse(profile::hotlists_json(profile.hotlists));
  for (Json& row : lists["methods"])
    for (const char* of_all :
         {"inclusive_instructions", "inclusive_share", "invocations", "loop_iterations"})
      row.erase(of_all);
  whole["methods"] = std::move(lists["methods"]);
  whole["not_by_thread"] = part.unknown;
  return document(whole);
}

}  // namespace shadowprof::report
