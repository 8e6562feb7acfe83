// strata-worker: one agent per node of a cluster, or the worker of a single task (--standalone).
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "common/clock.h"
#include "worker/agent/cluster/agent_options.h"
#include "worker/agent/cluster/cluster_agent.h"
#include "worker/agent/cluster/stop_agent.h"
#include "worker/agent/machine/job_user.h"
#include "worker/agent/standalone/client_link.h"
#include "worker/agent/standalone/standalone.h"
#include "worker/shared/version.h"

namespace {

constexpr char kUsage[] =
    "usage: strata-worker --standalone | --controller HOST:PORT … | stop … | --version | --help\n"
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
  const strata::common::MonotonicClock clock{};
  const strata::v1::Finished finished = strata::worker::RunStandalone(*request, **client, clock);
  (*client)->Finish(finished);
  return finished.exit_code();
}

int ServeCluster(const std::vector<std::string>& arguments) {
  const auto options = strata::worker::ParseClusterOptions(arguments);
  if (!options.ok()) {
    std::fprintf(stderr, "strata-worker: %s\n%s%s", std::string(options.status().message()).c_str(),
                 kUsage, strata::worker::kClusterUsage);
    return 2;
  }
  umask(0077);  // what jobs read and write is nobody else's; trainers inherit it
  const strata::common::MonotonicClock clock{};
  return strata::worker::RunClusterAgent(*options, clock);
}

int Stop(const std::vector<std::string>& arguments) {
  const auto options = strata::worker::ParseStopOptions(arguments);
  if (!options.ok()) {
    std::fprintf(stderr, "strata-worker stop: %s\n%s%s",
                 std::string(options.status().message()).c_str(), kUsage,
                 strata::worker::kStopUsage);
    return 2;
  }
  const strata::common::MonotonicClock clock{};
  const auto stopped = strata::worker::StopAgent(*options, clock);
  if (stopped.ok()) return 0;
  std::fprintf(stderr, "strata-worker stop: %s\n", std::string(stopped.status().message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--standalone") == 0) return Serve();
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("strata-worker %s\n", strata::worker::kVersion);
    return 0;
  }
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (argc > 1 && arguments[0] == "--exec-as") {
    return strata::worker::ExecAs({arguments.begin() + 1, arguments.end()});
  }
  if (!arguments.empty() && arguments[0] == "stop") {
    return Stop({arguments.begin() + 1, arguments.end()});
  }
  if (std::find(arguments.begin(), arguments.end(), "--controller") != arguments.end()) {
    return ServeCluster(arguments);
  }
  const bool help = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  std::fprintf(help ? stdout : stderr, "%s%s%s", kUsage, strata::worker::kClusterUsage,
               strata::worker::kStopUsage);
  return help ? 0 : 2;
}
