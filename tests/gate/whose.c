// SPDX-License-Identifier: MIT
//
// Says whose it is, and whose files are: machine.py runs it with --deterministic.
//
//   whose FILE            what it is told, and what becomes of FILE, which is its own
//   whose --become ID     the same before and after it becomes another user; for root
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* result(long value) { return value < 0 ? strerrorname_np(errno) : "done"; }

static void tell_ids(void) {
  uid_t users[3];
  gid_t groups[3], more[4] = {0};
  printf("user: %u %u, group: %u %u\n", getuid(), geteuid(), getgid(), getegid());
  printf("at the start: %lu %lu %lu %lu\n", getauxval(AT_UID), getauxval(AT_EUID),
         getauxval(AT_GID), getauxval(AT_EGID));
  getresuid(&users[0], &users[1], &users[2]);
  getresgid(&groups[0], &groups[1], &groups[2]);
  printf("saved: %u %u %u, %u %u %u\n", users[0], users[1], users[2], groups[0], groups[1],
         groups[2]);
  printf("into nowhere: %s\n", result(syscall(SYS_getresuid, 8L, 8L, 8L)));
  const int count = getgroups(0, NULL), given = getgroups(4, more);
  printf("groups: %d, %d: %u\n", count, given, more[0]);
  printf("as many as no list has: %s\n", result(syscall(SYS_getgroups, -1, more)));
}

static void tell_owner(const char* name, const struct stat* file) {
  printf("%s: %u %u\n", name, file->st_uid, file->st_gid);
}

static void tell_files(const char* own) {
  struct stat file;
  const int fd = open(own, O_RDONLY), root = open("/", O_RDONLY | O_DIRECTORY);
  printf("stat %s\n", result(syscall(SYS_stat, own, &file)));
  tell_owner("own", &file);
  printf("lstat %s\n", result(syscall(SYS_lstat, "/bin", &file)));
  tell_owner("/bin", &file);
  printf("fstat %s\n", result(syscall(SYS_fstat, fd, &file)));
  tell_owner("own", &file);
  printf("fstatat %s\n", result(fstatat(root, "usr", &file, 0)));
  tell_owner("/usr", &file);
  struct statx more;
  printf("statx %s\n", result(statx(root, "etc", 0, STATX_BASIC_STATS, &more)));
  printf("/etc: %u %u\n", more.stx_uid, more.stx_gid);
  printf("nothing: %s\n", result(syscall(SYS_stat, "/nowhere/at/all", &file)));
  printf("into nowhere: %s\n", result(syscall(SYS_stat, own, 8L)));
  close(fd);
  close(root);
}

// To the user that it is: as far as the program knows nothing changes.
static void give_to_itself(const char* own) {
  const int fd = open(own, O_RDONLY), here = AT_FDCWD;
  const uid_t user = getuid();
  const gid_t group = getgid();
  printf("given: %s", result(chown(own, user, group)));
  printf(" %s", result(lchown(own, user, -1)));
  printf(" %s", result(fchown(fd, -1, group)));
  printf(" %s", result(fchownat(here, own, user, group, AT_SYMLINK_NOFOLLOW)));
  printf(", of nothing: %s\n", result(chown("/nowhere/at/all", user, group)));
  close(fd);
}

static void become_itself(void) {
  const uid_t user = getuid();
  const gid_t group = getgid();
  printf("becomes what it is: %s %s", result(setuid(user)), result(setgid(group)));
  printf(" %s %s", result(setreuid(user, -1)), result(setregid(-1, group)));
  printf(" %s %s", result(setresuid(user, user, -1)), result(setresgid(-1, group, group)));
  printf(" %d %d\n", setfsuid(user), setfsgid(-1));
}

static void tell_child(const char* self, const char* own) {
  fflush(stdout);
  if (fork() == 0) {
    execl(self, self, "--child", own, NULL);
    _exit(1);
  }
  int status = 0;
  wait(&status);
  printf("child: %d\n", status);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    if (argc != 2) return 2;
    tell_ids();
    tell_files(argv[1]);
    give_to_itself(argv[1]);
    become_itself();
    tell_ids();
    tell_child(argv[0], argv[1]);
    return 0;
  }
  tell_ids();
  if (strcmp(argv[1], "--child") == 0) return 0;
  const uid_t other = (uid_t)strtoul(argv[2], NULL, 10);
  printf("becomes another: %s", result(setresgid(other, other, other)));
  printf(" %s\n", result(setresuid(other, other, other)));
  tell_ids();
  tell_child(argv[0], argv[2]);
  return 0;
}
