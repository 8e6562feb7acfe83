// The control plane under load, with the real controller on this machine's disk, in turn:
//   what thousands of agents' sessions cost it while nothing else happens;
//   how long it takes to ask for all nodes and for the map;
//   durable submits per second and their latency while the sessions beat. First the controller is
//   filled with as many jobs as it keeps, because only then its memory may be flat;
//   whether what was acknowledged is there after kill -9;
//   how long a heartbeat takes, from its session and back to it, while nothing else happens, while
//   all nodes are listed without a pause, and while a large job is explained without one;
//   what the restart of one large job costs the controller: verdict, stops, placement, the durable
//   decision, requests to prepare, addresses, requests to start.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "proto/strata/v1/cluster.grpc.pb.h"
#include "proto/strata/v1/jobs.grpc.pb.h"
#include "tests/bench/bench_calls.h"
#include "tests/bench/contract.h"
#include "tests/bench/control_flags.h"
#include "tests/bench/controller_process.h"
#include "tests/bench/large_job.h"
#include "tests/bench/node_lists.h"
#include "tests/bench/simulated_agents.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

// What all clients go by.
struct Phase {
  std::atomic<int64_t> acknowledged{0};  // submits
  std::atomic<bool> measured{false};
  std::atomic<bool> over{false};
};

// One client: submits until the time is over.
struct Client {
  std::unique_ptr<v1::JobService::Stub> stub;
  const Phase* phase = nullptr;
  std::vector<double> submit_seconds;
  std::vector<double> cancel_seconds;
  std::map<std::string, int> failures;  // by message
  std::string last;                     // acknowledged

  template <typename Call>
  bool Timed(std::vector<double>& seconds, const Call& call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    const bool counts = phase->measured;
    const Clock::time_point begin = Clock::now();
    const grpc::Status status = call(context);
    if (counts && !phase->over && status.ok()) seconds.push_back(Since(begin));
    if (!status.ok()) ++failures[status.error_message().substr(0, 200)];
    return status.ok();
  }

  void Run(int number, const Flags& flags, Phase& now) {
    phase = &now;
    std::deque<std::string> open;
    v1::Job job;
    for (int i = 0; !now.over; ++i) {
      const std::string name = "c" + std::to_string(number) + "-" + std::to_string(i);
      const v1::CreateJobRequest request = Request(name);
      if (Timed(submit_seconds, [&](grpc::ClientContext& context) {
            return stub->CreateJob(&context, request, &job);
          })) {
        ++now.acknowledged;
        last = job.name();
        open.push_back(job.name());
      }
      if (static_cast<int>(open.size()) <= flags.jobs_per_client) continue;
      v1::CancelJobRequest cancel;
      cancel.set_name(open.front());
      open.pop_front();
      Timed(cancel_seconds,
            [&](grpc::ClientContext& context) { return stub->CancelJob(&context, cancel, &job); });
    }
  }
};

double Quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * values.size()))];
}

struct Afterwards {
  int missing = 0;            // of the jobs that were acknowledged last
  double start_seconds = 0;   // until it serves
  double return_seconds = 0;  // from then until all agents are welcomed again
  double term_seconds = -1;   // from SIGTERM to its end with all agents connected; -1: it failed
};

// The controller anew, on what the killed one has left.
Afterwards StartAgain(const Flags& flags, const std::string& directory,
                      BenchCertificates* certificates, const std::vector<Client>& clients) {
  Afterwards found;
  Clock::time_point begin = Clock::now();
  ControllerProcess daemon(flags.controller, directory, certificates);
  found.start_seconds = Since(begin);
  found.missing = static_cast<int>(clients.size());
  if (!daemon.runs()) return found;
  found.missing = 0;
  const auto stub = v1::JobService::NewStub(daemon.Connect());
  for (const Client& client : clients) {
    if (client.last.empty()) continue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::GetJobRequest request;
    request.set_name(client.last);
    v1::Job job;
    if (!stub->GetJob(&context, request, &job).ok()) ++found.missing;
  }
  begin = Clock::now();
  SimulatedAgents agents(daemon, flags.agents, flags.devices);
  if (!agents.AwaitWelcome()) return found;
  found.return_seconds = Since(begin);
  begin = Clock::now();
  if (daemon.Terminate()) found.term_seconds = Since(begin);
  return found;
}

