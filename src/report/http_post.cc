// SPDX-License-Identifier: MIT
#include "report/http_post.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/printable.h"
#include "base/shared_library.h"

namespace shadowprof::report {
namespace {

// The second one is Debian's, of the same interface, with another library for TLS: git and
// libdebuginfod bring it along.
constexpr const char* kLibraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

struct Curl {
  decltype(::curl_global_init)* global_init = nullptr;
  decltype(::curl_easy_init)* init = nullptr;
  decltype(::curl_easy_setopt)* set = nullptr;
  decltype(::curl_easy_perform)* perform = nullptr;
  decltype(::curl_easy_getinfo)* get = nullptr;
  decltype(::curl_easy_strerror)* text_of = nullptr;
  decltype(::curl_easy_cleanup)* cleanup = nullptr;
  decltype(::curl_slist_append)* append = nullptr;
  decltype(::curl_slist_free_all)* free_list = nullptr;
};

Result<Curl> load_curl() {
  void* library = nullptr;
  for (const char* name : kLibraries)
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail("it needs {}, which cannot be loaded (Debian: libcurl4)", kLibraries[0]);
  Curl curl;
  if (!look_up(library, "curl_global_init", curl.global_init) ||
      !look_up(library, "curl_easy_init", curl.init) ||
      !look_up(library, "curl_easy_setopt", curl.set) ||
      !look_up(library, "curl_easy_perform", curl.perform) ||
      !look_up(library, "curl_easy_getinfo", curl.get) ||
      !look_up(library, "curl_easy_strerror", curl.text_of) ||
      !look_up(library, "curl_easy_cleanup", curl.cleanup) ||
      !look_up(library, "curl_slist_append", curl.append) ||
      !look_up(library, "curl_slist_free_all", curl.free_list))
    return fail("{} is not the library that it should be", kLibraries[0]);
  if (curl.global_init(CURL_GLOBAL_ALL) != CURLE_OK) return fail("libcurl does not start");
  return curl;
}

size_t take_body(const char* bytes, size_t, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  text.append(bytes, std::min(count, kMostAnswerBytes - text.size()));
  return count;
}

}  // namespace

Result<HttpAnswer> http_post(const HttpPost& post) {
  SP_ASSIGN(const Curl curl, load_curl());
  const std::unique_ptr<CURL, decltype(curl.cleanup)> request(curl.init(), curl.cleanup);
  if (request == nullptr) return fail("libcurl does not start");
  std::unique_ptr<curl_slist, decltype(curl.free_list)> headers(nullptr, curl.free_list);
  for (const std::string& header : post.headers) {
    curl_slist* longer = curl.append(headers.get(), header.c_str());
    if (longer == nullptr) return fail_errno(ENOMEM, "no request");
    static_cast<void>(headers.release());
    headers.reset(longer);
  }

  HttpAnswer answer;
  std::array<char, CURL_ERROR_SIZE> why{};
  bool set = true;
  const auto option = [&](CURLoption name, auto value) {
    set = set && curl.set(request.get(), name, value) == CURLE_OK;
  };
  option(CURLOPT_URL, post.url.c_str());
  option(CURLOPT_POSTFIELDS, post.body.data());
  option(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(post.body.size()));
  option(CURLOPT_HTTPHEADER, headers.get());
  option(CURLOPT_TIMEOUT_MS, static_cast<long>(post.timeout.count()));
  option(CURLOPT_NOSIGNAL, 1L);
  option(CURLOPT_ERRORBUFFER, why.data());
  option(CURLOPT_WRITEFUNCTION, take_body);
  option(CURLOPT_WRITEDATA, static_cast<void*>(&answer.body));
  if (!set) return fail("libcurl does not take the request");

  const CURLcode done = curl.perform(request.get());
  long error = 0;
  curl.get(request.get(), CURLINFO_OS_ERRNO, &error);
  if (done == CURLE_OPERATION_TIMEDOUT)
    return tl::unexpected(
        Error{fmt::format("no answer within {} ms", post.timeout.count()), ETIMEDOUT});
  if (done == CURLE_COULDNT_CONNECT && error != 0)
    return tl::unexpected(Error{std::strerror(static_cast<int>(error)), static_cast<int>(error)});
  if (done != CURLE_OK)
    return fail("{}", printable(why[0] != '\0' ? why.data() : curl.text_of(done)));
  curl.get(request.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  const char* type = nullptr;
  curl.get(request.get(), CURLINFO_CONTENT_TYPE, &type);
  if (type != nullptr) answer.content_type = type;
  return answer;
}

}  // namespace shadowprof::report
