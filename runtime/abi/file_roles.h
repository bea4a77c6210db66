// SPDX-License-Identifier: Apache-2.0
//
// The files that a tool or a compiled program reads and writes. An output that is also an input, or another output, would destroy it.
// Header only, so that the compiler needs no runtime for it.

#ifndef ASHLAR_RUNTIME_ABI_FILE_ROLES_H
#define ASHLAR_RUNTIME_ABI_FILE_ROLES_H

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace ashlar::rt {

// The files of a run and their roles. Two paths name one file when they lead to the same inode, or to the same name in the same folder:
// however they are spelled, through links of either kind too; folders need not be there yet. "" and "-" are no files, and a device takes
// several outputs. For example, addInput("the model", "m.onnx") and addOutput("-o", "./m.onnx") have the fault
//
//   -o names ./m.onnx, which is the model m.onnx; name another file
class FileRoles {
public:
  // Adds a file that is read.
  void addInput(const std::string &role, const std::string &path) { add({role, path, /*isOutput=*/false, /*isFolder=*/false, {}}); }

  // Adds a folder with all below it: no output may be there.
  void addInputFolder(const std::string &role, const std::string &path) { add({role, path, /*isOutput=*/false, /*isFolder=*/true, {}}); }

  // Adds a file that is written.
  void addOutput(const std::string &role, const std::string &path) { add({role, path, /*isOutput=*/true, /*isFolder=*/false, {}}); }

  // Adds a folder that gets files of fresh names. Several outputs may share it.
  void addOutputFolder(const std::string &role, const std::string &path) { add({role, path, /*isOutput=*/true, /*isFolder=*/true, {}}); }

  // Returns the first conflict, with both roles, the path and the remedy; "" without one.
  const std::string &fault() const { return found; }

private:
  // Device and inode, and the names below it that are not there yet.
  using Identity = std::tuple<dev_t, ino_t, std::string>;

  struct Entry {
    std::string role, path;
    bool isOutput, isFolder;
    std::vector<Identity> places; // the root, the folders on the way, the file
  };

  void add(Entry entry) {
    if (!found.empty() || entry.path.empty() || entry.path == "-" || !locate(entry)) {
      return;
    }
    for (const Entry &other : entries) {
      const Entry &output = entry.isOutput ? entry : other, &rest = entry.isOutput ? other : entry;
      if (!output.isOutput || (rest.isOutput && rest.isFolder && output.isFolder)) {
        continue;
      }
      const bool isKept = !rest.isOutput && rest.isFolder;
      const auto first = isKept ? output.places.begin() : output.places.end() - 1;
      if (std::find(first, output.places.end(), rest.places.back()) == output.places.end()) {
        continue;
      }
      const std::string which = ", which is " + std::string(isKept ? "in " : "") + rest.role;
      found = rest.isOutput ? other.role + " and " + entry.role + " both name " + entry.path + "; give each a file of its own"
                            : output.role + " names " + output.path + which + (rest.path == output.path ? "" : " " + rest.path) +
                                  "; name another file";
      return;
    }
    entries.push_back(std::move(entry));
  }

  // Returns the path without links, "." and ".."; the part that is not there yet has none.
  static std::string resolve(const std::string &path) {
    std::string walked;
    auto take = [&] {
      if (char *real = realpath(walked.c_str(), nullptr)) {
        walked = std::string(real) == "/" ? "" : real;
        std::free(real);
      }
    };
    if (path[0] != '/') {
      walked = ".";
      take();
    }
    for (size_t begin = 0, end = 0; begin < path.size(); begin = end + 1) {
      end = std::min(path.find('/', begin), path.size());
      const std::string part = path.substr(begin, end - begin);
      if (part == "..") {
        walked.resize(std::min(walked.size(), walked.rfind('/')));
      } else if (!part.empty() && part != ".") {
        walked += "/" + part;
        take();
      }
    }
    return walked;
  }

  // Finds the places of an entry. Returns false for an output that is a device or a pipe.
  static bool locate(Entry &entry) {
    const std::string whole = resolve(entry.path);
    Identity last;
    struct stat info = {};
    for (size_t begin = 0, end = 0;; end = std::min(whole.find('/', begin + 1), whole.size())) { // the root, then part by part
      const std::string walked = end == 0 ? "/" : whole.substr(0, end);
      if (std::get<std::string>(last).empty() && stat(walked.c_str(), &info) == 0) {
        last = {info.st_dev, info.st_ino, ""};
      } else {
        std::get<std::string>(last) += whole.substr(begin, end - begin);
      }
      entry.places.push_back(last);
      if (end == whole.size()) {
        break;
      }
      begin = end;
    }
    const bool exists = stat(entry.path.c_str(), &info) == 0;
    return !entry.isOutput || !exists || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
  }

  std::vector<Entry> entries;
  std::string found;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_ABI_FILE_ROLES_H
