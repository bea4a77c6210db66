// SPDX-License-Identifier: Apache-2.0
//
// Reads the directory of an archive from its end, and its members.

#include "runtime/data/formats/zip.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <zlib.h>

namespace ashlar::rt {

namespace {

constexpr uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr uint32_t kEntryMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint64_t kMostComment = 65535, kMostMembers = 1 << 20;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kEncryptedFlag = 1, kZip64Field = 1;
// Deflate makes at most 1032 bytes of one.
constexpr uint64_t kMostGrowth = 1032;

// Little-endian numbers anywhere in the archive.
template <typename T> T numberAt(const char *bytes) {
  T number;
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

// Where the directory of an archive lies.
struct ZipDirectory {
  uint64_t offset = 0, bytes = 0, members = 0;
};

// Finds the record at the end, behind which only a comment may stand.
const char *findEnd(const MappedFile &file) {
  if (file.size() < kEndBytes) {
    return nullptr;
  }
  const uint64_t last = file.size() - kEndBytes, first = last > kMostComment ? last - kMostComment : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    const char *record = file.data() + at;
    if (numberAt<uint32_t>(record) == kEndMagic && at + kEndBytes + numberAt<uint16_t>(record + 20) == file.size()) {
      return record;
    }
  }
  return nullptr;
}

// Reads the record at the end, or that of zip64 in front of it where a number needs more bits. Returns the fault, "" for none.
std::string findDirectory(const MappedFile &file, ZipDirectory &directory) {
  const char *end = findEnd(file);
  if (!end) {
    return "is not a .npz file, or truncated: no directory of a zip archive is at its end; copy it again";
  }
  directory = {numberAt<uint32_t>(end + 16), numberAt<uint32_t>(end + 12), numberAt<uint16_t>(end + 10)};
  uint64_t behind = end - file.data(), disks = numberAt<uint16_t>(end + 4) + numberAt<uint16_t>(end + 6);
  const bool isLarge = directory.offset == UINT32_MAX || directory.bytes == UINT32_MAX || directory.members == UINT16_MAX;
  if (isLarge && behind >= kLocator64Bytes && numberAt<uint32_t>(end - kLocator64Bytes) == kLocator64Magic) {
    const uint64_t at = numberAt<uint64_t>(end - kLocator64Bytes + 8);
    if (at > behind || behind - at < kEnd64Bytes + kLocator64Bytes || numberAt<uint32_t>(file.data() + at) != kEnd64Magic) {
      return "is damaged: the end record of zip64 is not where its locator points; copy it again";
    }
    const char *record = file.data() + at;
    directory = {numberAt<uint64_t>(record + 48), numberAt<uint64_t>(record + 40), numberAt<uint64_t>(record + 32)};
    disks = numberAt<uint32_t>(record + 16) + numberAt<uint32_t>(record + 20);
    behind = at;
  }
  if (disks != 0) {
    return "is a part of a zip archive of several disks; use numpy.savez";
  }
  if (directory.offset > behind || directory.bytes > behind - directory.offset || directory.members > directory.bytes / kEntryBytes ||
      directory.members > kMostMembers) {
    return fmt::format("is damaged: its directory of {} members has {} bytes from byte {} on, but the file has {}; copy it again",
                       directory.members, directory.bytes, directory.offset, file.size());
  }
  return "";
}

// Takes the numbers of zip64's extra field, which are there in this order where the short ones are full.
bool widenNumbers(const char *extra, uint64_t bytes, std::initializer_list<uint64_t *> numbers) {
  while (bytes >= 4) {
    const uint16_t field = numberAt<uint16_t>(extra);
    const uint64_t length = numberAt<uint16_t>(extra + 2);
    if (length > bytes - 4) {
      return false;
    }
    uint64_t at = 4;
    for (uint64_t *number : numbers) {
      if (field == kZip64Field && *number == UINT32_MAX) {
        if (at + 8 > length + 4) {
          return false;
        }
        *number = numberAt<uint64_t>(extra + at);
        at += 8;
      }
    }
    extra += 4 + length;
    bytes -= 4 + length;
  }
  return true;
}

} // namespace

Status ZipFile::open(const std::string &path, ZipFile &file) {
  ZipFile opened;
  opened.filePath = path;
  ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, opened.mapping));
  ASHLAR_RETURN_IF_ERROR(opened.readDirectory());
  file = std::move(opened);
  return {};
}

Status ZipFile::readDirectory() {
  ZipDirectory directory;
  if (std::string fault = findDirectory(mapping, directory); !fault.empty()) {
    return invalid("\"{}\" {}", filePath, fault);
  }
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.members; ++i) {
    ASHLAR_RETURN_IF_ERROR(readEntry(at, directory.offset + directory.bytes));
  }
  // In the order of their places each begins behind the one before: no byte is two members'.
  std::vector<size_t> order(allMembers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return headerOffsets[a] < headerOffsets[b]; });
  uint64_t end = 0;
  const ZipMember *before = nullptr;
  for (size_t i : order) {
    ZipMember &member = allMembers[i];
    if (headerOffsets[i] < end) {
      return invalid("\"{}\" is damaged: its members \"{}\" and \"{}\" overlap; write it again", filePath, before->name, member.name);
    }
    ASHLAR_RETURN_IF_ERROR(locate(member, headerOffsets[i], directory.offset, end));
    before = &member;
  }
  return mapping.check();
}

