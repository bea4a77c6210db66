// SPDX-License-Identifier: Apache-2.0
//
// Where the toolkit is. ASHLAR_PTXAS and ASHLAR_LIBDEVICE are what CMake found; empty: the target was left out.

#include "compiler/target/cuda/toolkit.h"

#include "compiler/file/installation.h"
#include "compiler/target/cuda/ptx.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

namespace ashlar::cuda {
namespace {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

// Returns libdevice: of the installation, the configured one, or that of the toolkit that `ptxas` is in; "" for none.
std::string findLibdevice(llvm::StringRef ptxas) {
  llvm::SmallString<256> beside(path::parent_path(path::parent_path(ptxas)));
  path::append(beside, "nvvm/libdevice/libdevice.10.bc");
  for (const std::string &candidate :
       {file::installedFile("lib/ashlar/libdevice.10.bc"), std::string(ASHLAR_LIBDEVICE), beside.str().str()}) {
    if (fs::exists(candidate)) {
      return candidate;
    }
  }
  return "";
}

// Returns the capabilities that this ptxas makes code for, from its help: "Allowed values for this option: ... 'sm_75','sm_80', ...".
llvm::Expected<std::set<unsigned>> capabilitiesOf(const Toolkit &toolkit) {
  target::ToolRun help;
  if (llvm::Error error = help.start(toolkit.ptxas, {"--help"})) {
    return std::move(error);
  }
  if (llvm::Error error = help.wait()) {
    return llvm::createStringError(toolkit.ptxas + ": " + llvm::toString(std::move(error)));
  }
  std::set<unsigned> capabilities;
  std::string text = help.output();
  for (llvm::StringRef rest(text); !rest.empty();) {
    rest = rest.split("'sm_").second;
    llvm::StringRef number = rest.take_while(llvm::isDigit);
    unsigned capability = 0;
    if (rest.drop_front(number.size()).starts_with("'") && !number.getAsInteger(10, capability)) {
      capabilities.insert(capability);
    }
  }
  return capabilities;
}

} // namespace

bool isConfigured() {
  return !llvm::StringRef(ASHLAR_PTXAS).empty();
}

llvm::Expected<Toolkit> findToolkit() {
  if (!isConfigured()) {
    return llvm::createStringError(
        "the target cuda was left out when Ashlar was configured, for want of the CUDA toolkit; install CUDA 13 and "
        "configure again");
  }
  Toolkit toolkit;
  const std::string installed = file::installedFile("lib/ashlar/ptxas");
  toolkit.ptxas = fs::can_execute(installed) ? installed : fs::can_execute(ASHLAR_PTXAS) ? ASHLAR_PTXAS : target::findProgram({"ptxas"});
  if (toolkit.ptxas.empty()) {
    return llvm::createStringError("ptxas is neither at " ASHLAR_PTXAS " nor on the PATH; install the CUDA toolkit");
  }
  toolkit.libdevice = findLibdevice(toolkit.ptxas);
  if (toolkit.libdevice.empty()) {
    return llvm::createStringError("libdevice is neither at " ASHLAR_LIBDEVICE " nor in the toolkit of " + toolkit.ptxas +
                                   "; install the CUDA toolkit");
  }
  return toolkit;
}

llvm::Error checkChips(const Toolkit &toolkit, llvm::ArrayRef<Chip> chips) {
  llvm::Expected<std::set<unsigned>> known = capabilitiesOf(toolkit);
  if (!known) {
    return known.takeError();
  }
  for (const Chip &chip : chips) {
    const char *tool = !known->count(chip.capability) ? "ptxas" : !isKnownToLlvm(chip) ? "LLVM" : nullptr;
    if (tool) {
      auto names = llvm::map_to_vector(*known, [](unsigned capability) { return Chip{capability}.name(); });
      return llvm::createStringError("--gpu-arch: " + std::string(tool) + " makes no code for \"" + chip.name() + "\"; ptxas knows " +
                                     llvm::join(names, ", "));
    }
  }
  return llvm::Error::success();
}

llvm::Expected<target::ToolRun> startAssembler(const Toolkit &toolkit, const Chip &chip, llvm::StringRef ptx, llvm::StringRef output) {
  target::ToolRun assembler;
  std::string chipOption = "--gpu-name=" + chip.name();
  if (llvm::Error error = assembler.start(toolkit.ptxas, {chipOption, "-O3", ptx, "-o", output})) {
    return std::move(error);
  }
  return assembler;
}

} // namespace ashlar::cuda
