// SPDX-License-Identifier: Apache-2.0
//
// Outputs of the compiler: whole or not at all, never through a link, never over an input; and what signals leave.

#include "compiler/file/cleanup.h"
#include "compiler/file/file_roles.h"
#include "compiler/file/output_file.h"
#include "compiler/file/temporary_folder.h"
#include "test/unit/data/temporary_folder.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ashlar;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

std::string contentsOf(const std::string &path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

size_t filesIn(const std::string &folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

std::string writeText(const std::string &path, const std::string &text) {
  return llvm::toString(file::writeOutput(path, [&](llvm::raw_ostream &out) { out << text; }));
}

// Runs `body` in a process of its own, whose stderr becomes `errors`. Returns what waitpid() tells of it.
int inChild(const std::function<void()> &body, std::string &errors) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGTERM, SIGINT, SIGHUP}) {
      signal(number, SIG_DFL); // Catch2 has handlers
    }
    body();
    _exit(0);
  }
  close(ends[1]);
  char buffer[1024];
  for (ssize_t bytes; (bytes = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    errors.append(buffer, bytes);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

} // namespace

TEST_CASE("output: an error leaves what was there and nothing else", "[file][output]") {
  test::TemporaryFolder folder;
  std::string path = folder.write("out", "old");
  llvm::Error error = file::tryWriteOutput(path, [](llvm::raw_pwrite_stream &out) {
    out << "half";
    return llvm::createStringError("no more");
  });
  CHECK(llvm::toString(std::move(error)) == "no more");
  CHECK(contentsOf(path) == "old");
  CHECK(filesIn(folder.path()) == 1);
  CHECK(writeText(path, "new") == "");
  CHECK(contentsOf(path) == "new");
  CHECK(filesIn(folder.path()) == 1);
}

TEST_CASE("output: the temporary name is short, and unknown before", "[file][output]") {
  test::TemporaryFolder folder;
  std::string path = folder.file(std::string(255, 'x')), seen[2];
  for (std::string &name : seen) {
    llvm::Error error = file::tryWriteOutput(path, [&](llvm::raw_pwrite_stream &) {
      for (const auto &entry : std::filesystem::directory_iterator(folder.path())) {
        name = entry.path().filename() == std::string(255, 'x') ? name : entry.path().filename().string();
      }
      return llvm::Error::success();
    });
    CHECK(!error);
  }
  CHECK(seen[0].substr(0, 8) == file::kTemporaryPrefix);
  CHECK(seen[0] != seen[1]);
}

TEST_CASE("output: symbolic links are refused, folders and sockets too", "[file][output]") {
  test::TemporaryFolder folder;
  std::string mine = folder.write("mine", "mine");
  std::filesystem::create_symlink("mine", folder.file("link"));
  std::filesystem::create_symlink("nowhere", folder.file("dangling"));
  std::filesystem::create_directory(folder.file("folder"));
  for (const char *name : {"link", "dangling"}) {
    CHECK_THAT(writeText(folder.file(name), "x"), EndsWith("it is a symbolic link; name the file itself, or - for standard output"));
  }
  CHECK_THAT(writeText(folder.file("folder"), "x"), EndsWith("it is there and not a regular file"));
  CHECK_THAT(writeText(folder.file("none/x"), "x"), EndsWith("/none is not a folder"));
  CHECK_THAT(writeText("/dev/full", "x"), Contains("cannot write /dev/full: no space left on device"));
  CHECK_THAT(llvm::toString(file::checkReplaceable("/dev/null")), EndsWith("it is there and not a regular file"));
  CHECK(contentsOf(mine) == "mine");
  CHECK(!std::filesystem::exists(folder.file("nowhere")));
}

TEST_CASE("roles: one file is one file, however it is named", "[file][roles]") {
  test::TemporaryFolder folder;
  std::string model = folder.write("model", "m");
  std::filesystem::create_hard_link(model, folder.file("hard"));
  std::filesystem::create_symlink("model", folder.file("soft"));
  std::filesystem::create_directory(folder.file("sub"));
  for (const char *name : {"model", "./model", "sub/../model", "hard", "soft"}) {
    std::string path = folder.path() + "/" + name;
    file::FileRoles before, after;
    CHECK(!before.addInput("the model", model));
    CHECK_THAT(llvm::toString(before.addOutput("-o", path)), Contains("-o names " + path + ", which is the model"));
    CHECK(!after.addOutput("-o", path));
    CHECK_THAT(llvm::toString(after.addInput("the model", model)), Contains("-o names " + path + ", which is the model"));
  }
  file::FileRoles roles;
  CHECK(!roles.addOutput("-o", folder.file("new")));
  CHECK(!roles.addOutput("--report", folder.file("sub/new")));
  CHECK(!roles.addOutput("--annotate", ""));
  CHECK(!roles.addOutput("--annotate", "-"));
  CHECK(!roles.addOutput("--annotate", "-"));
  CHECK(!roles.addOutput("--annotate", "/dev/null"));
  CHECK(!roles.addOutput("--save-strategy", "/dev/null"));
  CHECK_THAT(llvm::toString(roles.addOutput("--report", folder.file("sub/../new"))), Contains("-o and --report both name"));
  CHECK(!roles.addInput("the job", model));
  CHECK(!roles.addInput("the model", model)); // two inputs may be one file
}

TEST_CASE("cleanup: signals and crashes remove what is temporary, and end the process", "[file][cleanup]") {
  for (int ending : {SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGABRT}) {
    test::TemporaryFolder folder;
    folder.write("kept", "kept");
    std::string errors;
    int status = inChild(
        [&] {
          file::cleanUpAtSignals();
          file::TemporaryFolder temporary;
          llvm::cantFail(temporary.createBeside(folder.file("out")));
          for (int i = 0; i < 300; ++i) { // more than one read of the folder's records
            std::ofstream(temporary.file(std::string(50, 'n') + std::to_string(i))) << "x";
          }
          llvm::cantFail(file::writeOutput(folder.file("out"), [&](llvm::raw_ostream &) { raise(ending); }));
        },
        errors);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == ending);
    CHECK(errors == "");
    CHECK(filesIn(folder.path()) == 1);
  }
}

