// SPDX-License-Identifier: MIT
#include "report/otlp_push.h"

#include <otlp.pb.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/printable.h"
#include "profile/file/compression.h"
#include "report/columns.h"
#include "report/http_post.h"

namespace shadowprof::report {
namespace {

constexpr const char* kHeaders = "OTEL_EXPORTER_OTLP_HEADERS";
constexpr const char* kTimeout = "OTEL_EXPORTER_OTLP_TIMEOUT";
constexpr std::string_view kProtobuf = "application/x-protobuf";
constexpr size_t kMostWordsOfOthers = 200;  // characters of an answer in a sentence of ours

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Nothing where a % has no two digits behind it.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned char byte = 0;
    const char* end = text.data() + std::min(text.size(), i + 3);
    const char* begin = text.data() + i + 1;
    if (std::from_chars(begin, end, byte, 16).ptr != begin + 2) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

// A token of RFC 9110.
bool is_header_name(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != kMarks.npos;
  });
}

// What would end the line of a header, or the text for libcurl.
bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

Result<std::vector<std::string>> headers_of_environment() {
  std::vector<std::string> headers;
  for (std::string_view rest = environment(kHeaders); !rest.empty();) {
    const std::string_view pair = without_blanks(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), rest.find(',')));
    if (!rest.empty()) rest.remove_prefix(1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    const std::string_view name = without_blanks(pair.substr(0, equals));
    std::optional<std::string> value;
    if (equals != pair.npos) value = percent_decoded(without_blanks(pair.substr(equals + 1)));
    if (!is_header_name(name) || !value || has_control_characters(*value))
      return fail("{} is not a list of NAME=VALUE with commas between them", kHeaders);
    // An empty one is given to libcurl with a semicolon.
    headers.push_back(value->empty() ? fmt::format("{};", name)
                                     : fmt::format("{}: {}", name, *value));
  }
  return headers;
}

Result<std::chrono::milliseconds> timeout_of_environment() {
  const std::string_view text = environment(kTimeout);
  if (text.empty()) return kPushTimeout;
  int64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (error != std::errc() || end != text.data() + text.size() || ms < 1 ||
      ms > kLongestPushTimeout.count())
    return fail("{} is a number of milliseconds from 1 to {}", kTimeout,
                kLongestPushTimeout.count());
  return std::chrono::milliseconds(ms);
}

// As a part of a sentence: ": ..."; "" where nothing was said.
std::string first_line_of(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return "";
  text.remove_prefix(begin);
  return ": " + fit(printable(without_blanks(text.substr(0, text.find_first_of("\r\n")))),
                    kMostWordsOfOthers);
}

bool is_protobuf(const HttpAnswer& answer) {
  return answer.content_type.substr(0, answer.content_type.find(';')) == kProtobuf;
}

std::string words_of_failure(const HttpAnswer& answer) {
  otlp::PushStatus status;
  if (is_protobuf(answer) && status.ParseFromString(answer.body))
    return first_line_of(status.message());
  return first_line_of(answer.body);
}

}  // namespace

Result<PushTarget> push_target(const std::string& url) {
  const size_t authority = url.find("://") == url.npos ? url.npos : url.find("://") + 3;
  const std::string scheme = authority == url.npos ? "" : url.substr(0, authority - 3);
  if (scheme != "http" && scheme != "https")
    return fail("--push needs an address that begins with http:// or https://");
  const size_t end = std::min(url.size(), url.find_first_of("/?#", authority));
  const std::string_view host = std::string_view(url).substr(authority, end - authority);
  if (host.empty() || has_control_characters(url) || url.find_first_of(" #") != url.npos)
    return fail("{} is no address to send to", printable(url));
  if (host.find('@') != host.npos)
    return fail(
        "--push takes no user and password in the address, which others see: {} has headers",
        kHeaders);
  PushTarget target{.url = url, .headers = {}};
  const std::string_view path = std::string_view(url).substr(end);
  if (path.empty() || path == "/") target.url = url.substr(0, end) + std::string(kPushPath);
  SP_ASSIGN(target.headers, headers_of_environment());
  SP_ASSIGN(target.timeout, timeout_of_environment());
  return target;
}

Result<std::string> push_otlp(const PushTarget& target, const std::string& profiles) {
  const std::string body = profile::compress(profiles, profile::Compression::gzip);
  HttpPost post{target.url,
                {fmt::format("Content-Type: {}", kProtobuf), "Content-Encoding: gzip",
                 "User-Agent: shadowprof", "Expect:"},  // no waiting for a "100 Continue"
                body,
                target.timeout};
  post.headers.insert(post.headers.end(), target.headers.begin(), target.headers.end());
  const std::string to = printable(target.url);
  const auto answer = http_post(post);
  if (!answer) return fail("cannot send to {}: {}", to, answer.error().message);
  if (answer->status != 200)
    return fail("{} answered {}{}", to, answer->status, words_of_failure(*answer));
  otlp::PushResponse response;
  if (!answer->body.empty() && (!is_protobuf(*answer) || !response.ParseFromString(answer->body)))
    return fail("{} is no collector of OTLP: it answered something else{}", to,
                is_protobuf(*answer) ? "" : first_line_of(answer->body));
  const otlp::PartialSuccess& partly = response.partial_success();
  if (partly.rejected_profiles() != 0)
    return fail("{} rejected {} of the profiles{}", to, partly.rejected_profiles(),
                first_line_of(partly.error_message()));
  const std::string remark = first_line_of(partly.error_message());
  return remark.empty() ? "" : to + " took it and says" + remark;
}

}  // namespace shadowprof::report
