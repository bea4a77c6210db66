// SPDX-License-Identifier: Apache-2.0
//
// Looks the address up in /proc/self/maps, whose lines are "from-to modes offset device inode    name", the numbers in hex.

#include "compiler/file/lost_page.h"

#include <climits>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace ashlar::file {
namespace {

// Splits what a descriptor holds into lines, without allocating; longer lines than any name needs are cut.
class Lines {
public:
  explicit Lines(int descriptor) : descriptor(descriptor) {}

  // Reads the next line, zero-terminated; null at the end.
  const char *next() {
    size_t length = 0;
    for (;; ++at) {
      if (at == end) {
        end = read(descriptor, buffer, sizeof(buffer));
        at = 0;
        if (end <= 0) {
          return nullptr;
        }
      }
      if (buffer[at] == '\n') {
        ++at;
        line[length] = '\0';
        return line;
      }
      if (length + 1 < sizeof(line)) {
        line[length++] = buffer[at];
      }
    }
  }

private:
  int descriptor;
  ssize_t at = 0, end = 0;
  char buffer[1024];
  char line[PATH_MAX + 128];
};

// Reads a hexadecimal number and what stands behind it.
uintptr_t takeNumber(const char *&text) {
  uintptr_t value = 0;
  for (; *text != '\0'; ++text) {
    const char *digits = "0123456789abcdef", *digit = std::strchr(digits, *text);
    if (digit == nullptr) {
      ++text;
      break;
    }
    value = value * 16 + static_cast<uintptr_t>(digit - digits);
  }
  return value;
}

void print(const char *text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) {
    return; // there is nobody left to tell
  }
}

} // namespace

void reportLostPage(const void *address) {
  Lines maps(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  const auto place = reinterpret_cast<uintptr_t>(address);
  const char *name = nullptr;
  while (const char *line = maps.next()) {
    const char *text = line;
    const uintptr_t begin = takeNumber(text), end = takeNumber(text);
    if (place >= begin && place < end) {
      name = std::strchr(line, '/');
      break;
    }
  }
  print("error: ");
  print(name != nullptr ? name : "a mapped file");
  print(" was cut, or cannot be read, while it was used; leave it alone during a compilation\n");
}

} // namespace ashlar::file