TEST_CASE("cleanup: a signal waits until what was made is on the list", "[file][cleanup]") {
  for (int ending : {SIGTERM, SIGSEGV, SIGABRT}) {
    test::TemporaryFolder folder;
    std::string errors;
    int status = inChild(
        [&] {
          file::cleanUpAtSignals();
          file::SignalHold hold;
          folder.write("made", "");
          kill(getpid(), ending);
          file::removeAtSignal(folder.file("made"));
        },
        errors);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == ending);
    CHECK(filesIn(folder.path()) == 0);
  }
}

TEST_CASE("cleanup: a forked process leaves what is its parent's", "[file][cleanup]") {
  test::TemporaryFolder folder;
  file::TemporaryFolder temporary;
  llvm::cantFail(temporary.createBeside(folder.file("out")));
  std::string errors;
  inChild(
      [] {
        file::cleanUpAtSignals();
        raise(SIGTERM);
      },
      errors);
  CHECK(std::filesystem::is_directory(temporary.path()));
}

TEST_CASE("cleanup: a mapped file that is cut is named", "[file][cleanup]") {
  test::TemporaryFolder folder;
  std::string path = folder.write("a model", std::string(100000, 'x'));
  std::string errors;
  int status = inChild(
      [&] {
        file::cleanUpAtSignals();
        int descriptor = open(path.c_str(), O_RDWR);
        auto *bytes = static_cast<const volatile char *>(mmap(nullptr, 100000, PROT_READ, MAP_PRIVATE, descriptor, 0));
        _exit(ftruncate(descriptor, 10) != 0 ? 3 : bytes[90000]);
      },
      errors);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(errors == "error: " + path + " was cut, or cannot be read, while it was used; leave it alone during a compilation\n");
}
