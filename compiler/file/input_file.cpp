// SPDX-License-Identifier: Apache-2.0
//
// Files by their descriptors, so that what was checked is what is read.

#include "compiler/file/input_file.h"

#include "runtime/abi/regular_file.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <array>
#include <limits>

#include <poll.h>

namespace ashlar::file {
namespace {

constexpr int kPipeSeconds = 10;

llvm::Error cannotRead(llvm::StringRef reason) {
  return llvm::createStringError("cannot be read: " + reason.lower());
}

// Reads a pipe to its end.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readPipe(int descriptor, llvm::StringRef path) {
  std::string text;
  std::array<char, 1 << 16> part;
  while (true) {
    pollfd wait = {descriptor, POLLIN, 0};
    const int ready = poll(&wait, 1, kPipeSeconds * 1000);
    if (ready == 0) {
      return cannotRead("it is a pipe, and nothing came through it for " + std::to_string(kPipeSeconds) + " seconds");
    }
    const ssize_t count = ready < 0 ? -1 : read(descriptor, part.data(), part.size());
    if (count < 0 && errno != EINTR && errno != EAGAIN) {
      return cannotRead(std::strerror(errno));
    }
    if (count == 0) {
      return llvm::MemoryBuffer::getMemBufferCopy(text, path);
    }
    text.append(part.data(), std::max<ssize_t>(count, 0));
    if (text.size() > kMostTextBytes) {
      return cannotRead("it is a pipe with more than " + std::to_string(kMostTextBytes) + " bytes");
    }
  }
}

// Opens a file and gives it to `use(file)`.
template <typename Use>
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> withFile(llvm::StringRef path, uint64_t mostBytes, Pipes pipes, Use use) {
  const rt::OpenedFile file = rt::openRegularFile(path.str(), mostBytes, pipes == Pipes::Taken);
  if (file.descriptor < 0) {
    return cannotRead(file.fault);
  }
  const llvm::scope_exit close([&] { ::close(file.descriptor); });
  if (file.isPipe) {
    return readPipe(file.descriptor, path);
  }
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer = use(file);
  if (!buffer) {
    return cannotRead(buffer.getError().message());
  }
  return std::move(*buffer);
}

} // namespace

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readText(llvm::StringRef path, Pipes pipes) {
  return withFile(path, kMostTextBytes, pipes,
                  [&](const rt::OpenedFile &file) { return llvm::MemoryBuffer::getOpenFile(file.descriptor, path, file.bytes); });
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> mapFile(llvm::StringRef path) {
  return withFile(path, std::numeric_limits<int64_t>::max(), Pipes::Refused, [&](const rt::OpenedFile &file) {
    return llvm::MemoryBuffer::getOpenFile(file.descriptor, path, file.bytes, /*RequiresNullTerminator=*/false);
  });
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> mapPart(llvm::StringRef path, uint64_t offset, uint64_t bytes) {
  return withFile(path, std::numeric_limits<int64_t>::max(), Pipes::Refused, [&](const rt::OpenedFile &file) {
    return llvm::MemoryBuffer::getOpenFileSlice(file.descriptor, path, bytes, static_cast<int64_t>(offset));
  });
}

llvm::Expected<ResolvedPath> resolveBelow(llvm::StringRef folder, llvm::StringRef path) {
  llvm::SmallString<256> joined(folder), above, resolved;
  llvm::sys::path::append(joined, path);
  std::error_code error = llvm::sys::fs::real_path(folder.empty() ? "." : folder, above);
  error = error ? error : llvm::sys::fs::real_path(joined, resolved);
  if (error) {
    return cannotRead(error.message());
  }
  llvm::StringRef rest = resolved;
  const bool isBelow = rest.consume_front(above) && (above == "/" || rest.starts_with("/"));
  return ResolvedPath{resolved.str().str(), isBelow};
}

bool namesBelow(llvm::StringRef path) {
  const auto parts = llvm::make_range(llvm::sys::path::begin(path), llvm::sys::path::end(path));
  return !path.empty() && !path.contains('\0') && !llvm::sys::path::is_absolute(path) && !llvm::is_contained(parts, "..");
}

} // namespace ashlar::file
