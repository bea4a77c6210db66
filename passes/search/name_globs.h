// SPDX-License-Identifier: Apache-2.0
//
// Names of layers that are alike: globs for them, and the block of a model that a module path lies in.

#ifndef ASHLAR_PASSES_SEARCH_NAME_GLOBS_H
#define ASHLAR_PASSES_SEARCH_NAME_GLOBS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace ashlar::search {

// Returns a name with a * for each number in it.
std::string withoutNumbers(llvm::StringRef name);

// Returns the numbers in a name, in order.
llvm::SmallVector<llvm::StringRef> numbersIn(llvm::StringRef name);

// Returns the glob for names that differ in their numbers only: a * for each number that is not the same in all.
//   layer1.0.conv1, layer2.0.conv1  ==>  layer*.0.conv1
std::string joinNumbers(llvm::ArrayRef<llvm::StringRef> names);

// Returns a glob for the matches of two globs that begin or end with the same parts of names; "" where they do not.
//   layer*.attention.key.weight, layer*.fc.weight  ==>  layer*.*.weight
std::string joinGlobs(llvm::StringRef a, llvm::StringRef b);

// Returns the block that a module path lies in: up to the first part with a number, and the numbers behind that.
//   encoder.layer.3.attention.key  ==>  encoder.layer.3       layer1.0.conv2  ==>  layer1.0       embedding/Gather  ==>  embedding
llvm::StringRef blockOf(llvm::StringRef path);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_NAME_GLOBS_H
