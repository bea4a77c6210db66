// SPDX-License-Identifier: Apache-2.0
//
// Constants to bytes: raw data as it is, splats repeated, bools one byte each.

#include "compiler/target/constants.h"

#include "compiler/file/output_file.h"
#include "dialects/exec/exec.h"
#include "dialects/support/element_type.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace ashlar::target {
namespace {

// Returns the bytes of a constant; `storage` holds them when the attribute does not. Empty when the attribute is of an unknown kind.
ArrayRef<char> bytesOf(ElementsAttr value, std::vector<char> &storage) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    return blob ? blob->getData() : ArrayRef<char>();
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense) {
    return {};
  }
  if (dense.getElementType().isInteger(1)) {
    for (bool element : dense.getValues<bool>()) {
      storage.push_back(element);
    }
    return storage;
  }
  ArrayRef<char> raw = dense.getRawData();
  if (!dense.isSplat()) {
    return raw;
  }
  for (int64_t i = 0; i < dense.getNumElements(); ++i) {
    storage.insert(storage.end(), raw.begin(), raw.end());
  }
  return storage;
}

// Writes the constants at their offsets and adds up what `file` holds.
llvm::Error writeTo(llvm::raw_ostream &out, ModuleOp module, IncludedFile &file) {
  for (auto op : module.getOps<exec::ConstantOp>()) {
    std::vector<char> storage;
    ArrayRef<char> bytes = bytesOf(op.getValue(), storage);
    uint64_t expected = byteSize(op.getValue().getShapedType());
    if (bytes.size() != expected || op.getOffset() < file.bytes) {
      return llvm::createStringError("constant at offset %llu has %zu bytes of data, its type needs %llu",
                                     static_cast<unsigned long long>(op.getOffset()), bytes.size(),
                                     static_cast<unsigned long long>(expected));
    }
    out.write_zeros(op.getOffset() - file.bytes);
    out.write(bytes.data(), bytes.size());
    file.bytes = op.getOffset() + bytes.size();
    file.hash = llvm::xxh3_64bits(ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size())) + 31 * file.hash;
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<IncludedFile> writeConstants(ModuleOp module, StringRef path) {
  IncludedFile included{path.str(), 0, 0};
  llvm::Error error = file::tryWriteOutput(path, [&](llvm::raw_pwrite_stream &out) { return writeTo(out, module, included); });
  return error ? llvm::Expected<IncludedFile>(std::move(error)) : included;
}

llvm::Expected<IncludedFile> writeBytes(StringRef bytes, StringRef path) {
  IncludedFile included{path.str(), bytes.size(), llvm::xxh3_64bits(bytes)};
  llvm::Error error = file::tryWriteOutput(path, [&](llvm::raw_pwrite_stream &out) {
    out << bytes;
    return llvm::Error::success();
  });
  return error ? llvm::Expected<IncludedFile>(std::move(error)) : included;
}

} // namespace ashlar::target