// Heartbeats and nothing else.
struct Idle {
  double seconds = 0;
  int64_t heartbeats = 0;
  double processor_seconds = 0;  // the controller's
};

Idle StayIdle(const Flags& flags, const ControllerProcess& daemon, const SimulatedAgents& agents) {
  const Clock::time_point begin = Clock::now();
  const int64_t heartbeats = agents.heartbeats();
  const double used = daemon.processor_seconds();
  PassTime(flags.idle);
  Idle idle;
  idle.processor_seconds = daemon.processor_seconds() - used;
  idle.heartbeats = agents.heartbeats() - heartbeats;
  idle.seconds = Since(begin);
  return idle;
}

struct Load {
  double fill_seconds = 0;
  double seconds = 0;
  int64_t heartbeats = 0;
  double processor_seconds = 0;  // the controller's, while it is measured
  // At the start, with all sessions, after a while of heartbeats, full of jobs, halfway, at the
  // end.
  std::vector<int64_t> memory;
};

void PutLoad(const Flags& flags, const ControllerProcess& daemon, const SimulatedAgents& agents,
             std::vector<Client>& clients, Load& load) {
  constexpr double kLookEvery = 0.05;
  Phase phase;
  Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  threads.reserve(flags.clients);
  for (int i = 0; i < flags.clients; ++i) {
    threads.emplace_back([&, i] { clients[i].Run(i, flags, phase); });
  }
  while (phase.acknowledged < flags.fill && agents.ended() == 0) PassTime(kLookEvery);
  load.fill_seconds = Since(begin);
  load.memory.push_back(daemon.resident_bytes());
  const int64_t heartbeats = agents.heartbeats();
  const double used = daemon.processor_seconds();
  begin = Clock::now();
  phase.measured = true;
  for (int half = 0; half < 2; ++half) {
    PassTime(flags.seconds / 2);
    load.memory.push_back(daemon.resident_bytes());
  }
  phase.over = true;
  load.seconds = Since(begin);
  load.heartbeats = agents.heartbeats() - heartbeats;
  load.processor_seconds = daemon.processor_seconds() - used;
  for (std::thread& thread : threads) thread.join();
}

