// For tests of commands: a typed command line, and what it printed.
#ifndef STRATA_CLIENT_COMMANDS_COMMAND_TEST_SUPPORT_H_
#define STRATA_CLIENT_COMMANDS_COMMAND_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "client/commands/registry.h"

namespace strata::client {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline std::string TakeContents(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

// `out_path`: where its standard output goes instead of into the outcome.
inline Outcome RunTyped(const std::vector<std::string>& typed, const char* out_path = nullptr) {
  std::FILE* out = out_path == nullptr ? std::tmpfile() : std::fopen(out_path, "w");
  std::FILE* err = std::tmpfile();
  Terminal terminal(out, err, {});
  Outcome outcome;
  outcome.code = RunCommandLine(typed, terminal);
  if (out_path == nullptr) outcome.out = TakeContents(out);
  if (out_path != nullptr) std::fclose(out);
  outcome.err = TakeContents(err);
  return outcome;
}

// A file of the running test, by name; its path.
inline std::string FileWith(const std::string& name, const std::string& text) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + test.test_suite_name() + "_" + name;
  std::ofstream(path) << text;
  return path;
}

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_COMMAND_TEST_SUPPORT_H_
