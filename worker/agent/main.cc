// strata-worker: one daemon per node. This build runs single tasks for a client (--standalone).
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "common/clock.h"
#include "worker/agent/client_link.h"
#include "worker/agent/standalone.h"
#include "worker/shared/version.h"

namespace {

constexpr char kUsage[] =
    "usage: strata-worker --standalone | --version | --help\n"
    "  --standalone   run one task: a StandaloneRequest on stdin, StandaloneEvents on stdout;\n"
    "                 started by strata run, eval and generate\n";

int Serve() {
  using strata::worker::ClientLink;
  auto client = ClientLink::Open(STDIN_FILENO, STDOUT_FILENO);
  if (!client.ok()) {
    std::fprintf(stderr, "strata-worker: %s\n", client.status().ToString().c_str());
    return 1;
  }
  const auto request = (*client)->ReadRequest();
  if (!request.ok()) {
    std::fprintf(stderr, "strata-worker: %s\n", request.status().ToString().c_str());
    return (*client)->interrupts() > 0 ? 130 : 2;
  }
  const strata::common::MonotonicClock clock;
  const strata::v1::Finished finished = strata::worker::RunStandalone(*request, **client, clock);
  (*client)->Finish(finished);
  return finished.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--standalone") == 0) return Serve();
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("strata-worker %s\n", strata::worker::kVersion);
    return 0;
  }
  const bool help = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  std::fputs(kUsage, help ? stdout : stderr);
  return help ? 0 : 2;
}
