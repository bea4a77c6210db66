// SPDX-License-Identifier: Apache-2.0
//
// An ELF file of x86-64 that is position independent: its segments are mapped privately at one base, to which relative relocations are
// added. A note (ASHLAR_RT_NOTE_NAME) has the version of the ABI and leads to the image.

#include "runtime/simulate/executable_file.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ashlar::rt {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMostSpan = uint64_t{1} << 46; // of all segments: half of what a process may map
constexpr uint32_t kMostHeaders = 4096;

// The rest of the note behind its name.
struct NoteContent {
  uint64_t version;
  int64_t distance; // from this number to the image
};

// Maps one file. State: the headers of its segments, and the region that they lie in.
class ElfMapper {
public:
  ElfMapper(const std::string &path, int descriptor) : path(path), descriptor(descriptor) {}

  Status map(char *&base, size_t &bytes) {
    ASHLAR_RETURN_IF_ERROR(readHeaders());
    ASHLAR_RETURN_IF_ERROR(reserve());
    base = region, bytes = span;
    for (const Elf64_Phdr &segment : segments) {
      if (segment.p_type == PT_LOAD) {
        ASHLAR_RETURN_IF_ERROR(mapSegment(segment));
      }
    }
    for (const Elf64_Phdr &segment : segments) {
      if (segment.p_type == PT_DYNAMIC) {
        ASHLAR_RETURN_IF_ERROR(relocate(segment));
      }
    }
    return Status();
  }

  // Follows the note to the image. Assumes a mapped file.
  Status findImage(const ashlar_rt_image *&image) const {
    for (const Elf64_Phdr &segment : segments) {
      if (segment.p_type != PT_NOTE || !isInside(segment.p_vaddr, segment.p_memsz)) {
        continue;
      }
      uint64_t at = segment.p_vaddr;
      const uint64_t end = segment.p_vaddr + segment.p_memsz;
      while (at + sizeof(Elf64_Nhdr) <= end) {
        const auto *note = reinterpret_cast<const Elf64_Nhdr *>(region + at);
        const uint64_t name = at + sizeof(Elf64_Nhdr), content = name + roundUp(note->n_namesz), next = content + roundUp(note->n_descsz);
        if (next > end) {
          break;
        }
        if (note->n_type == ASHLAR_RT_NOTE_TYPE && note->n_namesz == sizeof(ASHLAR_RT_NOTE_NAME) && note->n_descsz == sizeof(NoteContent) &&
            std::memcmp(region + name, ASHLAR_RT_NOTE_NAME, note->n_namesz) == 0) {
          return readNote(content, image);
        }
        at = next;
      }
    }
    return notOurs("it has no note of ashlarc, or is older than ABI version 33");
  }

private:
  static uint64_t roundUp(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

  bool isInside(uint64_t address, uint64_t size) const { return address <= span && size <= span - address; }

  Status notOurs(const char *why) const {
    return invalid("{} is no compiled program: {}; give an executable of ashlarc, compiled by this version", path, why);
  }

  // Fills `target` from an offset of the file.
  bool read(void *target, size_t bytes, uint64_t offset) const {
    return pread(descriptor, target, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }

  Status readHeaders() {
    struct stat facts;
    if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      return notOurs("it is no regular file");
    }
    fileBytes = static_cast<uint64_t>(facts.st_size);
    Elf64_Ehdr header;
    if (!read(&header, sizeof(header), 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
      return notOurs("it is no ELF file");
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) {
      return notOurs("it is not for x86-64");
    }
    if (header.e_type != ET_DYN) {
      return notOurs("it is an object, or linked for a fixed address");
    }
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMostHeaders) {
      return notOurs("its segments have no valid headers");
    }
    segments.resize(header.e_phnum);
    return read(segments.data(), segments.size() * sizeof(Elf64_Phdr), header.e_phoff) ? Status() : notOurs("it ends within its headers");
  }

  Status reserve() {
    for (const Elf64_Phdr &segment : segments) {
      if (segment.p_type != PT_LOAD) {
        continue;
      }
      if (segment.p_filesz > segment.p_memsz || segment.p_vaddr > kMostSpan || segment.p_memsz > kMostSpan ||
          segment.p_offset > fileBytes || segment.p_filesz > fileBytes - segment.p_offset ||
          (segment.p_vaddr - segment.p_offset) % kPage != 0) {
        return notOurs("a segment lies outside of the file");
      }
      span = std::max(span, (segment.p_vaddr + segment.p_memsz + kPage - 1) / kPage * kPage);
    }
    if (span == 0) {
      return notOurs("it has no segments");
    }
    void *memory = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return unavailable("cannot map {}: {} bytes: {}", path, span, std::strerror(errno));
    }
    region = static_cast<char *>(memory);
    return Status();
  }

