// SPDX-License-Identifier: Apache-2.0
//
// The command line of a compiled program. The tools use CLI11 (runtime/abi/command_line.h); it would be a tenth of a small executable.

#ifndef ASHLAR_RUNTIME_BASE_OPTION_PARSER_H
#define ASHLAR_RUNTIME_BASE_OPTION_PARSER_H

#include "runtime/base/status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::rt {

// Options, each with its variable. A name is "--steps"; a value follows it, or '=' and the value. Checks are in the order of the command
// line.
class OptionParser {
public:
  // Takes the text of an option for its value; returns the fault, "" for none.
  using Take = std::function<std::string(const std::string &text)>;

  explicit OptionParser(std::string summary) : summary(std::move(summary)) {}

  // Add an option whose value has `type` in the help; `shown`: its default there, "" for none.
  void add(const char *name, std::string &value, const char *type, const char *help, std::string shown = "");
  void add(const char *name, std::vector<std::string> &values, const char *type, const char *help); // may be repeated
  void add(const char *name, Take take, const char *type, const char *help, std::string shown = "");
  void add(const char *name, std::vector<int64_t> &numbers, const char *type, const char *help); // may be repeated

  // Adds an option that is a whole number from `least` to `most`.
  void addCount(const char *name, uint64_t &value, const char *help, std::string shown = "", uint64_t least = 0,
                uint64_t most = UINT64_MAX);
  void addCount(const char *name, std::optional<uint64_t> &value, const char *help);
  void addCount(const char *name, int &value, const char *help, int least, int most);

  // Adds an option that is a number from `least` to `most`.
  void addNumber(const char *name, double &value, const char *type, const char *help, std::string shown, double least, double most);

  // Adds an option without a value.
  void addFlag(const char *name, bool &flag, const char *help);

  // Adds an option whose value may be left out, which "true" stands for then; others come behind '='.
  void addFlag(const char *name, std::string &value, const char *help);

  // Takes the command line. `asksForHelp`: it has -h or --help. An error names the option and the remedy.
  Status parse(int argc, const char *const *argv, bool &asksForHelp);

  // Returns how often the command line has the option.
  size_t count(std::string_view name) const;

  // Returns the text of --help for a program of this name.
  std::string help(const std::string &program) const;

private:
  enum class Values { kNone, kOptional, kOne, kMany };
  struct Option {
    std::string name, type, help, shown;
    Values values;
    Take take;
    size_t count = 0;
  };

  Option *find(std::string_view name);
  Status takeOption(std::string_view name, const std::string *attached, int argc, const char *const *argv, int &at);

  std::string summary;
  std::vector<Option> options;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_OPTION_PARSER_H