void PrintTable(const nlohmann::json& result) {
  const auto number = [&](const char* key) { return result[key].get<double>(); };
  const auto mib = [&](int i) { return result["memory_bytes"][i].get<double>() / (1 << 20); };
  std::printf("sessions of agents        %8.0f, welcome after %.1f s, %.0f lost\n",
              number("agents"), number("welcome_seconds"), number("sessions_lost"));
  std::printf(
      "  heartbeats alone        %8.0f /s, each %.0f us of the controller's processor time\n",
      number("idle_heartbeats_per_second"), number("heartbeat_processor_us"));
  std::printf("  resident per session    %8.1f KiB\n", number("session_bytes") / 1024);
  for (const char* what : {"nodes", "topology"}) {
    const nlohmann::json& asked = result[what];
    std::printf("all %-21s %8.1f ms, %d in %d messages of at most %.0f KiB\n", what,
                asked["ms"].get<double>(), asked["nodes"].get<int>(), asked["pages"].get<int>(),
                asked["longest_bytes"].get<double>() / 1024);
  }
  std::printf(
      "clients                   %8.0f, %.1f s after %.0f jobs in %.1f s, %.0f heartbeats/s\n",
      number("clients"), number("seconds"), number("fill_jobs"), number("fill_seconds"),
      number("heartbeats_per_second"));
  std::printf("durable submits           %8.0f /s\n", number("submits_per_second"));
  std::printf("  p50, p99, longest       %8.1f, %.1f, %.1f ms\n", number("submit_p50_ms"),
              number("submit_p99_ms"), number("submit_max_ms"));
  std::printf("and as many cancellations %8.0f /s, p99 %.1f ms\n", number("cancels_per_second"),
              number("cancel_p99_ms"));
  std::printf("  each change, beats too  %8.0f us of the controller's processor time\n",
              number("processor_us_per_change"));
  std::printf(
      "resident: at the start    %8.1f MiB, with all sessions %.1f, after the heartbeats %.1f\n",
      mib(0), mib(1), mib(2));
  std::printf("  full of jobs, halfway   %8.1f, %.1f MiB, at the end %.1f\n", mib(3), mib(4),
              mib(5));
  std::printf("missing after kill -9     %8.0f of the last of each client\n",
              number("acknowledged_missing_after_kill"));
  std::printf("then starts in            %8.2f s, has all sessions after %.2f s, ends in %.2f s\n",
              number("start_seconds"), number("return_seconds"), number("term_seconds"));
  for (const char* beside : {"alone", "lists", "explains"}) {
    const nlohmann::json& waits = result["waits"][beside];
    const auto ms = [&](const char* key) { return waits[key].get<double>(); };
    std::printf("beside %-10s %6.0f of them: heartbeats p50 %.1f, p99 %.1f, longest %.1f ms\n",
                beside, ms("answers"), ms("heartbeat_p50_ms"), ms("heartbeat_p99_ms"),
                ms("heartbeat_max_ms"));
    std::printf("  small calls through the writer   p50 %.1f, p99 %.1f, longest %.1f ms\n",
                ms("call_p50_ms"), ms("call_p99_ms"), ms("call_max_ms"));
  }
  if (result.contains("restart")) {
    const nlohmann::json& restart = result["restart"];
    std::printf(
        "a job of %.0f ranks on %.0f nodes restarts in %.2f s, %.2f s of the controller's "
        "processor time\n  (its first start: %.2f s, %.2f s; a rank has %.0f peers; %.0f KiB to "
        "start each node)\n",
        restart["ranks"].get<double>(), restart["nodes"].get<double>(),
        restart["seconds"].get<double>(), restart["processor_seconds"].get<double>(),
        restart["start_seconds"].get<double>(), restart["start_processor_seconds"].get<double>(),
        restart["peers"].get<double>(), restart["start_bytes"].get<double>() / 1024);
  }
  for (const auto& [message, count] : result["failures"].items()) {
    std::printf("failed %d times: %s\n", count.get<int>(), message.c_str());
  }
}

nlohmann::json ToJson(const Question& question) {
  return {{"nodes", question.nodes},
          {"pages", question.pages},
          {"longest_bytes", question.longest_bytes},
          {"ms", 1e3 * question.seconds}};
}

// What the clients found.
nlohmann::json Summary(const Load& load, std::vector<Client>& clients) {
  std::vector<double> submits;
  std::vector<double> cancels;
  std::map<std::string, int> failures;
  for (Client& client : clients) {
    submits.insert(submits.end(), client.submit_seconds.begin(), client.submit_seconds.end());
    cancels.insert(cancels.end(), client.cancel_seconds.begin(), client.cancel_seconds.end());
    for (const auto& [message, count] : client.failures) failures[message] += count;
  }
  return {{"fill_seconds", load.fill_seconds},
          {"seconds", load.seconds},
          {"submits", submits.size()},
          {"submits_per_second", static_cast<double>(submits.size()) / load.seconds},
          {"submit_p50_ms", 1e3 * Quantile(submits, 0.5)},
          {"submit_p99_ms", 1e3 * Quantile(submits, 0.99)},
          {"submit_max_ms", 1e3 * Quantile(submits, 1)},
          {"processor_us_per_change",
           1e6 * load.processor_seconds / static_cast<double>(submits.size() + cancels.size())},
          {"cancels_per_second", static_cast<double>(cancels.size()) / load.seconds},
          {"cancel_p99_ms", 1e3 * Quantile(cancels, 0.99)},
          {"heartbeats_per_second", static_cast<double>(load.heartbeats) / load.seconds},
          {"memory_bytes", load.memory},
          {"failures", failures}};
}

