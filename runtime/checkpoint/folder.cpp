// SPDX-License-Identifier: Apache-2.0

#include "runtime/checkpoint/folder.h"

#include "runtime/base/directories.h"
#include "runtime/base/output_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {

namespace {

namespace fs = std::filesystem;

bool readNumber(std::string_view text, uint64_t &number) {
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && text[0] != '0' && result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

Status cannot(const char *what, const std::string &path, int error) {
  return unavailable("cannot {} {}: {}", what, path, std::strerror(error));
}

// Makes what was renamed or created in the folder last.
Status syncFolder(const std::string &path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return cannot("open", path, errno);
  }
  const int result = fsync(descriptor), error = errno;
  close(descriptor);
  return result == 0 || error == EINVAL ? Status() : cannot("sync", path, error); // EINVAL: a file system without such a thing
}

Status removeFolder(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? unavailable("cannot remove {}: {}", path, error.message()) : Status();
}

constexpr const char *kPartial = ".partial", *kRemoved = ".removed";

} // namespace

bool readCheckpointName(const std::string &name, CheckpointName &read) {
  const size_t dash = name.rfind('-'), cut = name.find('_', dash == std::string::npos ? 0 : dash);
  if (dash == std::string::npos || cut == std::string::npos) {
    return false;
  }
  const std::string_view text = name;
  read.name = name;
  read.prefix = name.substr(0, dash);
  return readNumber(text.substr(dash + 1, cut - dash - 1), read.epoch) && readNumber(text.substr(cut + 1), read.step);
}

Status listNames(const std::string &directory, std::vector<CheckpointName> &found) {
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(directory, error)) {
    CheckpointName read;
    if (readCheckpointName(entry.path().filename().string(), read)) {
      found.push_back(std::move(read));
    }
  }
  return error ? unavailable("cannot list {}: {}", directory, error.message()) : Status();
}

Status listCheckpoints(const std::string &directory, std::vector<CheckpointName> &found) {
  const Status listed = listNames(directory, found);
  for (CheckpointName &each : found) {
    uint64_t number = 0;
    each.number = readNumber(directory + "/" + each.name, number) ? std::optional(number) : std::nullopt;
  }
  std::sort(found.begin(), found.end(), [](const CheckpointName &a, const CheckpointName &b) {
    const uint64_t first = a.number.value_or(UINT64_MAX), second = b.number.value_or(UINT64_MAX);
    return std::tie(second, b.epoch, b.step, a.prefix) < std::tie(first, a.epoch, a.step, b.prefix);
  });
  return listed;
}

std::string CheckpointFolder::name(uint64_t epoch, uint64_t step) const {
  return fmt::format("{}-{}_{}", prefix, epoch, step);
}

std::string CheckpointFolder::place(const std::string &name) const {
  return directory + "/" + name;
}

std::string CheckpointFolder::partial(const std::string &name) const {
  return directory + "/." + name + kPartial;
}

