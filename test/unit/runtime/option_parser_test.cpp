// SPDX-License-Identifier: Apache-2.0
//
// The command line of compiled programs.

#include "runtime/base/option_parser.h"

#include <catch2/catch.hpp>

namespace ashlar::test::option_parser_test {

using namespace ashlar::rt;

// A parser with an option of each kind, and what they are set to.
struct Line {
  std::string text = "kept", kind;
  std::vector<std::string> many;
  std::vector<int64_t> ids;
  uint64_t count = 7;
  std::optional<uint64_t> limit;
  int threads = 0;
  double share = 1;
  bool flag = false;
  OptionParser parser{"Runs a program."};

  Line() {
    parser.add("--text", text, "FILE", "a text", text);
    parser.add("--many", many, "A=B", "several");
    parser.add("--ids", ids, "ID", "numbers");
    parser.addCount("--count", count, "a count", "7");
    parser.addCount("--limit", limit, "a limit");
    parser.addCount("--threads", threads, "threads", 1, 1024);
    parser.addNumber("--share", share, "P", "a share", "1", 0, 1);
    parser.addFlag("--flag", flag, "a flag");
    parser.addFlag("--kind", kind, "a kind");
  }

  // Returns the error; "" for none, "help" where the line asks for help.
  std::string parse(std::vector<const char *> arguments) {
    arguments.insert(arguments.begin(), "program");
    bool asksForHelp = false;
    const Status status = parser.parse(static_cast<int>(arguments.size()), arguments.data(), asksForHelp);
    return !status.ok() ? std::string(status.message()) : asksForHelp ? "help" : "";
  }
};

TEST_CASE("options: values behind the name and behind =", "[options]") {
  Line line;
  REQUIRE(line.parse({"--text", "a b", "--many", "x=1", "--many=y=2", "--ids", "-3", "--ids=4", "--count=18446744073709551615", "--limit",
                      "0", "--threads", "1024", "--share", "0.25", "--flag", "--kind"}) == "");
  CHECK(line.text == "a b");
  CHECK(line.many == std::vector<std::string>{"x=1", "y=2"});
  CHECK(line.ids == std::vector<int64_t>{-3, 4});
  CHECK(line.count == UINT64_MAX);
  CHECK(line.limit == 0u);
  CHECK(line.threads == 1024);
  CHECK(line.share == 0.25);
  CHECK(line.flag);
  CHECK(line.kind == "true");
  CHECK(line.parser.count("--many") == 2);
  CHECK(line.parser.count("--text") == 1);
}

TEST_CASE("options: those that are not given keep their values", "[options]") {
  Line line;
  REQUIRE(line.parse({"--kind=all"}) == "");
  CHECK(line.text == "kept");
  CHECK(line.count == 7);
  CHECK(!line.limit);
  CHECK(line.kind == "all");
  CHECK(line.parser.count("--text") == 0);
}

TEST_CASE("options: faults name the option and the remedy", "[options]") {
  const std::string lists = "; --help lists the options";
  const std::vector<std::pair<std::vector<const char *>, std::string>> cases = {
      {{"--bogus"}, "The following argument was not expected: --bogus"},
      {{"--tex", "a"}, "The following argument was not expected: --tex"}, // no abbreviations
      {{"stray"}, "The following argument was not expected: stray"},
      {{"--text", "a", "--text", "b"}, "--text is given 2 times; give it once"},
      {{"--text"}, "--text: 1 required FILE missing"},
      {{"--text", "--flag"}, "--text: 1 required FILE missing"},
      {{"--text", "--count=3"}, "--text: 1 required FILE missing"},
      {{"--text", "--help"}, "--text: 1 required FILE missing"},
      {{"--text", "-h"}, "--text: 1 required FILE missing"},
      {{"--text", ""}, "--text: its value is empty; give it one, or leave the option out"},
      {{"--text="}, "--text: its value is empty; give it one, or leave the option out"},
      {{"--kind="}, "--kind: its value is empty; give it one, or leave the option out"},
      {{"--flag=no"}, "--flag takes no value, and \"no\" is given"},
      {{"--count", "-1"}, "--count: -1 is not a whole number from 0 to 18446744073709551615"},
      {{"--count", "18446744073709551616"}, "--count: 18446744073709551616 is not a whole number from 0 to 18446744073709551615"},
      {{"--count", "1.5"}, "--count: 1.5 is not a whole number from 0 to 18446744073709551615"},
      {{"--threads", "0"}, "--threads: 0 is not a whole number from 1 to 1024"},
      {{"--threads", "1025"}, "--threads: 1025 is not a whole number from 1 to 1024"},
      {{"--ids", "x"}, "--ids: x is not a whole number"},
      {{"--share", "nan"}, "--share: nan is not a number from 0 to 1"},
      {{"--share", "1.01"}, "--share: 1.01 is not a number from 0 to 1"},
  };
  for (const auto &[arguments, fault] : cases) {
    Line line;
    CHECK(line.parse(arguments) == fault + lists);
  }
}

TEST_CASE("options: help comes before the rest of the line", "[options]") {
  for (const char *name : {"-h", "--help"}) {
    Line line;
    CHECK(line.parse({name, "--bogus"}) == "help");
  }
  Line line;
  const std::string help = line.parser.help("./model");
  CHECK(help.find("Runs a program.\nUsage: ./model [OPTIONS]\n\nOptions:\n") == 0);
  CHECK(help.find("\n  --text FILE=kept            a text\n") != std::string::npos);
  CHECK(help.find("\n  --flag                      a flag\n") != std::string::npos);
}

} // namespace ashlar::test::option_parser_test
