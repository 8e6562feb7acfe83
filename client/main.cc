// `strata`, the command line.
#include <fcntl.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "client/commands/registry.h"
#include "client/terminal/terminal.h"

namespace {

// A program started without stdin, stdout or stderr would hand its pipes' descriptors out in their
// place.
void OpenStandardStreams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", O_RDWR) < 0) return;  // takes the lowest free one: this one
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that is gone is told like a full disk
  OpenStandardStreams();
  const std::vector<std::string> typed(argv + (argc > 0 ? 1 : 0), argv + argc);
  strata::client::Terminal terminal(stdout, stderr, strata::client::DetectTerminal());
  return strata::client::RunCommandLine(typed, terminal);
}
