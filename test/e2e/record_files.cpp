// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into a program: records what it does to files below the folder RECORD_FOLDER, in order, as lines of RECORD_LOG. What is written
// is kept in RECORD_LOG.data. power_cut.py plays it back.

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::mutex mutex;
std::map<int, std::string> paths; // of open files and folders below the recorded one
FILE *lines = nullptr, *data = nullptr;
long written = 0;

template <typename Function> Function *next(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

// Whether the path is recorded. Opens the log for the first one.
bool isRecorded(const char *path) {
  static const char *const folder = std::getenv("RECORD_FOLDER"), *const log = std::getenv("RECORD_LOG");
  if (folder == nullptr || log == nullptr || std::strncmp(path, folder, std::strlen(folder)) != 0) {
    return false;
  }
  if (lines == nullptr) {
    lines = std::fopen(log, "w");
    data = std::fopen((std::string(log) + ".data").c_str(), "w");
  }
  return true;
}

void record(const std::string &line) {
  std::fputs((line + "\n").c_str(), lines);
  std::fflush(lines);
}

void noteOpen(int descriptor, const char *path, int flags) {
  std::lock_guard<std::mutex> lock(mutex);
  if (descriptor < 0 || !isRecorded(path)) {
    return;
  }
  paths[descriptor] = path;
  if ((flags & O_CREAT) != 0) {
    record(std::string("create ") + path);
  }
}

void noteRename(const char *kind, int result, const char *from, const char *to) {
  std::lock_guard<std::mutex> lock(mutex);
  if (result == 0 && isRecorded(to)) {
    record(std::string(kind) + " " + from + " " + to);
  }
}

void notePath(const char *kind, int result, const char *path) {
  std::lock_guard<std::mutex> lock(mutex);
  if (result == 0 && isRecorded(path)) {
    record(std::string(kind) + " " + path);
  }
}

} // namespace

extern "C" {

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  const int descriptor = next<int(const char *, int, ...)>("open")(path, flags, mode);
  noteOpen(descriptor, path, flags);
  return descriptor;
}

int open64(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  const int descriptor = next<int(const char *, int, ...)>("open64")(path, flags, mode);
  noteOpen(descriptor, path, flags);
  return descriptor;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  const ssize_t result = next<ssize_t(int, const void *, size_t)>("write")(descriptor, bytes, count);
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = paths.find(descriptor);
  if (found != paths.end() && result > 0) {
    std::fwrite(bytes, 1, static_cast<size_t>(result), data);
    std::fflush(data);
    record("write " + found->second + " " + std::to_string(written) + " " + std::to_string(result));
    written += result;
  }
  return result;
}

int fsync(int descriptor) {
  const int result = next<int(int)>("fsync")(descriptor);
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = paths.find(descriptor);
  if (found != paths.end() && result == 0) {
    record("sync " + found->second);
  }
  return result;
}

int close(int descriptor) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    paths.erase(descriptor);
  }
  return next<int(int)>("close")(descriptor);
}

int rename(const char *from, const char *to) {
  const int result = next<int(const char *, const char *)>("rename")(from, to);
  noteRename("rename", result, from, to);
  return result;
}

int renameat2(int fromFolder, const char *from, int toFolder, const char *to, unsigned flags) {
  const int result = next<int(int, const char *, int, const char *, unsigned)>("renameat2")(fromFolder, from, toFolder, to, flags);
  noteRename(flags == RENAME_EXCHANGE ? "exchange" : "rename", result, from, to);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  const int result = next<int(const char *, mode_t)>("mkdir")(path, mode);
  notePath("mkdir", result, path);
  return result;
}
}
