// SPDX-License-Identifier: Apache-2.0
//
// Texts, what a rank holds, and the order of its collectives, as JSON.

#include "compiler/report/json_parts.h"

#include "llvm/ADT/StringExtras.h"

namespace ashlar::report {

using llvm::json::OStream;

llvm::json::Value jsonText(llvm::StringRef text) {
  return llvm::json::fixUTF8(text);
}

double nanoseconds(int64_t timePs) {
  return static_cast<double>(timePs) / 1000;
}

void writeMemory(OStream &out, const lower::MemoryUse &use) {
  out.attribute("bytes", use.bytes());
  out.attribute("bytes_each_further_thread", use.threadBytes);
  out.attributeArray("parts", [&] {
    for (const lower::MemoryPart &part : use.parts) {
      out.object([&] {
        out.attribute("name", part.name);
        out.attribute("bytes", part.bytes);
      });
    }
  });
}

void writeOrder(OStream &out, const lower::CollectiveOrder &order) {
  out.attribute("devices", order.devices);
  out.attribute("collectives", order.collectives);
  out.attribute("hash", llvm::utohexstr(order.hash, /*LowerCase=*/true, /*Width=*/16));
}

} // namespace ashlar::report
