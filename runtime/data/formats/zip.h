// SPDX-License-Identifier: Apache-2.0
//
// Zip archives as numpy.savez writes them: members stored or deflated, with or without zip64. The archive is not trusted: its members must
// lie one after the other in front of its directory, as both their headers describe them, and none may grow by more than deflate can.
// Format: APPNOTE.TXT of PKWARE, 6.3.

#ifndef ASHLAR_RUNTIME_DATA_FORMATS_ZIP_H
#define ASHLAR_RUNTIME_DATA_FORMATS_ZIP_H

#include "runtime/base/mapped_file.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::rt {

// A member of an archive.
struct ZipMember {
  std::string name;
  bool isDeflated = false;
  uint64_t storedBytes = 0, bytes = 0; // in the archive, and inflated
  uint32_t checksum = 0;               // CRC-32 of the inflated bytes
  uint64_t offset = 0;                 // of the stored bytes
};

// An archive mapped for reading. Movable.
class ZipFile {
public:
  // Maps an archive and checks the places and sizes of all members.
  static Status open(const std::string &path, ZipFile &file);

  const std::string &path() const { return filePath; }
  const std::vector<ZipMember> &members() const { return allMembers; }

  // Finds the bytes of a member, in the archive or, of a deflated one, in `inflated`, and checks their checksum: all of them are read.
  // Takes no more memory than they have.
  Status read(const ZipMember &member, std::vector<char> &inflated, const char *&bytes) const;

  // Fails when the archive was changed since open().
  Status check() const { return mapping.check(); }

private:
  Status readDirectory();
  Status readEntry(uint64_t &at, uint64_t end);
  Status locate(ZipMember &member, uint64_t headerOffset, uint64_t directory, uint64_t &end) const;
  Status inflate(const ZipMember &member, std::vector<char> &bytes) const;

  std::string filePath;
  MappedFile mapping;
  std::vector<ZipMember> allMembers;
  std::vector<uint64_t> headerOffsets; // of the members
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_FORMATS_ZIP_H
