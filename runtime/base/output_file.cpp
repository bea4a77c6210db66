// SPDX-License-Identifier: Apache-2.0
//
// Output by a fresh name and rename(). The names that a signal has to remove are on a list that only grows and whose entries do not change
// but for a flag, so that a handler can walk it whatever it interrupts. A name is on the list before its file exists, which is why it is
// made here and not by mkostemp().

#include "runtime/base/output_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {

// One temporary name.
struct PendingOutput {
  std::string name;
  std::atomic<bool> exists{true};
  PendingOutput *next = nullptr;
};

namespace {

std::atomic<PendingOutput *> pendingOutputs{nullptr};

} // namespace

void removePendingOutputs() {
  for (PendingOutput *output = pendingOutputs.load(); output != nullptr; output = output->next) {
    if (output->exists.load()) {
      unlink(output->name.c_str());
    }
  }
}

namespace {

void onSignal(int number) {
  removePendingOutputs();
  std::signal(number, SIG_DFL);
  raise(number);
}

// Has the signals that end a process remove what is pending first. One that is ignored, or that a library handles, stays as it is.
void cleanUpAtSignals() {
  for (int number : {SIGHUP, SIGINT, SIGTERM, SIGPIPE}) {
    struct sigaction before = {};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) {
      std::signal(number, onSignal);
    }
  }
}

PendingOutput *addPending(std::string name) {
  static const bool installed = (cleanUpAtSignals(), true);
  (void)installed;
  auto *output = new PendingOutput();
  output->name = std::move(name);
  output->next = pendingOutputs.load();
  while (!pendingOutputs.compare_exchange_weak(output->next, output)) {
  }
  return output;
}

// "logs/" of "logs/x.npy"; "" when there is none.
std::string folderOf(const std::string &path) {
  return path.substr(0, path.rfind('/') + 1); // npos + 1 == 0
}

Status cannotWrite(const std::string &path, int error) {
  return unavailable("cannot write {}: {}", path, std::strerror(error));
}

// What is at a place where a file shall be.
enum class Place { kFree, kRegular, kStream, kSymlink, kOther };

Place placeOf(const std::string &path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) {
    return Place::kFree; // or creating the file will say what is wrong
  }
  return S_ISLNK(info.st_mode)                             ? Place::kSymlink
         : S_ISREG(info.st_mode)                           ? Place::kRegular
         : S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode) ? Place::kStream
                                                           : Place::kOther;
}

// write(), but a pipe without a reader is EPIPE alone.
ssize_t writeWithoutSignal(int descriptor, const char *data, size_t bytes) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t count = ::write(descriptor, data, bytes);
  const int reason = errno;
  if (count < 0 && reason == EPIPE) {
    const struct timespec now = {};
    sigtimedwait(&pipe, nullptr, &now); // the signal of this write
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return count;
}

Status refuse(const std::string &path, Place place) {
  return place == Place::kSymlink ? invalid("cannot write {}: it is a symbolic link; name the file itself", path)
                                  : invalid("cannot write {}: it is there and not a regular file", path);
}

} // namespace

// Checks what is at the place of an output.
static Status checkPlace(const std::string &path) {
  const Place there = placeOf(path);
  return there == Place::kFree || there == Place::kRegular ? Status() : refuse(path, there);
}

Status checkFiles(const FileRoles &files) {
  return files.fault().empty() ? Status() : invalid("{}", files.fault());
}

Status checkOutput(const std::string &path) {
  ASHLAR_RETURN_IF_ERROR(checkPlace(path));
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0 && errno != ENOENT) { // a name that is too long, a file for a folder
    return cannotWrite(path, errno);
  }
  const std::string folder = folderOf(path);
  return access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0 ? Status() : cannotWrite(path, errno);
}

OutputFile::OutputFile(OutputFile &&other) noexcept {
  *this = std::move(other);
}

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(pending, other.pending);
  std::swap(descriptor, other.descriptor);
  std::swap(written, other.written);
  std::swap(error, other.error);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (pending != nullptr) {
    unlink(pending->name.c_str());
    pending->exists = false;
  }
}

Status OutputFile::begin(const std::string &place) {
  path = place;
  while (true) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
      return cannotWrite(path, errno);
    }
    pending = addPending(fmt::format("{}.ashlar-{:016x}", folderOf(path), random));
    descriptor = open(pending->name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      return Status();
    }
    int reason = errno;
    pending->exists = false;
    pending = nullptr;
    if (reason != EEXIST) {
      return cannotWrite(path, reason);
    }
  }
}

Status OutputFile::create(const std::string &place) {
  ASHLAR_RETURN_IF_ERROR(checkPlace(place));
  return begin(place);
}

Status OutputFile::createLog(const std::string &place, const Keeps &keeps) {
  Place there = placeOf(place);
  if (there == Place::kStream) {
    path = place;
    descriptor = open(place.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    return descriptor >= 0 ? Status() : cannotWrite(path, errno);
  }
  ASHLAR_RETURN_IF_ERROR(create(place));
  ASHLAR_RETURN_IF_ERROR(keeps && there == Place::kRegular ? copyLines(keeps) : Status());
  return rename();
}

Status OutputFile::copyLines(const Keeps &keeps) {
  std::ifstream earlier(path);
  for (std::string line; std::getline(earlier, line) && !earlier.eof();) { // the end of a file cuts a line
    if (keeps(line)) {
      line += '\n';
      ASHLAR_RETURN_IF_ERROR(write(line.data(), line.size()));
    }
  }
  return earlier.eof() ? Status() : unavailable("cannot read {}, which the run continues: {}", path, std::strerror(errno));
}

Status OutputFile::write(const void *data, size_t bytes) {
  const char *from = static_cast<const char *>(data), *const end = from + bytes;
  while (from != end && error == 0) {
    const ssize_t count = writeWithoutSignal(descriptor, from, static_cast<size_t>(end - from));
    from += std::max<ssize_t>(count, 0);
    error = count >= 0 || errno == EINTR ? 0 : errno;
  }
  if (from == end) {
    written += bytes;
  } else if (ftruncate(descriptor, static_cast<off_t>(written)) != 0) {
    // A pipe keeps the part that it took.
  }
  return error == 0 ? Status() : cannotWrite(path, error);
}

Status OutputFile::sync() {
  if (error == 0 && fsync(descriptor) != 0 && errno != EINVAL) { // EINVAL: a pipe, or a device
    error = errno;
  }
  return error == 0 ? Status() : cannotWrite(path, error);
}

Status OutputFile::close() {
  if (descriptor < 0) {
    return Status();
  }
  if (::close(std::exchange(descriptor, -1)) != 0 && error == 0) { // a file server may tell of a full disk only now
    error = errno;
  }
  return error == 0 ? Status() : cannotWrite(path, error);
}

Status OutputFile::rename() {
  if (std::rename(pending->name.c_str(), path.c_str()) != 0) {
    return cannotWrite(path, errno);
  }
  pending->exists = false;
  pending = nullptr;
  return Status();
}

Status OutputFile::commit() {
  ASHLAR_RETURN_IF_ERROR(close());
  return rename();
}

} // namespace ashlar::rt
