// SPDX-License-Identifier: MIT
//
// Each probe on this host, and with the system call it needs switched off by a filter, as a
// container would do it.
#include "kernel/features.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <string>

#include "../child_process.h"

using namespace shadowprof::kernel;

namespace {

// From now on `nr` fails with `error`, for this process and its children.
bool forbid(long nr, int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(nr), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{std::size(code), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// What the probe says where `nr` fails. Empty: it says that the feature works.
std::string problem_without(Feature (*probe)(), long nr, int error) {
  int out[2];
  REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
  const int status = shadowprof::test::exit_status_of([&] {
    if (!forbid(nr, error)) return 2;
    const Feature feature = probe();
    const bool consistent = feature.works == feature.problem.empty();
    (void)!::write(out[1], feature.problem.data(), feature.problem.size());
    return consistent ? 0 : 1;
  });
  CHECK(status == 0);
  ::close(out[1]);
  std::string text(4096, '\0');
  const ssize_t got = ::read(out[0], text.data(), text.size());
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  ::close(out[0]);
  return text;
}

}  // namespace

TEST_CASE("everything the profiler needs works where its tests run") {
  const auto features = probe_features();
  CHECK(features.size() == 6);
  for (const Feature& feature : features) {
    CHECK_MESSAGE(feature.works, feature.problem);
    CHECK(feature.problem.empty());
    CHECK_FALSE(feature.name.empty());
    CHECK_FALSE(feature.purpose.empty());
  }
}

TEST_CASE("probes leave no process behind") {
  probe_features();
  CHECK(::waitpid(-1, nullptr, WNOHANG | __WALL) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("a host without ptrace is told what failed and what helps") {
  for (auto* probe : {probe_ptrace, probe_syscall_info, probe_signal_mask}) {
    const std::string problem = problem_without(probe, SYS_ptrace, EPERM);
    CHECK(problem.starts_with("cannot trace a process of our own (PTRACE_SEIZE): "));
    CHECK(problem.find("SYS_PTRACE") != std::string::npos);
  }
}

TEST_CASE("a host without process_vm_readv is told so") {
  const std::string problem = problem_without(probe_process_vm_readv, SYS_process_vm_readv, ENOSYS);
  CHECK(problem.starts_with("cannot read a child's memory in one call (process_vm_readv): "));
  // ptrace itself is not affected.
  CHECK(problem_without(probe_ptrace, SYS_process_vm_readv, ENOSYS).empty());
}

// vm.memfd_noexec forbids to execute such a file, not to map its code (e2e_errors/conditions.py).
TEST_CASE("a host without memfd_create is told so") {
  for (const int error : {ENOSYS, EACCES}) {
    const std::string absent = problem_without(probe_memfd, SYS_memfd_create, error);
    CHECK(absent.find("memfd_create") != std::string::npos);
  }
}

TEST_CASE("a host without a usable proc is told so") {
  CHECK(problem_without(probe_proc, SYS_statfs, ENOENT).find("/proc") != std::string::npos);
  CHECK(problem_without(probe_proc, SYS_readlink, ENOENT).find("namespace") != std::string::npos);
}

TEST_CASE("a host that starts no process is told so") {
  const std::string problem = problem_without(probe_ptrace, SYS_clone, EAGAIN);
  CHECK(problem.starts_with("cannot start a process: "));
}