// Both ends of a connection are open files, those of the clients and agents here.
bool RaiseOpenFiles(const Flags& flags) {
  constexpr int kOthers = 64;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t needed = std::max(flags.agents, flags.restart_nodes) + flags.clients + kOthers;
  if (needed <= limit.rlim_max) return true;
  std::fprintf(stderr, "control_bench: it may open %ju files, %ju are needed: see ulimit -Hn\n",
               static_cast<uintmax_t>(limit.rlim_max), static_cast<uintmax_t>(needed));
  return false;
}

bool MeasureRestart(const Flags& flags, const std::string& directory,
                    BenchCertificates* certificates, nlohmann::json& result) {
  const Restart restart =
      RestartLargeJob({flags.controller, directory + "-restart", flags.restart_nodes,
                       flags.restart_devices, flags.restart_data, certificates});
  result["restart"] = {{"nodes", flags.restart_nodes},
                       {"ranks", flags.restart_nodes * flags.restart_devices},
                       {"start_seconds", restart.start_seconds},
                       {"start_processor_seconds", restart.start_processor_seconds},
                       {"seconds", restart.seconds},
                       {"processor_seconds", restart.processor_seconds},
                       {"peers", restart.peers},
                       {"start_bytes", restart.start_bytes}};
  return restart.done;
}

nlohmann::json ToJson(Waits waits) {
  return {{"answers", waits.answers},
          {"heartbeat_p50_ms", 1e3 * Quantile(waits.heartbeats, 0.5)},
          {"heartbeat_p99_ms", 1e3 * Quantile(waits.heartbeats, 0.99)},
          {"heartbeat_max_ms", 1e3 * Quantile(waits.heartbeats, 1)},
          {"call_p50_ms", 1e3 * Quantile(waits.calls, 0.5)},
          {"call_p99_ms", 1e3 * Quantile(waits.calls, 0.99)},
          {"call_max_ms", 1e3 * Quantile(waits.calls, 1)}};
}

// The explained job has at most 16,384 ranks, and a power of two of nodes.
nlohmann::json MeasureWaits(const Flags& flags, const ControllerProcess& daemon,
                            SimulatedAgents& agents) {
  constexpr int kMostRanks = 16384;
  const auto stub = v1::ClusterService::NewStub(daemon.Connect());
  int nodes = 1;
  while (2 * nodes <= flags.agents && 2 * nodes * flags.devices <= kMostRanks) nodes *= 2;
  return {
      {"alone", ToJson(WaitBeside(daemon, agents, flags.idle, nullptr))},
      {"lists", ToJson(WaitBeside(daemon, agents, flags.idle,
                                  [&] { return AskNodes(*stub).nodes == flags.agents; }))},
      {"explains", ToJson(WaitBesideExplains(daemon, agents, nodes, flags.devices, flags.idle))},
      {"explained_ranks", nodes * flags.devices}};
}

