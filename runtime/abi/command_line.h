// SPDX-License-Identifier: Apache-2.0
//
// How the tools and compiled programs read their command lines: a value may not be empty. It comes from a variable of a script that was not
// set, and what takes "" for "not given" would do something else than what the line says.

#ifndef ASHLAR_RUNTIME_ABI_COMMAND_LINE_H
#define ASHLAR_RUNTIME_ABI_COMMAND_LINE_H

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace ashlar::rt {

inline constexpr const char *kEmptyValue = "its value is empty; give it one, or leave the option out";

// Has each option that takes a value refuse an empty one, those of subcommands too.
inline void refuseEmptyValues(CLI::App &app) {
  for (CLI::Option *option : app.get_options()) {
    if (option->get_items_expected_max() > 0) {
      option->check([](const std::string &value) { return value.empty() ? std::string(kEmptyValue) : std::string(); });
    }
  }
  for (CLI::App *subcommand : app.get_subcommands({})) {
    refuseEmptyValues(*subcommand);
  }
}

// Parses a command line. Throws what App::parse() throws.
inline void parseCommandLine(CLI::App &app, int argc, const char *const *argv) {
  refuseEmptyValues(app);
  for (int i = 1; i < argc; ++i) { // of "--steps=" CLI11 takes the next argument for the value
    const std::string_view argument = argv[i];
    if (argument.size() > 3 && argument.substr(0, 2) == "--" && argument.find('=') == argument.size() - 1) {
      throw CLI::ValidationError(std::string(argument.substr(0, argument.size() - 1)), kEmptyValue);
    }
  }
  app.parse(argc, argv);
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_ABI_COMMAND_LINE_H
