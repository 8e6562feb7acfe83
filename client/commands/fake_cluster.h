// For tests of commands: a fake controller, and the whole program run against it.
#ifndef STRATA_CLIENT_COMMANDS_FAKE_CLUSTER_H_
#define STRATA_CLIENT_COMMANDS_FAKE_CLUSTER_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "client/api/fake_server.h"
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

class FakeClusterTest : public testing::Test {
 protected:
  // `out_path`: where its standard output goes instead of into the outcome.
  Outcome Run(std::vector<std::string> typed, const char* out_path = nullptr) {
    std::FILE* out = out_path == nullptr ? std::tmpfile() : std::fopen(out_path, "w");
    std::FILE* err = std::tmpfile();
    Terminal terminal(out, err, {});
    typed.insert(typed.end(), {"--server", server_.address().ToString()});
    Outcome outcome;
    outcome.code = RunCommandLine(typed, terminal);
    if (out_path == nullptr) outcome.out = TakeContents(out);
    if (out_path != nullptr) std::fclose(out);
    outcome.err = TakeContents(err);
    return outcome;
  }

  FakeServer server_;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_FAKE_CLUSTER_H_
