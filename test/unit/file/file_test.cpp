// SPDX-License-Identifier: Apache-2.0
//
// Outputs of the compiler: whole or not at all, never through a link, never over an input; and what signals leave. Inputs: regular files
// of a bounded size.

#include "compiler/file/cleanup.h"
#include "compiler/file/file_roles.h"
#include "compiler/file/input_file.h"
#include "compiler/file/output_file.h"
#include "compiler/file/temporary_folder.h"
#include "test/unit/data/temporary_folder.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ashlar::test::file_test {

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
  CHECK(!roles.addInput("the job", model));
  CHECK(!roles.addInput("the model", model)); // two inputs may be one file
  CHECK_THAT(llvm::toString(roles.addOutput("--report", folder.file("sub/../new"))), Contains("-o and --report both name"));
}

TEST_CASE("roles: the current folder was removed", "[file][roles]") {
  test::TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(folder.file("gone"));
  std::filesystem::current_path(folder.file("gone"));
  std::filesystem::remove(folder.file("gone"));
  rt::FileRoles roles;
  roles.addInput("the model", "../../x");
  roles.addOutput("-o", "../y");
  std::filesystem::current_path(before);
  CHECK(roles.fault().empty());
}

TEST_CASE("roles: folders that are not there yet, folders with all below them, and folders of several outputs", "[file][roles]") {
  test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("images/cat"));
  std::filesystem::create_symlink("images", folder.file("soft"));
  folder.write("images/cat/0.png", "x");
  auto fault = [&](std::initializer_list<std::pair<const char *, const char *>> outputs) {
    rt::FileRoles roles;
    roles.addInputFolder("the folder of --data", folder.file("images/"));
    for (const auto &[role, name] : outputs) {
      role[0] == '/' ? roles.addOutputFolder(role, folder.file(name)) : roles.addOutput(role, folder.file(name));
    }
    return roles.fault();
  };
  CHECK(fault({{"-a", "new/x"}, {"-b", "new/sub/../y"}, {"/folder", "new"}, {"/other", "new"}}).empty());
  CHECK(fault({{"-a", "new/x"}, {"-b", "new/sub/../x"}}) ==
        "-a and -b both name " + folder.file("new/sub/../x") + "; give each a file of its own");
  CHECK_THAT(fault({{"-a", "new"}, {"/folder", "new/"}}), Contains("-a and /folder both name"));
  for (const char *name : {"images/cat/0.png", "soft/cat/0.png", "images/cat/1.png", "images/dog/1.png", "images/new"}) {
    CHECK(fault({{"-a", name}}) ==
          "-a names " + folder.file(name) + ", which is in the folder of --data " + folder.file("images/") + "; name another file");
  }
  CHECK_THAT(fault({{"/folder", "images"}}), Contains("/folder names"));
  CHECK_THAT(fault({{"/folder", "images/new"}}), Contains("/folder names"));
  CHECK(fault({{"/folder", ""}, {"-a", "images.txt"}}).empty());
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

TEST_CASE("inputs are regular files of a bounded size", "[file][input]") {
  ashlar::test::TemporaryFolder place;
  const auto fault = [&](const std::string &path, file::Pipes pipes = file::Pipes::Refused) {
    auto text = file::readText(path, pipes);
    return text ? (*text)->getBuffer().str() : llvm::toString(text.takeError());
  };
  place.write("text", "abc");
  place.write("empty", "");
  CHECK(fault(place.file("text")) == "abc");
  CHECK(fault(place.file("empty")).empty());
  CHECK(fault(place.file("none")) == "cannot be read: no such file or directory");
  const std::string irregular = "cannot be read: it is not a regular file";
  CHECK(fault("/dev/zero") == irregular);
  CHECK(fault("/dev/zero", file::Pipes::Taken) == irregular);
  CHECK(fault(place.path()) == irregular);
  REQUIRE(mkfifo(place.file("pipe").c_str(), 0600) == 0);
  CHECK(fault(place.file("pipe")) == irregular);
  CHECK(llvm::toString(file::mapFile(place.file("pipe")).takeError()) == irregular);
  CHECK(llvm::toString(file::mapPart("/dev/zero", 0, 4).takeError()) == irregular);
  // Sparse: no byte more than a text may have is read.
  place.write("large", "");
  std::filesystem::resize_file(place.file("large"), file::kMostTextBytes);
  CHECK(fault(place.file("large")).size() == file::kMostTextBytes);
  std::filesystem::resize_file(place.file("large"), file::kMostTextBytes + 1);
  CHECK(fault(place.file("large")) == "cannot be read: it has 67108865 bytes, and 67108864 are the most that are read");
  auto part = file::mapPart(place.file("text"), 1, 2);
  REQUIRE(bool(part));
  CHECK((*part)->getBuffer() == "bc");
}

// `--job <(cat job.txtpb)`: the text comes in parts, and ends when its writer does.
TEST_CASE("a pipe is read to its end where it is taken", "[file][input]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    for (const char *part : {"first ", "second"}) {
      usleep(50000);
      (void)!write(ends[1], part, strlen(part));
    }
    _exit(0);
  }
  close(ends[1]);
  auto text = file::readText("/dev/fd/" + std::to_string(ends[0]), file::Pipes::Taken);
  waitpid(child, nullptr, 0);
  close(ends[0]);
  REQUIRE(bool(text));
  CHECK((*text)->getBuffer() == "first second");
}

TEST_CASE("a path is below a folder, links followed", "[file][input]") {
  ashlar::test::TemporaryFolder place;
  std::filesystem::create_directories(place.file("jobs/deep"));
  std::filesystem::create_directories(place.file("jobs2"));
  place.write("jobs/deep/a", "");
  place.write("jobs2/b", "");
  std::filesystem::create_symlink("../jobs2/b", place.file("jobs/out"));
  std::filesystem::create_symlink("deep", place.file("jobs/in"));
  const auto isBelow = [&](const std::string &path) {
    auto resolved = file::resolveBelow(place.file("jobs"), path);
    REQUIRE(bool(resolved));
    return resolved->isBelow;
  };
  CHECK(isBelow("deep/a"));
  CHECK(isBelow("in/a"));
  CHECK_FALSE(isBelow("out")); // of a folder whose name begins alike
  CHECK_FALSE(isBelow("../jobs2/b"));
  CHECK_FALSE(isBelow("."));
  CHECK(llvm::toString(file::resolveBelow(place.file("jobs"), "none").takeError()) == "cannot be read: no such file or directory");
  for (const char *path : {"a", "a/b", "a/..b", "./a"}) {
    CHECK(file::namesBelow(path));
  }
  CHECK_FALSE(file::namesBelow(llvm::StringRef("a\0b", 3)));
  for (const char *path : {"", "/a", "..", "../a", "a/../b", "a/.."}) {
    CHECK_FALSE(file::namesBelow(path));
  }
}

} // namespace ashlar::test::file_test
