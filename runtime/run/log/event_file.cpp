// SPDX-License-Identifier: Apache-2.0
//
// See event_file.h.

#include "runtime/run/log/event_file.h"

#include "runtime/base/directories.h"

#include <array>
#include <chrono>
#include <cstring>

#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78; // of CRC-32C, bits reversed
constexpr uint32_t kMaskDelta = 0xa282ead8;  // TFRecord's

// Wire types of protobuf.
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table;
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ (value % 2 * kPolynomial);
    }
    table[i] = value;
  }
  return table;
}

// Appends the bytes of a number, the lowest first.
template <typename Number> void appendFixed(std::string &text, Number number) {
  for (size_t i = 0; i < sizeof(number); ++i) {
    text += static_cast<char>(number >> (8 * i) & 0xff);
  }
}

void appendVarint(std::string &text, uint64_t number) {
  for (; number >= 0x80; number >>= 7) {
    text += static_cast<char>(number | 0x80);
  }
  text += static_cast<char>(number);
}

void appendKey(std::string &text, uint32_t field, Wire wire) {
  appendVarint(text, field << 3 | wire);
}

void appendBytes(std::string &text, uint32_t field, std::string_view bytes) {
  appendKey(text, field, kBytes);
  appendVarint(text, bytes.size());
  text += bytes;
}

// The bits of a floating-point number.
template <typename Bits, typename Number> Bits bitsOf(Number number) {
  static_assert(sizeof(Bits) == sizeof(Number));
  Bits bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

std::string beginEvent(double time) {
  std::string event;
  appendKey(event, /*field=*/1, kFixed64);
  appendFixed(event, bitsOf<uint64_t>(time));
  return event;
}

uint32_t maskedCrc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

double secondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

} // namespace

uint32_t crc32c(const void *data, size_t bytes) {
  static const std::array<uint32_t, 256> kTable = makeTable();
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < bytes; ++i) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<const uint8_t *>(data)[i]) & 0xff];
  }
  return ~crc;
}

std::string eventRecord(std::string_view event) {
  std::string record;
  appendFixed(record, static_cast<uint64_t>(event.size()));
  appendFixed(record, maskedCrc(record));
  record += event;
  appendFixed(record, maskedCrc(event));
  return record;
}

std::string versionEvent(double time) {
  std::string event = beginEvent(time);
  appendBytes(event, /*field=*/3, "brain.Event:2");
  return event;
}

std::string restartEvent(double time, int64_t first) {
  std::string event = beginEvent(time), session;
  appendKey(session, /*field=*/1, kVarint);
  appendVarint(session, /*START*/ 1);
  appendKey(event, /*field=*/2, kVarint);
  appendVarint(event, static_cast<uint64_t>(first));
  appendBytes(event, /*field=*/7, session);
  return event;
}

std::string summaryEvent(double time, int64_t step, const std::vector<Measured> &values) {
  std::string summary;
  for (const Measured &one : values) {
    std::string value;
    appendBytes(value, /*field=*/1, one.tag);
    appendKey(value, /*field=*/2, kFixed32);
    appendFixed(value, bitsOf<uint32_t>(static_cast<float>(one.value)));
    appendBytes(summary, /*field=*/1, value);
  }
  std::string event = beginEvent(time);
  appendKey(event, /*field=*/2, kVarint);
  appendVarint(event, static_cast<uint64_t>(step));
  appendBytes(event, /*field=*/5, summary);
  return event;
}

Status EventFile::open(const std::string &directory, std::optional<uint64_t> restart) {
  ASHLAR_RETURN_IF_ERROR(makeDirectories(directory));
  char host[256] = "host";
  gethostname(host, sizeof(host) - 1);
  const double now = secondsSince1970();
  ASHLAR_RETURN_IF_ERROR(
      file.createLog(fmt::format("{}/events.out.tfevents.{}.{}.{}.0", directory, static_cast<uint64_t>(now), host, getpid())));
  std::string record = eventRecord(versionEvent(now));
  record += restart ? eventRecord(restartEvent(now, static_cast<int64_t>(*restart))) : "";
  return file.write(record.data(), record.size());
}

void EventFile::add(uint64_t step, const std::vector<Measured> &values) {
  const std::string record = eventRecord(summaryEvent(secondsSince1970(), static_cast<int64_t>(step), values));
  (void)file.write(record.data(), record.size()).ok(); // close() tells
}

} // namespace ashlar::rt
