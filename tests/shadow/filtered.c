// SPDX-License-Identifier: MIT
//
// filtered ACTION SECONDS [WORD...]: computes under a seccomp filter that lets through what it
// needs itself and does ACTION to all other calls: none (no filter), allow, errno, trap,
// kill_thread, kill_process, notify, log, strict (SECCOMP_MODE_STRICT). It makes no other calls, so
// it prints what it would print without a filter, and how often the filter met a call: never.
//
//   until=FILE  ends as soon as FILE, which is mapped, has a byte that is not 0
//   sleeps      sleeps for a while now and then
//   no-restart  restart_syscall is one of the other calls
//   sleeper     another thread sleeps in poll(2), below the same filter
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile unsigned trapped, notified;
static const volatile char no_end = 0;
static const volatile char* is_over = &no_end;
static int listener = -1;

static void on_sigsys(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  trapped++;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

static void* supervise(void* unused) {
  (void)unused;
  while (listener < 0) usleep(1000);
  for (;;) {
    struct seccomp_notif call = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) continue;
    notified++;
    struct seccomp_notif_resp answer = {.id = call.id, .error = -EPERM};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
  return NULL;
}

static volatile int has_begun;  // the other thread: what it does from now on the filter allows

static void* sleep_long(void* unused) {
  (void)unused;
  has_begun = 1;
  poll(NULL, 0, 3600 * 1000);
  return NULL;
}

static unsigned action_of(const char* name) {
  static const struct {
    const char* name;
    unsigned action;
  } kActions[] = {
      {"allow", SECCOMP_RET_ALLOW},
      {"errno", SECCOMP_RET_ERRNO | EPERM},
      {"trap", SECCOMP_RET_TRAP},
      {"kill_thread", SECCOMP_RET_KILL_THREAD},
      {"kill_process", SECCOMP_RET_KILL_PROCESS},
      {"notify", SECCOMP_RET_USER_NOTIF},
      {"log", SECCOMP_RET_LOG},
  };
  for (size_t i = 0; i < sizeof kActions / sizeof kActions[0]; i++) {
    if (strcmp(name, kActions[i].name) == 0) return kActions[i].action;
  }
  fprintf(stderr, "no such action: %s\n", name);
  exit(2);
}

#define ALLOW(nr)                                     \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void install(unsigned action, int may_restart, int all_threads) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(SYS_write),
      ALLOW(SYS_clock_nanosleep),
      ALLOW(SYS_clock_gettime),
      ALLOW(SYS_poll),
      ALLOW(SYS_exit_group),
      ALLOW(SYS_rt_sigreturn),
      ALLOW(may_restart ? SYS_restart_syscall : SYS_exit_group),
      BPF_STMT(BPF_RET | BPF_K, action),
  };
  const struct sock_fprog program = {sizeof code / sizeof code[0], code};
  unsigned long flags = all_threads ? SECCOMP_FILTER_FLAG_TSYNC : 0;
  if (action == SECCOMP_RET_USER_NOTIF) flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const long done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (done < 0) {
    perror("seccomp");
    exit(2);
  }
  if (action == SECCOMP_RET_USER_NOTIF) listener = (int)done;
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

__attribute__((noinline)) static unsigned long compute(unsigned long x) {
  for (int i = 0; i < 100000; i++) x = x * 6364136223846793005ul + 1442695040888963407ul;
  return x;
}

static void say(const char* text) {
  if (write(1, text, strlen(text)) < 0) _exit(3);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int is_strict = strcmp(argv[1], "strict") == 0;
  int sleeps = 0, may_restart = 1, sleeper = 0;
  for (int i = 3; i < argc; i++) {
    sleeps |= strcmp(argv[i], "sleeps") == 0;
    sleeper |= strcmp(argv[i], "sleeper") == 0;
    if (strcmp(argv[i], "no-restart") == 0) may_restart = 0;
    if (strncmp(argv[i], "until=", 6) == 0) {
      const int file = open(argv[i] + 6, O_RDONLY);
      const void* mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
      if (mapped == MAP_FAILED) return 2;
      is_over = mapped;
    }
  }
  struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSYS, &action, NULL);
  pthread_t thread;
  if (strcmp(argv[1], "notify") == 0) pthread_create(&thread, NULL, supervise, NULL);
  if (sleeper) {
    pthread_create(&thread, NULL, sleep_long, NULL);
    while (!has_begun) usleep(1000);
  }
  const double begun = now_s(), seconds = atof(argv[2]);
  unsigned long x = 1;
  if (is_strict) {
    // It may not even read the clock: the kernel forbids it rdtsc.
    unsigned long rounds = 0;
    const double trial = 0.1;
    for (; now_s() - begun < trial; rounds++) x = compute(x);
    rounds = (unsigned long)((double)rounds * seconds / trial);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    say("ready\n");
    for (; rounds != 0 && !*is_over; rounds--) x = compute(x);
    say(x != 0 ? "done\n" : "done 0\n");
    syscall(SYS_exit, 0);
  } else if (strcmp(argv[1], "none") != 0) {
    install(action_of(argv[1]), may_restart, sleeper);
  }
  say("ready\n");
  const struct timespec nap = {0, 2000000};
  while (!*is_over && now_s() - begun < seconds) {
    x = compute(x);
    if (sleeps) clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
  }
  say(trapped == 0 ? "not trapped\n" : "trapped\n");
  say(notified == 0 ? "not notified\n" : "notified\n");
  say(x != 0 ? "done\n" : "done 0\n");
  _exit(0);
}
