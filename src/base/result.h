// SPDX-License-Identifier: MIT
//
// Operating errors are values. An Error is one sentence for the user, made where the failure is
// understood; errno is kept for callers that decide by it. Broken invariants are CHECKs (check.h).
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace shadowprof {

struct Error {
  std::string message;  // without the "shadowprof: " prefix and without a final full stop
  int errno_value = 0;  // 0 where no system call failed
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

template <typename... Args>
tl::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(Error{fmt::format(format, std::forward<Args>(args)...), 0});
}

// Appends ": <text of errno>" and keeps the errno.
template <typename... Args>
tl::unexpected<Error> fail_errno(int error, fmt::format_string<Args...> format, Args&&... args) {
  std::string message = fmt::format(format, std::forward<Args>(args)...);
  message += ": ";
  message += std::strerror(error);
  return tl::unexpected(Error{std::move(message), error});
}

}  // namespace shadowprof

#define SP_CONCAT_INNER(a, b) a##b
#define SP_CONCAT(a, b) SP_CONCAT_INNER(a, b)

// Leaves the enclosing function with the error of `expr`, if it has one.
#define SP_TRY(expr)                                                          \
  do {                                                                        \
    if (auto sp_status = (expr); !sp_status)                                  \
      return tl::unexpected(std::move(sp_status.error()));                    \
  } while (0)

// `lhs = value of expr`, or leaves with its error. lhs may declare a variable.
#define SP_ASSIGN(lhs, expr) SP_ASSIGN_NAMED(SP_CONCAT(sp_result_, __LINE__), lhs, expr)
#define SP_ASSIGN_NAMED(name, lhs, expr)                        \
  auto name = (expr);                                           \
  if (!name) return tl::unexpected(std::move(name.error()));    \
  lhs = std::move(*name)
