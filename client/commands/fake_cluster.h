// For tests of commands: a fake controller, and the whole program run against it.
#ifndef STRATA_CLIENT_COMMANDS_FAKE_CLUSTER_H_
#define STRATA_CLIENT_COMMANDS_FAKE_CLUSTER_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/api/fake_server.h"
#include "client/commands/command_test_support.h"

namespace strata::client {

class FakeClusterTest : public testing::Test {
 protected:
  Outcome Run(std::vector<std::string> typed, const char* out_path = nullptr) {
    typed.insert(typed.end(), {"--server", server_.address().ToString()});
    return RunTyped(typed, out_path);
  }

  FakeServer server_;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_FAKE_CLUSTER_H_
