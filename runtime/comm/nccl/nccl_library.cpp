// SPDX-License-Identifier: Apache-2.0
//
// Loads libnccl.

#include "runtime/comm/nccl/nccl_library.h"

#include "runtime/device/library.h"

namespace ashlar::rt {
namespace {

// The first version whose collectives can be captured into a graph together with others, with the configuration that we pass.
constexpr int kNeededVersion = 21800;

std::string versionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

} // namespace

Status NcclLibrary::load(NcclLibrary &library, const char *soname) {
  const std::string remedy = fmt::format("install NCCL {} or later, or add its folder to LD_LIBRARY_PATH", versionText(kNeededVersion));
  Library file;
  ASHLAR_RETURN_IF_ERROR(Library::open(soname, "several ranks on GPUs need NCCL", remedy, file));
#define ASHLAR_RT_NCCL_LOOKUP(name) library.name = reinterpret_cast<decltype(&::name)>(file.find(#name));
  ASHLAR_RT_NCCL_FUNCTIONS(ASHLAR_RT_NCCL_LOOKUP)
#undef ASHLAR_RT_NCCL_LOOKUP
  ASHLAR_RETURN_IF_ERROR(file.check());
  int version = 0;
  ASHLAR_RETURN_IF_ERROR(library.check(library.ncclGetVersion(&version), "cannot ask NCCL for its version"));
  return version >= kNeededVersion ? Status()
                                   : unavailable("{} has version {} but this program needs {}; {}", soname, versionText(version),
                                                 versionText(kNeededVersion), remedy);
}

Status NcclLibrary::failure(ncclResult_t result, const std::string &what, ncclComm_t comm) const {
  const char *said = ncclGetLastError(comm);
  std::string more = said != nullptr ? said : "";
  more = more.substr(0, more.find('\n'));
  return unavailable("{}: NCCL: {}{}{}", what, ncclGetErrorString(result), more.empty() ? "" : ": ", more);
}

} // namespace ashlar::rt