std::string CheckpointFolder::rankFile(uint64_t rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

Status CheckpointFolder::make() const {
  ASHLAR_RETURN_IF_ERROR(makeDirectories(directory));
  if (!fs::is_directory(directory)) {
    return invalid("cannot write checkpoints into {}: it is there and no folder; name another --checkpoint-dir", directory);
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    return cannot("write checkpoints into", directory, errno);
  }
  return Status();
}

Status CheckpointFolder::prepare(FolderLock &lock) const {
  ASHLAR_RETURN_IF_ERROR(make());
  ASHLAR_RETURN_IF_ERROR(lock.take(directory, prefix));
  std::error_code error;
  std::vector<std::string> left;
  for (const fs::directory_entry &entry : fs::directory_iterator(directory, error)) {
    const std::string file = entry.path().filename().string();
    for (const char *end : {kPartial, kRemoved}) {
      CheckpointName read;
      if (file[0] == '.' && endsWith(file, end) && readCheckpointName(file.substr(1, file.size() - 1 - std::strlen(end)), read) &&
          read.prefix == prefix) {
        left.push_back(entry.path().string());
      }
    }
  }
  for (const std::string &path : left) {
    ASHLAR_RETURN_IF_ERROR(removeFolder(path));
  }
  return error ? unavailable("cannot list {}: {}", directory, error.message()) : Status();
}

Status CheckpointFolder::begin(const std::string &name) const {
  const std::string path = partial(name);
  ASHLAR_RETURN_IF_ERROR(removeFolder(path));
  return mkdir(path.c_str(), 0777) == 0 ? Status() : cannot("make", path, errno);
}

Status CheckpointFolder::commit(const std::string &name, const CheckpointIndex &index) const {
  const std::string from = partial(name), to = place(name), text = writeIndex(index);
  OutputFile file;
  ASHLAR_RETURN_IF_ERROR(file.create(from + "/" + kIndexFile));
  ASHLAR_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  ASHLAR_RETURN_IF_ERROR(file.sync());
  ASHLAR_RETURN_IF_ERROR(file.commit());
  ASHLAR_RETURN_IF_ERROR(syncFolder(from));
  // A checkpoint of the same step, of a run that went on from an earlier one, is exchanged: at no time there is none.
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    ASHLAR_RETURN_IF_ERROR(syncFolder(directory));
    return removeFolder(from);
  }
  if (errno != ENOENT && errno != EINVAL && errno != ENOSYS) {
    return cannot("rename to", to, errno);
  }
  // A file system that cannot exchange: the older one makes room.
  const std::string aside = directory + "/." + name + kRemoved;
  if (std::rename(to.c_str(), aside.c_str()) != 0 && errno != ENOENT) {
    return cannot("rename", to, errno);
  }
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return cannot("rename to", to, errno);
  }
  ASHLAR_RETURN_IF_ERROR(syncFolder(directory));
  return removeFolder(aside);
}

void CheckpointFolder::discard(const std::string &name) const {
  (void)removeFolder(partial(name)).ok(); // what is left the next run removes
}

Status CheckpointFolder::removeOld(uint64_t keep) const {
  if (keep == 0) {
    return Status();
  }
  std::vector<CheckpointName> own = listOwn();
  std::rotate(own.begin(), std::find_if(own.begin(), own.end(), [](const CheckpointName &each) { return each.number.has_value(); }),
              own.end());
  for (size_t i = keep; i < own.size(); ++i) {
    // Without its name it is no checkpoint, however far the removal gets.
    const std::string from = place(own[i].name), aside = directory + "/." + own[i].name + kRemoved;
    if (std::rename(from.c_str(), aside.c_str()) != 0) {
      return cannot("rename", from, errno);
    }
    ASHLAR_RETURN_IF_ERROR(removeFolder(aside));
  }
  return Status();
}

uint64_t CheckpointFolder::nextNumber() const {
  std::vector<CheckpointName> found;
  (void)listCheckpoints(directory, found).ok(); // where there is nothing, there is no checkpoint
  uint64_t most = 0;
  for (const CheckpointName &read : found) {
    most = std::max(most, read.number.value_or(0));
  }
  return most + 1;
}

std::vector<CheckpointName> CheckpointFolder::listOwn() const {
  std::vector<CheckpointName> found;
  (void)listCheckpoints(directory, found).ok();
  found.erase(std::remove_if(found.begin(), found.end(), [&](const CheckpointName &each) { return each.prefix != prefix; }), found.end());
  return found;
}

std::vector<std::string> CheckpointFolder::list() const {
  std::vector<std::string> names;
  for (const CheckpointName &read : listOwn()) {
    names.push_back(read.name);
  }
  return names;
}

std::string CheckpointFolder::findLatest(CheckpointIndex &index, std::vector<std::string> &passedOver) const {
  for (const std::string &name : list()) {
    const Status whole = readIndex(place(name), index);
    if (whole.ok()) {
      return place(name);
    }
    passedOver.push_back(fmt::format("{}: {}", place(name), whole.message()));
  }
  return "";
}

} // namespace ashlar::rt
