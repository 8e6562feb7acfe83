// strata-worker: one agent per node of a cluster, or the worker of a single task (--standalone).
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/clock.h"
#include "protocol/exit_codes.h"
#include "worker/agent/cluster/agent_options.h"
#include "worker/agent/cluster/cluster_agent.h"
#include "worker/agent/cluster/stop_agent.h"
#include "worker/agent/machine/job_user.h"
#include "worker/agent/machine/process_stack.h"
#include "worker/agent/standalone/client_link.h"
#include "worker/agent/standalone/standalone.h"
#include "worker/shared/version.h"

namespace {

using strata::protocol::kExitDone;
using strata::protocol::kExitFailed;
using strata::protocol::kExitInterrupted;
using strata::protocol::kExitUsage;

constexpr char kUsage[] =
    "usage: strata-worker --standalone | --controller HOST:PORT … | stop … | --version | --help\n"
    "  --standalone   run one task: a StandaloneRequest on stdin, StandaloneEvents on stdout;\n"
    "                 started by strata run, eval, generate and calibrate\n";

int Serve() {
  using strata::worker::ClientLink;
  auto client = ClientLink::Open(STDIN_FILENO, STDOUT_FILENO);
  if (!client.ok()) {
    std::fprintf(stderr, "strata-worker: %s\n", client.status().ToString().c_str());
    return kExitFailed;
  }
  const auto request = (*client)->ReadRequest();
  if (!request.ok()) {
    std::fprintf(stderr, "strata-worker: %s\n", request.status().ToString().c_str());
    return (*client)->interrupts() > 0 ? kExitInterrupted : kExitUsage;
  }
  const strata::common::MonotonicClock clock{};
  const strata::v1::Finished finished = strata::worker::RunStandalone(*request, **client, clock);
  (*client)->Finish(finished);
  return finished.exit_code();
}

int ServeCluster(const std::vector<std::string>& arguments) {
  const auto options = strata::worker::ParseClusterOptions(arguments);
  if (!options.ok()) {
    std::fprintf(stderr, "strata-worker: %s — strata-worker --help tells what there is\n",
                 std::string(options.status().message()).c_str());
    return kExitUsage;
  }
  umask(0077);  // what jobs read and write is nobody else's; trainers inherit it
  const strata::common::MonotonicClock clock{};
  return strata::worker::RunClusterAgent(*options, clock);
}

int Stop(const std::vector<std::string>& arguments) {
  const auto options = strata::worker::ParseStopOptions(arguments);
  if (!options.ok()) {
    std::fprintf(stderr, "strata-worker stop: %s — strata-worker --help tells what there is\n",
                 std::string(options.status().message()).c_str());
    return kExitUsage;
  }
  const strata::common::MonotonicClock clock{};
  const auto stopped = strata::worker::StopAgent(*options, clock);
  if (stopped.ok()) return kExitDone;
  std::fprintf(stderr, "strata-worker stop: %s\n", std::string(stopped.status().message()).c_str());
  return kExitFailed;
}

int PrintStack(const std::string& process) {
  int pid = 0;
  const auto stack = absl::SimpleAtoi(process, &pid)
                         ? strata::worker::DescribeStack(pid)
                         : absl::InvalidArgumentError("no process number");
  if (stack.ok()) {
    std::printf("%s", stack->c_str());
  } else {
    std::printf("(no stack: %s)", std::string(stack.status().message()).c_str());
  }
  return stack.ok() ? kExitDone : kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--standalone") == 0) return Serve();
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("strata-worker %s\n", strata::worker::kVersion);
    return 0;
  }
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (argc == 3 && arguments[0] == strata::worker::kStackOf) return PrintStack(arguments[1]);
  if (argc > 1 && arguments[0] == "--exec-as") {
    return strata::worker::ExecAs({arguments.begin() + 1, arguments.end()});
  }
  if (!arguments.empty() && arguments[0] == "stop") {
    return Stop({arguments.begin() + 1, arguments.end()});
  }
  const bool help = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  if (!arguments.empty() && !help) return ServeCluster(arguments);
  std::fprintf(help ? stdout : stderr, "%s%s%s", kUsage, strata::worker::kClusterUsage,
               strata::worker::kStopUsage);
  return help ? 0 : 2;
}