  Status mapSegment(const Elf64_Phdr &segment) {
    if (segment.p_filesz == 0) {
      return Status();
    }
    const uint64_t shift = segment.p_offset % kPage, bytes = segment.p_filesz + shift;
    void *memory = mmap(region + (segment.p_vaddr - shift), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                        descriptor, static_cast<off_t>(segment.p_offset - shift));
    if (memory == MAP_FAILED) {
      return unavailable("cannot map {}: {}", path, std::strerror(errno));
    }
    if (segment.p_memsz > segment.p_filesz) { // zeros behind the end, in the last page too
      const uint64_t end = segment.p_vaddr + segment.p_filesz;
      std::memset(region + end, 0, std::min((end + kPage - 1) / kPage * kPage, segment.p_vaddr + segment.p_memsz) - end);
    }
    return Status();
  }

  // Adds the base to the pointers of the file. Others, to functions of libraries, nobody follows.
  Status relocate(const Elf64_Phdr &dynamic) {
    uint64_t rela = 0, relaBytes = 0, relr = 0, relrBytes = 0;
    if (!isInside(dynamic.p_vaddr, dynamic.p_memsz)) {
      return notOurs("a segment lies outside of the file");
    }
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_memsz; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, region + dynamic.p_vaddr + at, sizeof(entry));
      constexpr int64_t kRelrBytes = 35, kRelr = 36; // DT_RELRSZ and DT_RELR, which older headers lack
      (entry.d_tag == DT_RELA      ? rela
       : entry.d_tag == DT_RELASZ  ? relaBytes
       : entry.d_tag == kRelr      ? relr
       : entry.d_tag == kRelrBytes ? relrBytes
                                   : ignored) = entry.d_un.d_val;
    }
    if (!isInside(rela, relaBytes) || !isInside(relr, relrBytes)) {
      return notOurs("its relocations lie outside of the file");
    }
    for (uint64_t at = rela; at + sizeof(Elf64_Rela) <= rela + relaBytes; at += sizeof(Elf64_Rela)) {
      Elf64_Rela entry;
      std::memcpy(&entry, region + at, sizeof(entry));
      if (ELF64_R_TYPE(entry.r_info) == R_X86_64_RELATIVE && isInside(entry.r_offset, sizeof(uint64_t))) {
        set(entry.r_offset, static_cast<uint64_t>(entry.r_addend));
      }
    }
    relocateWords(relr, relrBytes / sizeof(uint64_t));
    return Status();
  }

  void set(uint64_t address, uint64_t addend) {
    const uint64_t value = reinterpret_cast<uint64_t>(region) + addend;
    std::memcpy(region + address, &value, sizeof(value));
  }

  void add(uint64_t address) {
    if (isInside(address, sizeof(uint64_t))) {
      uint64_t addend;
      std::memcpy(&addend, region + address, sizeof(addend));
      set(address, addend);
    }
  }

  // DT_RELR: an even word is an address; an odd one has a bit for each of the 63 words behind the last one.
  void relocateWords(uint64_t at, uint64_t words) {
    constexpr uint64_t kBits = 63;
    uint64_t next = 0;
    for (uint64_t i = 0; i < words; ++i) {
      uint64_t word;
      std::memcpy(&word, region + at + i * sizeof(word), sizeof(word));
      if (word % 2 == 0) {
        add(word);
        next = word + sizeof(word);
        continue;
      }
      for (uint64_t bit = 0; bit < kBits; ++bit) {
        if (word >> (bit + 1) & 1) {
          add(next + bit * sizeof(word));
        }
      }
      next += kBits * sizeof(word);
    }
  }

  Status readNote(uint64_t at, const ashlar_rt_image *&image) const {
    NoteContent content;
    std::memcpy(&content, region + at, sizeof(content));
    if (content.version != ASHLAR_RT_ABI_VERSION) {
      return invalid("{} has ABI version {} but this tool has {}; compile it again", path, content.version, ASHLAR_RT_ABI_VERSION);
    }
    const uint64_t address = at + offsetof(NoteContent, distance) + static_cast<uint64_t>(content.distance);
    if (!isInside(address, sizeof(ashlar_rt_image)) || address % alignof(ashlar_rt_image) != 0) {
      return notOurs("its note leads nowhere");
    }
    image = reinterpret_cast<const ashlar_rt_image *>(region + address);
    return image->abi_version == content.version && image->num_variants > 0 ? Status() : notOurs("its note leads to no image");
  }

  const std::string &path;
  const int descriptor;
  uint64_t fileBytes = 0, span = 0, ignored = 0;
  std::vector<Elf64_Phdr> segments;
  char *region = nullptr;
};

} // namespace

ExecutableFile &ExecutableFile::operator=(ExecutableFile &&other) noexcept {
  std::swap(base, other.base);
  std::swap(bytes, other.bytes);
  std::swap(found, other.found);
  return *this;
}

ExecutableFile::~ExecutableFile() {
  if (base != nullptr) {
    munmap(base, bytes);
  }
}

Status ExecutableFile::open(const std::string &path, ExecutableFile &file) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return unavailable("cannot open {}: {}", path, std::strerror(errno));
  }
  ExecutableFile mapped;
  ElfMapper mapper(path, descriptor);
  Status status = mapper.map(mapped.base, mapped.bytes);
  if (status.ok()) {
    status = mapper.findImage(mapped.found);
  }
  ::close(descriptor);
  if (status.ok()) {
    file = std::move(mapped);
  }
  return status;
}

} // namespace ashlar::rt
