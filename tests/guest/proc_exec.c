// SPDX-License-Identifier: MIT
//
// Programs that start programs: posix_spawn, system, popen, pipelines, exec of itself with other
// arguments ten times over, exec of a script, failing exec that must leave everything as it was,
// file descriptors, masks and ignored signals that live through exec.
#include <spawn.h>

#include "signals.h"

extern char** environ;

static const int kFaults[] = {SIGTRAP, SIGSEGV, SIGBUS};

static int wait_code(pid_t child) {
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void test_spawn(void) {
  char* const arguments[] = {"sh", "-c", "echo spawned $V; exit 3", NULL};
  char* const environment[] = {"V=value", "PATH=/usr/bin:/bin", NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  for (int i = 0; i < 5; ++i) {
    pid_t child;
    EXPECT(posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environment) == 0);
    printf("posix_spawn %d\n", wait_code(child));
  }
  pid_t child;
  const int error = posix_spawn(&child, "/nonexistent", NULL, NULL, arguments, environ);
  printf("posix_spawn of nothing %d\n", error);
}

static void test_shell(void) {
  printf("system %d\n", WEXITSTATUS(system("echo in a shell; exit 9")));
  int killed = system("kill -9 $$");
  printf("system killed %d\n", WIFSIGNALED(killed) ? WTERMSIG(killed) : 0);
  FILE* pipe_in = popen("seq 1 1000 | awk '{s += $1} END {print s}'", "r");
  EXPECT(pipe_in != NULL);
  char line[100];
  EXPECT(fgets(line, sizeof(line), pipe_in) != NULL);
  printf("popen %d %s", pclose(pipe_in), line);
  FILE* pipe_out = popen("sort -r | tr a-z A-Z", "w");
  EXPECT(pipe_out != NULL);
  fprintf(pipe_out, "alpha\nbeta\ngamma\n");
  printf("popen out %d\n", pclose(pipe_out));
}

// A pipeline of five of our own children, each of which changes every byte.
static void test_pipeline(void) {
  int input = open("/dev/null", O_RDONLY);
  for (int stage = 0; stage <= 5; ++stage) {
    int fds[2];
    EXPECT(pipe(fds) == 0);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      close(fds[0]);
      unsigned char buffer[1000];
      ssize_t size;
      if (stage == 0) {
        for (int i = 0; i < 100; ++i) {
          memset(buffer, i, sizeof(buffer));
          EXPECT(write(fds[1], buffer, sizeof(buffer)) == sizeof(buffer));
        }
        _exit(0);
      }
      while ((size = read(input, buffer, sizeof(buffer))) > 0) {
        for (ssize_t i = 0; i < size; ++i) buffer[i] = (unsigned char)(buffer[i] * 3 + stage);
        EXPECT(write(fds[1], buffer, (size_t)size) == size);
      }
      _exit(0);
    }
    close(fds[1]);
    close(input);
    input = fds[0];
  }
  uint64_t hash = 1, total = 0;
  unsigned char byte[4096];
  ssize_t size;
  while ((size = read(input, byte, sizeof(byte))) > 0) {
    for (ssize_t i = 0; i < size; ++i) hash = mix(hash, byte[i]);
    total += (uint64_t)size;
  }
  int reaped = 0;
  while (wait(NULL) > 0) ++reaped;
  printf("pipeline %llu bytes %016llx, %d children\n", (unsigned long long)total,
         (unsigned long long)hash, reaped);
}

static void test_failing_exec(void) {
  const uint64_t blocked = status_mask("SigBlk");
  for (int i = 0; i < 50; ++i) {
    EXPECT(execl("/nonexistent/x", "x", (char*)NULL) == -1 && errno == ENOENT);
    EXPECT(execl("/", "x", (char*)NULL) == -1 && errno == EACCES);
    EXPECT(execl("/etc/passwd", "x", (char*)NULL) == -1 && errno == EACCES);
  }
  EXPECT(status_mask("SigBlk") == blocked);
  printf("failing exec\n");
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  const int round = argc > 1 ? atoi(argv[1]) : 0;
  if (round == 0) {
    test_failing_exec();
    test_spawn();
    test_shell();
    test_pipeline();
    signal(SIGUSR2, SIG_IGN);
    for (int i = 0; i < 3; i++) signal(kFaults[i], SIG_IGN);
    install(SIGHUP, (SignalHandler*)(uintptr_t)test_shell,
            0);  // a handler does not live through exec
    change_mask(SIG_BLOCK, SIGUSR1);
    EXPECT(dup2(1, 9) == 9);
    EXPECT(fcntl(dup2(1, 10), F_SETFD, FD_CLOEXEC) == 0);
  } else {
    EXPECT(status_mask("SigIgn") >> (SIGUSR2 - 1) & 1);
    for (int i = 0; i < 3; i++) EXPECT(status_mask("SigIgn") >> (kFaults[i] - 1) & 1);
    EXPECT(status_mask("SigBlk") >> (SIGUSR1 - 1) & 1);
    EXPECT(!(status_mask("SigCgt") >> (SIGHUP - 1) & 1));
    EXPECT(fcntl(9, F_GETFD) == 0 && fcntl(10, F_GETFD) == -1);
  }
  printf("round %d: %016llx\n", round, (unsigned long long)burn((uint64_t)round, 3000));
  if (round < 10) {
    char next[12];
    snprintf(next, sizeof(next), "%d", round + 1);
    char* const arguments[] = {argv[0], next, NULL};
    execv("/proc/self/exe", arguments);
    return 1;
  }
  execl("/bin/sh", "sh", "-c", "echo the end; exit 0", (char*)NULL);
  return 1;
}
