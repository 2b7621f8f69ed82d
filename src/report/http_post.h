// SPDX-License-Identifier: MIT
//
// One HTTP request that sends bytes, by libcurl, which is loaded when this is called and not
// before: it brings more than twenty libraries with it that nobody else needs. What curl takes from
// its environment (http_proxy and the like, the host's certificates) holds here, too. Redirections
// are not followed.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shadowprof::report {

struct HttpPost {
  std::string url;
  std::vector<std::string> headers;  // "name: value"
  std::string_view body;
  std::chrono::milliseconds timeout{0};  // from the first look-up to the answer's last byte
};

struct HttpAnswer {
  long status = 0;
  std::string content_type;  // "" where the answer has none
  std::string body;          // its first kMostAnswerBytes
};
inline constexpr size_t kMostAnswerBytes = size_t{64} << 10;

// The error is why there is no answer, without the address. Its errno is that of the connection,
// ETIMEDOUT after `timeout`, else 0.
Result<HttpAnswer> http_post(const HttpPost& post);

}  // namespace shadowprof::report
