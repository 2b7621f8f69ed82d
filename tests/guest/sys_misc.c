// SPDX-License-Identifier: MIT
//
// Everyday system calls whose results a program relies on: names, limits, personality, random
// bytes, epoll, eventfd, sockets, directories, file locks, memory-based files, rseq registration.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>

#include "signals.h"

static void test_identity(void) {
  char name[32];
  EXPECT(prctl(PR_SET_NAME, "renamed") == 0 && prctl(PR_GET_NAME, name) == 0);
  struct utsname system_name;
  EXPECT(uname(&system_name) == 0);
  EXPECT(getpid() > 0 && getppid() > 0 && syscall(SYS_gettid) == getpid());
  EXPECT(getpgrp() == getpgid(0));
  char link[4096], maps[64];
  const ssize_t size = readlink("/proc/self/exe", link, sizeof(link) - 1);
  EXPECT(size > 0);
  link[size] = 0;
  const char* base = strrchr(link, '/');
  const int fd = open("/proc/self/comm", O_RDONLY);
  EXPECT(read(fd, maps, sizeof(maps)) == 8);
  close(fd);
  printf("%s %s %s, personality %x, dumpable %d, no new privileges %d\n", name, system_name.machine,
         strncmp(base + 1, "sys_misc", 8) == 0 ? "sys_misc" : base,
         (unsigned)personality(0xffffffff) & ~(unsigned)ADDR_NO_RANDOMIZE, prctl(PR_GET_DUMPABLE),
         prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  int death_signal = -1;
  EXPECT(prctl(PR_GET_PDEATHSIG, &death_signal) == 0);
  printf("death signal %d, nice %d, policy %d\n", death_signal, getpriority(PRIO_PROCESS, 0),
         sched_getscheduler(0));
  static const int kLimits[] = {RLIMIT_STACK, RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_CORE, RLIMIT_NPROC};
  uint64_t hash = 1;
  for (int i = 0; i < 5; ++i) {
    struct rlimit limit;
    EXPECT(getrlimit(kLimits[i], &limit) == 0);
    hash = mix(mix(hash, limit.rlim_cur), limit.rlim_max);
  }
  printf("limits %016llx\n", (unsigned long long)hash);
}

// The program's own view of its descriptors: none that it did not open.
static void test_descriptors(void) {
  DIR* folder = opendir("/proc/self/fd");
  EXPECT(folder != NULL);
  int numbers[64], count = 0;
  struct dirent* entry;
  while ((entry = readdir(folder)) != NULL)
    if (entry->d_name[0] != '.' && count < 64 && atoi(entry->d_name) != dirfd(folder))
      numbers[count++] = atoi(entry->d_name);
  closedir(folder);
  printf("descriptors");
  for (int i = 0; i < count; ++i) printf(" %d", numbers[i]);
  const int next = dup(0);
  printf(", next is %d\n", next);
  close(next);
}

static void test_random(void) {
  unsigned char a[64], b[64];
  EXPECT(getrandom(a, sizeof(a), 0) == 64 && getrandom(b, sizeof(b), GRND_NONBLOCK) == 64);
  EXPECT(memcmp(a, b, 64) != 0);
}

static void test_events(void) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC), event = eventfd(0, EFD_NONBLOCK);
  EXPECT(epoll >= 0 && event >= 0);
  struct epoll_event interest = {.events = EPOLLIN, .data = {.u64 = 0x1234}}, got[4];
  EXPECT(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &interest) == 0);
  EXPECT(epoll_wait(epoll, got, 4, 10) == 0);
  uint64_t value = 5;
  EXPECT(write(event, &value, 8) == 8 && epoll_wait(epoll, got, 4, -1) == 1);
  EXPECT(got[0].data.u64 == 0x1234 && read(event, &value, 8) == 8 && value == 5);
  EXPECT(read(event, &value, 8) == -1 && errno == EAGAIN);
  close(epoll);
  close(event);
  int pair[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
  char buffer[100] = "packet", space[CMSG_SPACE(sizeof(int))];
  struct iovec part = {buffer, 7};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
  memset(space, 0, sizeof(space));
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
  EXPECT(sendmsg(pair[0], &message, 0) == 7);
  memset(buffer, 0, sizeof(buffer));
  part.iov_len = sizeof(buffer);
  EXPECT(recvmsg(pair[1], &message, 0) == 7 && strcmp(buffer, "packet") == 0);
  EXPECT(CMSG_FIRSTHDR(&message)->cmsg_type == SCM_RIGHTS);
  printf("events and sockets\n");
}

static void test_files(void) {
  EXPECT(mkdir("folder", 0750) == 0);
  const int fd = open("folder/file", O_RDWR | O_CREAT | O_EXCL, 0640);
  EXPECT(fd >= 0 && write(fd, "hello world\n", 12) == 12);
  EXPECT(lseek(fd, 6, SEEK_SET) == 6 && write(fd, "W", 1) == 1);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  EXPECT(fcntl(fd, F_SETLK, &lock) == 0);
  EXPECT(link("folder/file", "folder/second") == 0 && symlink("file", "folder/link") == 0);
  EXPECT(rename("folder/second", "folder/third") == 0);
  struct stat status;
  EXPECT(stat("folder/link", &status) == 0 && status.st_size == 12 && status.st_nlink == 2);
  const int copy = open("folder/copy", O_WRONLY | O_CREAT, 0600);
  off_t offset = 0;
  EXPECT(sendfile(copy, fd, &offset, 100) == 12);
  EXPECT(copy_file_range(fd, &offset, copy, NULL, 10, 0) >= -1);
  close(copy);
  close(fd);
  EXPECT(unlink("folder/third") == 0 && access("folder/third", F_OK) == -1);
  const int memory = memfd_create("memory", MFD_CLOEXEC);
  EXPECT(memory >= 0 && ftruncate(memory, 100) == 0 && fcntl(memory, F_GET_SEALS) == 1);
  close(memory);
  printf("files\n");
}

int main(void) {
  test_descriptors();
  test_identity();
  test_random();
  test_events();
  test_files();
  // Whether restartable sequences are registered is the C library's choice; using the CPU number
  // that they keep must work either way.
  for (int i = 0; i < 1000; ++i) EXPECT(sched_getcpu() >= 0);
  cpu_set_t cpus;
  EXPECT(sched_getaffinity(0, sizeof(cpus), &cpus) == 0);
  printf("cpus %d\n", CPU_COUNT(&cpus));
  return 0;
}
