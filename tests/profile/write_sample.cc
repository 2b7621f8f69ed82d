// SPDX-License-Identifier: MIT
//
// Writes the sample profile to stdout, for schema_test.py.
#include <cstdio>

#include "profile/file/json_file.h"
#include "sample_profile.h"

int main(int argc, char** argv) {
  shadowprof::profile::Profile profile = shadowprof::test::sample_profile();
  if (argc > 1 && argv[1][0] == 'e') profile = {};
  if (argc > 1 && argv[1][0] == 'm')
    profile.run.merged = {{"a.json", {"app"}, "2025-01-31T12:00:00Z", 30, 2}};
  if (argc > 1 && argv[1][0] == 's') {
    profile.run.mode = "shadow";
    profile.confidence = {};
    profile.confidence.groups = 7;
    profile.run.until_error = {0.05, 0.0425, 3, true};
    for (auto& row : profile.tables.contexts) row.error = 1;
    for (auto& row : profile.tables.edges) row.error = 1;
  }
  if (argc > 1 && argv[1][0] == 'p') {
    profile.run.images = {{{"sh", "-c", "exec app"}, 0}, {{"app"}, 0.5}};
    profile.run.changes = {{1.5, "values", "1/16"}};
    profile.run.start_at = {"app!serve", 0.75};
    profile.confidence = {};
    profile.coverage.estimated = true;
    profile.coverage.ended_early = {{0.75, 30, "process 7 went away"}, {1, {}, "process 8, too"}};
  }
  if (auto status = write_profile(profile, "-"); !status) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}
