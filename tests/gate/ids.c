// SPDX-License-Identifier: MIT
//
// Says which ids it, its thread and its children have, and whether the kernel uses the same ones:
// machine.py runs it with --deterministic.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* result(long value) { return value < 0 ? strerrorname_np(errno) : "done"; }

static void* tell_thread(void* of) {
  printf("%s thread: %d of %d\n", (const char*)of, gettid(), getpid());
  return NULL;
}

static void begin_thread(const char* of) {
  pthread_t thread;
  pthread_create(&thread, NULL, tell_thread, (void*)of);
  pthread_join(thread, NULL);
}

static void tell_proc(int pid) {
  char path[64], self[64] = "none";
  snprintf(path, sizeof path, "/proc/%d/task/%d/comm", pid, pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  printf("in /proc: %s", result(file));
  close(file);
  const long length = readlink("/proc/self", self, sizeof self - 1);
  printf(", self %.*s\n", (int)length, self);
}

static void tell_processes(void) {
  DIR* all = opendir("/proc");
  printf("all:");
  for (struct dirent* one; all && (one = readdir(all)) != NULL;)
    if (atoi(one->d_name) > 0) printf(" %s", one->d_name);
  printf("\n");
  if (all) closedir(all);
}

static void tell_child(void) {
  fflush(stdout);
  const int child = fork();
  if (child == 0) {
    printf("child: %d of %d\n", getpid(), getppid());
    begin_thread("child's");
    fflush(stdout);
    raise(SIGSTOP);
    _exit(7);
  }
  int status = 0;
  siginfo_t info = {0};
  waitpid(child, &status, WUNTRACED);
  printf("there: %s, group %d\n", result(kill(child, 0)), getpgid(child));
  kill(child, SIGCONT);
  waitid(P_ALL, 0, &info, WEXITED);
  printf("waited for: %d %d with %d\n", child, info.si_pid, info.si_status);
  printf("gone: %s\n", result(kill(child, 0)));
}

static volatile sig_atomic_t sender;

static void note(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)context;
  sender = info->si_pid;
}

// A grandchild that is left alone has the first process as its parent, which takes its end.
static void tell_orphan(void) {
  int ends[2];
  if (pipe(ends) != 0) exit(1);
  fflush(stdout);
  const int child = fork();
  if (child == 0) {
    const int parent = getpid();
    if (fork() > 0) _exit(0);
    while (getppid() == parent) usleep(1000);
    dprintf(ends[1], "orphan: %d of %d\n", getpid(), getppid());
    _exit(0);
  }
  waitpid(child, NULL, 0);
  close(ends[1]);
  char line[64] = "";
  while (read(ends[0], line + strlen(line), sizeof line - 1 - strlen(line)) > 0) continue;
  printf("%s", line);
  close(ends[0]);
}

// A debugger knows the child by the number that fork has returned.
static void tell_debugged(void) {
  int ends[2], status = 0;
  char byte;
  if (pipe(ends) != 0) return;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    _exit(read(ends[0], &byte, 1) == 0 ? 8 : 9);
  }
  printf("debugged: %s", result(ptrace(PTRACE_SEIZE, child, 0, 0)));
  printf(" %s", result(ptrace(PTRACE_INTERRUPT, child, 0, 0)));
  const int stopped = waitpid(child, &status, __WALL) == child && WIFSTOPPED(status);
  close(ends[0]);
  close(ends[1]);
  printf(", stopped %d, %s", stopped, result(ptrace(PTRACE_CONT, child, 0, 0)));
  waitpid(child, &status, __WALL);
  printf(", ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(void) {
  printf("program: %d %d of %d, getpgrp %d, getsid %d\n", getpid(), gettid(), getppid(), getpgrp(),
         getsid(0));
  begin_thread("its");
  tell_proc(getpid());
  tell_child();
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
  sigaction(SIGUSR1, &action, NULL);
  kill(getpid(), SIGUSR1);
  printf("signalled by: %d\n", (int)sender);
  tell_processes();
  tell_orphan();
  printf("a group of its own: %s", result(setpgid(0, 0)));
  printf(", %d\n", getpgrp());
  tell_debugged();
  return 0;
}
