// SPDX-License-Identifier: Apache-2.0
//
// The list and the handlers. A handler may interrupt any allocation, so it calls nothing but the system; it cannot interrupt a change of
// the list, which holds signals back.

#include "compiler/file/cleanup.h"

#include "compiler/file/lost_page.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ashlar::file {
namespace {

// The user's and the system's wish, and a reader of our output that has gone.
constexpr int kEndings[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU};
constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// How often a folder is emptied: a program that ends may still be at its last file.
constexpr int kAttempts = 100;

// A handler must be able to run when the stack is exhausted.
constexpr size_t kStackBytes = 64 << 10;

// `owner`: a process forked from it must not clean up for it.
struct Temporary {
  std::string path;
  pid_t owner;
};

struct Child {
  pid_t process, owner;
};

// Never destroyed: a signal may come while the process ends.
std::vector<Temporary> &temporaries() {
  static auto *list = new std::vector<Temporary>();
  return *list;
}

std::vector<Child> &children() {
  static auto *list = new std::vector<Child>();
  return *list;
}

// Removes the files of a folder. readdir() allocates, so this reads the system's records: {inode, offset, u16 length, u8 type, name}.
void emptyFolder(int folder) {
  constexpr long kLengthAt = 16, kNameAt = 19;
  alignas(8) char records[4096];
  lseek(folder, 0, SEEK_SET);
  for (long bytes; (bytes = syscall(SYS_getdents64, folder, records, sizeof(records))) > 0;) {
    for (long at = 0; at < bytes;) {
      uint16_t length = 0;
      std::memcpy(&length, records + at + kLengthAt, sizeof(length));
      unlinkat(folder, records + at + kNameAt, 0); // "." and ".." refuse
      at += length;
    }
  }
}

void remove(const char *path) {
  if (unlink(path) == 0 || errno == ENOENT) {
    return;
  }
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  for (int attempt = 0; folder >= 0 && attempt < kAttempts; ++attempt) {
    emptyFolder(folder);
    if (rmdir(path) == 0) {
      break;
    }
  }
}

// Ends a program: it has temporary files of its own to remove, so it is asked before it is forced.
void end(pid_t process) {
  constexpr timespec kPause = {0, 10'000'000};
  kill(process, SIGTERM);
  for (int attempt = 0; attempt < kAttempts && waitpid(process, nullptr, WNOHANG) == 0; ++attempt) {
    nanosleep(&kPause, nullptr);
  }
  kill(process, SIGKILL);
}

void onSignal(int number, siginfo_t *info, void *) {
  cleanUp();
  if (number == SIGBUS && info->si_code == BUS_ADRERR) { // a page that its file no longer has
    reportLostPage(info->si_addr);
    _exit(1);
  }
  signal(number, SIG_DFL);
  raise(number); // held back until the handler returns
}

void setHandler(int number) {
  struct sigaction before = {}, action = {};
  sigaction(number, nullptr, &before);
  if (before.sa_handler == SIG_IGN) {
    return; // nohup, or a shell's background job
  }
  action.sa_sigaction = onSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

} // namespace

SignalHold::SignalHold() {
  sigset_t held;
  sigemptyset(&held);
  for (int number : kEndings) {
    sigaddset(&held, number);
  }
  for (int number : kCrashes) { // another process may send one; a crash of this one ends it, held back or not
    sigaddset(&held, number);
  }
  pthread_sigmask(SIG_BLOCK, &held, &before);
}

SignalHold::~SignalHold() {
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void removeAtSignal(const std::string &path) {
  temporaries().push_back({path, getpid()});
}

void keepAtSignal(const std::string &path) {
  auto &list = temporaries();
  list.erase(std::remove_if(list.begin(), list.end(), [&](const Temporary &other) { return other.path == path; }), list.end());
}

void endAtSignal(pid_t child) {
  SignalHold hold;
  children().push_back({child, getpid()});
}

void forgetProcess(pid_t child) {
  SignalHold hold;
  auto &list = children();
  list.erase(std::remove_if(list.begin(), list.end(), [&](const Child &other) { return other.process == child; }), list.end());
}

void cleanUp() {
  for (const Child &child : children()) {
    if (child.owner == getpid()) {
      end(child.process);
    }
  }
  for (const Temporary &temporary : temporaries()) {
    if (temporary.owner == getpid()) {
      remove(temporary.path.c_str());
    }
  }
}

void cleanUpAtSignals() {
  static char stack[kStackBytes];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  sigaltstack(&alternate, nullptr);
  temporaries();
  children();
  for (int number : kEndings) {
    setHandler(number);
  }
  for (int number : kCrashes) {
    setHandler(number);
  }
}

} // namespace ashlar::file
