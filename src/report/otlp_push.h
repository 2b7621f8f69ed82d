// SPDX-License-Identifier: MIT
//
// OTLP profiles to a collector, by OTLP/HTTP in its binary encoding, gzipped. One attempt: what is
// done after a failure is the caller's to say.
//
// The environment has what OpenTelemetry's specification gives every exporter:
// OTEL_EXPORTER_OTLP_HEADERS (name=value,..., values percent-encoded) and
// OTEL_EXPORTER_OTLP_TIMEOUT (milliseconds).
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shadowprof::report {

inline constexpr std::string_view kPushPath = "/v1development/profiles";
inline constexpr std::chrono::milliseconds kPushTimeout{10'000};  // as the specification has it
inline constexpr std::chrono::milliseconds kLongestPushTimeout{3'600'000};

struct PushTarget {
  std::string url;
  std::vector<std::string> headers;  // "name: value"
  std::chrono::milliseconds timeout = kPushTimeout;
};

// An http or https address as it is, but with kPushPath where it has no path; the rest is the
// environment's. An error does not repeat what may be secret.
Result<PushTarget> push_target(const std::string& url);

// Nothing, if the collector took all of `profiles` (export_otlp) and had nothing to say; else its
// remark. What it did not take is an error.
Result<std::string> push_otlp(const PushTarget& target, const std::string& profiles);

}  // namespace shadowprof::report
