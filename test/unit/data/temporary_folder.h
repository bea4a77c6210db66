// SPDX-License-Identifier: Apache-2.0
//
// A folder for the files of one test.

#ifndef ASHLAR_TEST_UNIT_DATA_TEMPORARY_FOLDER_H
#define ASHLAR_TEST_UNIT_DATA_TEMPORARY_FOLDER_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ashlar::test {

// An empty folder that is removed with everything in it at the end of the scope.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_test_XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(folder); }

  // Returns the folder's path.
  const std::string &path() const { return folder; }

  // Returns the path of a file in the folder.
  std::string file(const std::string &name) const { return folder + "/" + name; }

  // Writes `bytes` as file `name` and returns its path.
  std::string write(const std::string &name, const std::string &bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }

  // Returns the bytes of file `name`.
  std::string read(const std::string &name) const {
    std::ifstream stream(file(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }

private:
  std::string folder;
};

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_DATA_TEMPORARY_FOLDER_H
