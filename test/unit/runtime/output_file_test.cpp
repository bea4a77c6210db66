// SPDX-License-Identifier: Apache-2.0
//
// Files that a run writes: whole or not at all, also when a signal ends it.

#include "runtime/base/output_file.h"
#include "test/unit/data/temporary_folder.h"

#include <csignal>
#include <cstdlib>

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ashlar::test::output_file_test {

using namespace ashlar::rt;

// Run by the next case, in a process that has written nothing yet: handlers are installed once.
TEST_CASE("output: ends by a signal", "[.ends]") {
  const char *folder = std::getenv("ASHLAR_TEST_FOLDER"), *number = std::getenv("ASHLAR_TEST_SIGNAL");
  if (folder == nullptr || number == nullptr) { // run by a pattern of names
    return;
  }
  const int ending = std::atoi(number);
  signal(ending, SIG_DFL); // Catch2 has handlers
  auto file = [&](const char *name) { return std::string(folder) + "/" + name; };
  OutputFile whole, log, partial, dropped;
  bool good = whole.create(file("whole")).ok() && whole.write("whole", 5).ok() && whole.commit().ok();
  good = good && log.createLog(file("log")).ok() && log.write("line", 4).ok();
  good = good && partial.create(file("partial")).ok() && partial.write("half", 4).ok();
  good = good && dropped.create(file("dropped")).ok();
  good ? raise(ending) : 0;
  _exit(1);
}

TEST_CASE("output: a signal removes what has no name yet, and what has one stays", "[base][output]") {
  for (int ending : {SIGTERM, SIGINT, SIGHUP}) {
    ashlar::test::TemporaryFolder folder;
    pid_t child = fork();
    if (child == 0) {
      setenv("ASHLAR_TEST_FOLDER", folder.path().c_str(), 1);
      setenv("ASHLAR_TEST_SIGNAL", std::to_string(ending).c_str(), 1);
      execl("/proc/self/exe", "test_runtime", "output: ends by a signal", nullptr);
      _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(std::filesystem::exists(folder.file("whole")));
    CHECK(std::filesystem::exists(folder.file("log")));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()) == 2);
  }
}

TEST_CASE("output: a process that ends without its destructors removes what has no name yet", "[base][output]") {
  ashlar::test::TemporaryFolder folder;
  OutputFile whole, partial;
  REQUIRE((whole.create(folder.file("whole")).ok() && whole.commit().ok() && partial.create(folder.file("partial")).ok()));
  removePendingOutputs();
  CHECK(std::filesystem::exists(folder.file("whole")));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("output: an error of a write is remembered and names the file", "[base][output]") {
  OutputFile file;
  REQUIRE(file.createLog("/dev/full").ok());
  CHECK(file.write("x", 1).message() == "cannot write /dev/full: No space left on device");
  CHECK(file.close().message() == "cannot write /dev/full: No space left on device");
  ashlar::test::TemporaryFolder folder;
  {
    OutputFile dropped;
    REQUIRE(dropped.create(folder.file("out")).ok());
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("output: a log that goes on begins with the whole lines that are kept", "[base][output]") {
  ashlar::test::TemporaryFolder folder;
  folder.write("log", "keep 1\ndrop 2\n\nkeep 3\nkeep 4, cut");
  std::filesystem::create_hard_link(folder.file("log"), folder.file("other"));
  const OutputFile::Keeps keeps = [](std::string_view line) { return line.substr(0, 4) == "keep"; };
  OutputFile log;
  REQUIRE(log.createLog(folder.file("log"), keeps).ok());
  CHECK(folder.read("log") == "keep 1\nkeep 3\n");
  REQUIRE(log.write("new 5\n", 6).ok());
  CHECK(folder.read("log") == "keep 1\nkeep 3\nnew 5\n");
  CHECK(folder.read("other").size() == 33); // a replaced file is never written to
  OutputFile fresh;
  REQUIRE(fresh.createLog(folder.file("fresh"), keeps).ok());
  CHECK(folder.read("fresh").empty());
  OutputFile started;
  REQUIRE(started.createLog(folder.file("log")).ok());
  CHECK(folder.read("log").empty());
}

TEST_CASE("output: a write that fails leaves no part of itself", "[base][output]") {
  ashlar::test::TemporaryFolder folder;
  OutputFile log;
  REQUIRE(log.createLog(folder.file("log")).ok());
  struct rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit limit = {20, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string line = "a line of 18 bytes";
  const bool first = log.write(line.data(), line.size()).ok();
  const std::string second = log.write(line.data(), line.size()).message(), third = log.write("x", 1).message();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(first);
  CHECK(second == "cannot write " + folder.file("log") + ": File too large");
  CHECK(third == second);
  CHECK(folder.read("log") == line);
}

TEST_CASE("output: a pipe whose reader has left is an error of its log, no signal", "[base][output]") {
  ashlar::test::TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  OutputFile log;
  REQUIRE(log.createLog(path).ok());
  REQUIRE(log.write("x", 1).ok());
  close(reader);
  CHECK(log.write("y", 1).message() == "cannot write " + path + ": Broken pipe");
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
  CHECK(log.close().message() == "cannot write " + path + ": Broken pipe");
}

} // namespace ashlar::test::output_file_test
