// `strata`, the command line.
#include <cstdio>
#include <string>
#include <vector>

#include "client/commands/registry.h"
#include "client/terminal/terminal.h"

int main(int argc, char** argv) {
  const std::vector<std::string> typed(argv + (argc > 0 ? 1 : 0), argv + argc);
  strata::client::Terminal terminal(stdout, stderr, strata::client::DetectTerminal());
  return strata::client::RunCommandLine(typed, terminal);
}
