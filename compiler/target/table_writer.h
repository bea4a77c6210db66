// SPDX-License-Identifier: Apache-2.0
//
// Constant C structs and arrays in an LLVM module. Equal contents become one global.

#ifndef ASHLAR_COMPILER_TARGET_TABLE_WRITER_H
#define ASHLAR_COMPILER_TARGET_TABLE_WRITER_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ErrorHandling.h"

#include <array>
#include <cstring>
#include <type_traits>

namespace ashlar::target {

class TableWriter {
public:
  explicit TableWriter(llvm::Module &module) : module(module) {}

  // Scalars of the C types in the ABI.
  llvm::Constant *u32(uint64_t value) { return llvm::ConstantInt::get(llvm::Type::getInt32Ty(context()), value); }
  llvm::Constant *u64(uint64_t value) { return llvm::ConstantInt::get(llvm::Type::getInt64Ty(context()), value); }
  llvm::Constant *f32(float value) { return llvm::ConstantFP::get(llvm::Type::getFloatTy(context()), value); }
  llvm::Constant *f64(double value) { return llvm::ConstantFP::get(llvm::Type::getDoubleTy(context()), value); }
  llvm::Constant *null() { return llvm::ConstantPointerNull::get(llvm::PointerType::get(context(), 0)); }

  // Returns a pointer to the text, zero-terminated.
  llvm::Constant *string(llvm::StringRef text) { return global(llvm::ConstantDataArray::getString(context(), text)); }

  // Returns a pointer to the text; null when it is empty.
  llvm::Constant *optionalString(llvm::StringRef text) { return text.empty() ? null() : string(text); }

  // Returns the value of a struct of the C type T with these fields. The layout must be T's, or the ABI header and its writer disagree.
  template <typename T> llvm::Constant *record(llvm::ArrayRef<llvm::Constant *> fields) {
    static_assert(std::is_trivially_copyable_v<T>);
    llvm::Constant *value = llvm::ConstantStruct::getAnon(context(), fields);
    if (module.getDataLayout().getTypeAllocSize(value->getType()) != sizeof(T)) {
      llvm::report_fatal_error("a table of the image has another size than its C struct");
    }
    return value;
  }

  // Returns the value of a struct that holds nothing but numbers, without gaps between them: its bytes as they are in this process.
  template <typename T> llvm::Constant *numbers(const T &value) {
    static_assert(std::has_unique_object_representations_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
    std::array<uint64_t, sizeof(T) / sizeof(uint64_t)> words;
    std::memcpy(words.data(), &value, sizeof(T));
    return llvm::ConstantDataArray::get(context(), words);
  }

  // Returns a pointer to elements of one type, one after the other; null when there are none.
  llvm::Constant *array(llvm::ArrayRef<llvm::Constant *> elements) {
    return elements.empty() ? null()
                            : global(llvm::ConstantArray::get(llvm::ArrayType::get(elements[0]->getType(), elements.size()), elements));
  }

  // Returns a pointer to a list of numbers; null when it is empty.
  template <typename Range> llvm::Constant *u32Array(const Range &values) {
    llvm::SmallVector<uint32_t> numbers(values.begin(), values.end());
    return numbers.empty() ? null() : global(llvm::ConstantDataArray::get(context(), numbers));
  }
  llvm::Constant *f64Array(llvm::ArrayRef<double> values) {
    return values.empty() ? null() : global(llvm::ConstantDataArray::get(context(), values));
  }
  llvm::Constant *i64Array(llvm::ArrayRef<int64_t> values) {
    llvm::SmallVector<uint64_t> numbers(values.begin(), values.end());
    return numbers.empty() ? null() : global(llvm::ConstantDataArray::get(context(), numbers));
  }

  // Returns a private constant global of this value, one for equal values.
  llvm::Constant *global(llvm::Constant *value) {
    llvm::GlobalVariable *&variable = globals[value];
    if (!variable) {
      variable = new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage, value, "table");
      variable->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    }
    return variable;
  }

  llvm::LLVMContext &context() { return module.getContext(); }

private:
  llvm::Module &module;
  llvm::DenseMap<llvm::Constant *, llvm::GlobalVariable *> globals;
};

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_TABLE_WRITER_H
