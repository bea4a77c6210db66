// SPDX-License-Identifier: Apache-2.0
//
// A plugin takes the symbols of the compiler from the program that loads it, so both must be built from the same headers.

#include "compiler/plugin/plugins.h"

#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

namespace ashlar::plugin {

namespace {

llvm::Error fault(const std::string &path, const llvm::Twine &fact) {
  return llvm::createStringError("plugin " + path + ": " + fact);
}

} // namespace

llvm::Expected<PluginInfo> open(const std::string &path) {
  if (!llvm::sys::fs::exists(path)) {
    return fault(path, "there is no such file");
  }
  llvm::SmallString<128> absolute(path); // a bare name would be looked up in the folders of libraries
  if (std::error_code error = llvm::sys::fs::make_absolute(absolute)) {
    return fault(path, error.message());
  }
  std::string reason;
  auto library = llvm::sys::DynamicLibrary::getPermanentLibrary(absolute.c_str(), &reason);
  if (!library.isValid()) {
    return fault(path, reason);
  }
  auto getInfo = reinterpret_cast<decltype(&ashlarGetPluginInfo)>(library.getAddressOfSymbol("ashlarGetPluginInfo"));
  if (!getInfo) {
    return fault(path, "exports no ashlarGetPluginInfo; docs/plugins.md has an example");
  }
  PluginInfo info = *getInfo();
  if (info.version != kPluginVersion) {
    return fault(path, llvm::formatv("is for version {0} of the plugin interface but this compiler has version {1}; build it again",
                                     info.version, kPluginVersion));
  }
  if (llvm::StringRef(info.llvmVersion) != LLVM_VERSION_STRING) {
    return fault(path, llvm::formatv("was built with LLVM {0} but this compiler with LLVM {1}; build it again", info.llvmVersion,
                                     LLVM_VERSION_STRING));
  }
  return info;
}

llvm::Error load(llvm::ArrayRef<std::string> paths) {
  for (const std::string &path : paths) {
    llvm::Expected<PluginInfo> info = open(path);
    if (!info) {
      return info.takeError();
    }
    if (info->addDialects) {
      frontend::addDialects(info->addDialects);
    }
    if (info->addPasses) {
      pipelines::addPluginPasses(info->addPasses);
    }
    llvm::ArrayRef<frontend::RegistryRow> rows = info->getImportRows ? info->getImportRows() : llvm::ArrayRef<frontend::RegistryRow>();
    for (const frontend::RegistryRow &row : rows) {
      if (!frontend::addOp(row)) {
        return fault(path, "imports the ONNX op " + row.opType + ", which the compiler or another plugin imports already");
      }
    }
  }
  return llvm::Error::success();
}

} // namespace ashlar::plugin