// Null: it could not be. "sound": all answered, and nothing that was acknowledged was lost.
nlohmann::json Measure(const Flags& flags) {
  if (!RaiseOpenFiles(flags)) return nullptr;
  const std::string directory = flags.directory + "/control_bench-" + std::to_string(getpid());
  std::optional<BenchCertificates> made;
  if (flags.tls) made.emplace(directory + "-certificates");
  BenchCertificates* const certificates = made.has_value() ? &*made : nullptr;
  ControllerProcess daemon(flags.controller, directory, certificates);
  if (!daemon.runs()) {
    std::fprintf(stderr, "control_bench: %s does not start: see %s/controller.err\n",
                 flags.controller.c_str(), directory.c_str());
    return nullptr;
  }
  Load load;
  load.memory.push_back(daemon.resident_bytes());
  const Clock::time_point begin = Clock::now();
  auto agents = std::make_unique<SimulatedAgents>(daemon, flags.agents, flags.devices);
  const bool welcome = agents->AwaitWelcome();
  const double welcome_seconds = Since(begin);
  load.memory.push_back(daemon.resident_bytes());
  const Idle idle = StayIdle(flags, daemon, *agents);
  load.memory.push_back(daemon.resident_bytes());
  const auto cluster = v1::ClusterService::NewStub(daemon.Connect());
  const Question nodes = AskNodes(*cluster);
  const Question topology = AskTopology(*cluster);
  const nlohmann::json waits = MeasureWaits(flags, daemon, *agents);
  std::vector<Client> clients(flags.clients);
  for (Client& client : clients) client.stub = v1::JobService::NewStub(daemon.Connect());
  PutLoad(flags, daemon, *agents, clients, load);

  const int sessions_lost = agents->ended();
  daemon.Kill();
  agents.reset();
  const Afterwards afterwards = StartAgain(flags, directory, certificates, clients);
  nlohmann::json result = Summary(load, clients);
  result.update(
      {{"agents", flags.agents},
       {"devices", flags.devices},
       {"agents_welcomed", welcome},
       {"welcome_seconds", welcome_seconds},
       {"idle_heartbeats_per_second", static_cast<double>(idle.heartbeats) / idle.seconds},
       {"heartbeat_processor_us",
        1e6 * idle.processor_seconds / static_cast<double>(idle.heartbeats)},
       {"session_bytes", (load.memory[1] - load.memory[0]) / flags.agents},
       {"nodes", ToJson(nodes)},
       {"topology", ToJson(topology)},
       {"waits", waits},
       {"clients", flags.clients},
       {"fill_jobs", flags.fill},
       {"sessions_lost", sessions_lost},
       {"acknowledged_missing_after_kill", afterwards.missing},
       {"start_seconds", afterwards.start_seconds},
       {"return_seconds", afterwards.return_seconds},
       {"term_seconds", afterwards.term_seconds}});
  bool restarted = true;
  if (flags.restart_nodes > 0) restarted = MeasureRestart(flags, directory, certificates, result);
  std::error_code error;
  for (const char* suffix : {"", "-restart", "-certificates"}) {
    fs::remove_all(directory + suffix, error);
  }
  result["sound"] = welcome && restarted && result["failures"].empty() && sessions_lost == 0 &&
                    nodes.nodes == flags.agents && topology.nodes == flags.agents &&
                    waits["lists"]["answers"] > 0 && waits["explains"]["answers"] > 0 &&
                    afterwards.missing == 0 && afterwards.term_seconds >= 0;
  return result;
}

int Run(const Flags& flags) {
  if (flags.contract) return PrintContract(flags, Measure) ? 0 : 1;
  const nlohmann::json result = Measure(flags);
  if (result.is_null()) return 1;
  if (flags.json) {
    std::printf("%s\n", result.dump(2).c_str());
  } else {
    PrintTable(result);
  }
  return result["sound"].get<bool>() ? 0 : 1;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  strata::bench::Flags flags;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  flags.controller =
      self.parent_path().parent_path().parent_path() / "controller/strata-controller";
  flags.directory = std::filesystem::current_path(error);
  CLI::App app("Durable submits per second against simulated agents' sessions.", "control_bench");
  app.add_option("--controller", flags.controller, "the program")->capture_default_str();
  app.add_option("--dir", flags.directory, "on the disk to measure")->capture_default_str();
  app.add_option("--agents", flags.agents)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--devices", flags.devices, "of each agent")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--idle", flags.idle, "seconds of heartbeats alone")->capture_default_str();
  app.add_option("--clients", flags.clients)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seconds", flags.seconds)->capture_default_str();
  app.add_option("--fill", flags.fill, "jobs before the measurement: as many as are kept")
      ->capture_default_str();
  app.add_option("--restart-nodes", flags.restart_nodes,
                 "of a job that is started and restarted; 0: that is left out")
      ->capture_default_str();
  app.add_option("--restart-devices", flags.restart_devices, "of each of them")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--restart-data", flags.restart_data,
               "its degrees are data alone, so that all of its ranks exchange messages");
  app.add_flag("--tls", flags.tls, "all connections with TLS");
  app.add_flag("--contract", flags.contract,
               "instead of one measurement: each aim of the control plane, in some minutes");
  app.add_flag("--trial", flags.trial, "with --contract: small parts only, to see that it works");
  app.add_flag("--json", flags.json, "JSON instead of a table");
  app.add_option("--jobs-per-client", flags.jobs_per_client, "kept before the oldest is cancelled")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem);
  }
  return strata::bench::Run(flags);
}