// Reads an entry of the directory, which ends at `end`.
Status ZipFile::readEntry(uint64_t &at, uint64_t end) {
  const char *entry = mapping.data() + at;
  const bool isThere = end - at >= kEntryBytes && numberAt<uint32_t>(entry) == kEntryMagic;
  const uint64_t nameBytes = isThere ? numberAt<uint16_t>(entry + 28) : 0, extraBytes = isThere ? numberAt<uint16_t>(entry + 30) : 0;
  const uint64_t bytes = kEntryBytes + nameBytes + extraBytes + (isThere ? numberAt<uint16_t>(entry + 32) : 0);
  ZipMember member;
  member.storedBytes = isThere ? numberAt<uint32_t>(entry + 20) : 0;
  member.bytes = isThere ? numberAt<uint32_t>(entry + 24) : 0;
  uint64_t headerOffset = isThere ? numberAt<uint32_t>(entry + 42) : 0;
  if (!isThere || bytes > end - at ||
      !widenNumbers(entry + kEntryBytes + nameBytes, extraBytes, {&member.bytes, &member.storedBytes, &headerOffset})) {
    return invalid("\"{}\" is damaged: entry {} of its directory is malformed; copy it again", filePath, allMembers.size() + 1);
  }
  member.name.assign(entry + kEntryBytes, nameBytes);
  const uint16_t method = numberAt<uint16_t>(entry + 10);
  if ((numberAt<uint16_t>(entry + 8) & kEncryptedFlag) != 0 || (method != kStored && method != kDeflated)) {
    return invalid("member \"{}\" of \"{}\" is encrypted or of compression method {}; numpy writes methods 0 and 8", member.name, filePath,
                   method);
  }
  member.isDeflated = method == kDeflated;
  member.checksum = numberAt<uint32_t>(entry + 16);
  if (std::any_of(allMembers.begin(), allMembers.end(), [&](const ZipMember &other) { return other.name == member.name; })) {
    return invalid("\"{}\" has two members \"{}\"; write it again", filePath, member.name);
  }
  const bool grows = member.isDeflated ? member.bytes / kMostGrowth > member.storedBytes : member.bytes != member.storedBytes;
  if (grows) {
    return invalid("member \"{}\" of \"{}\" announces {} bytes out of {}, which no such member can hold; copy it again", member.name,
                   filePath, member.bytes, member.storedBytes);
  }
  allMembers.push_back(std::move(member));
  headerOffsets.push_back(headerOffset);
  at += bytes;
  return {};
}

// Finds the stored bytes behind a member's own header, which lies in front of the directory. `end`: behind them.
Status ZipFile::locate(ZipMember &member, uint64_t headerOffset, uint64_t directory, uint64_t &end) const {
  const bool isInside = headerOffset <= directory && directory - headerOffset >= kLocalBytes;
  const char *header = mapping.data() + headerOffset;
  if (isInside && numberAt<uint32_t>(header) == kLocalMagic) {
    member.offset = headerOffset + kLocalBytes + numberAt<uint16_t>(header + 26) + numberAt<uint16_t>(header + 28);
    if (member.offset <= directory && member.storedBytes <= directory - member.offset) {
      end = member.offset + member.storedBytes;
      return {};
    }
  }
  return invalid("\"{}\" is damaged: member \"{}\" has {} bytes from byte {} on, but the directory begins at byte {}; copy it again",
                 filePath, member.name, member.storedBytes, headerOffset, directory);
}

Status ZipFile::read(const ZipMember &member, std::vector<char> &inflated, const char *&bytes) const {
  inflated.clear();
  if (member.isDeflated) {
    ASHLAR_RETURN_IF_ERROR(inflate(member, inflated));
  }
  bytes = member.isDeflated ? inflated.data() : mapping.data() + member.offset;
  const uLong checksum = crc32_z(0, reinterpret_cast<const Bytef *>(bytes), member.bytes);
  ASHLAR_RETURN_IF_ERROR(check()); // rather that it was cut
  return checksum == member.checksum
             ? Status()
             : invalid("member \"{}\" of \"{}\" is damaged: its checksum is another one; copy it again", member.name, filePath);
}

Status ZipFile::inflate(const ZipMember &member, std::vector<char> &bytes) const {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return unavailable("cannot read \"{}\": out of memory", filePath);
  }
  constexpr uint64_t kPart = uint64_t{1} << 26;
  uint64_t taken = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    // Memory grows as bytes come, so a forged size ends in an error and not in an allocation that fails.
    const uint64_t done = bytes.size(), room = std::min(kPart, member.bytes - done);
    bytes.resize(done + room);
    const uint64_t given = std::min<uint64_t>(kPart, member.storedBytes - taken);
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(mapping.data() + member.offset + taken));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef *>(bytes.data() + done);
    stream.avail_out = static_cast<uInt>(room);
    result = ::inflate(&stream, Z_NO_FLUSH);
    taken += given - stream.avail_in;
    bytes.resize(done + room - stream.avail_out);
    if (result == Z_OK && room == stream.avail_out && given == stream.avail_in) {
      result = Z_BUF_ERROR; // more bytes than announced, or fewer than stored
    }
  }
  inflateEnd(&stream);
  if (result != Z_STREAM_END || bytes.size() != member.bytes || taken != member.storedBytes) {
    return invalid("member \"{}\" of \"{}\" is damaged: {} of its {} bytes could be inflated; copy it again", member.name, filePath,
                   bytes.size(), member.bytes);
  }
  return {};
}

} // namespace ashlar::rt
