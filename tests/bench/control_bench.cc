// The control plane under load, with the real controller on this machine's disk: durable submits
// per second and their latency while agents' sessions beat, the controller's memory, and whether
// what was acknowledged is there after kill -9.
//
// First the controller is filled with as many jobs as it keeps, because only then its memory may be
// flat; then the load goes on as it is and is measured.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "proto/strata/v1/jobs.grpc.pb.h"
#include "tests/bench/simulated_agents.h"

extern char** environ;

namespace strata::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Flags {
  std::string controller;
  std::string directory;
  int agents = 200;
  int clients = 64;
  double seconds = 12;
  int fill = 10000;          // jobs before the measurement begins
  int jobs_per_client = 40;  // then each submit is followed by a cancellation of the oldest
  bool json = false;
};

// What all clients go by.
struct Phase {
  std::atomic<int64_t> acknowledged{0};  // submits
  std::atomic<bool> measured{false};
  std::atomic<bool> over{false};
};

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The daemon, in a process of its own.
class Daemon {
 public:
  Daemon(const Flags& flags, const std::string& directory) {
    const std::string ready = directory + "/ready";
    fs::create_directories(directory);
    fs::remove(ready);
    const std::vector<std::string> words = {
        flags.controller, "--listen", "127.0.0.1:0", "--dir", directory, "--ready-file", ready};
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, argv.data(), environ) != 0) {
      pid_ = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
    while (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
      std::ifstream file(ready);
      const auto content = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
      if (content.is_object()) {
        address_ = content["address"].get<std::string>();
        return;
      }
      std::this_thread::yield();
    }
    pid_ = -1;
  }
  ~Daemon() { Kill(); }
  void Kill() { End(SIGKILL); }
  // Sends the signal and waits for the end. Whether it ended by itself with exit code 0.
  bool End(int signal) {
    if (pid_ <= 0) return false;
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  bool runs() const { return pid_ > 0; }
  const std::string& address() const { return address_; }
  // Resident bytes.
  int64_t memory() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
    }
    return 0;
  }

 private:
  pid_t pid_ = -1;
  std::string address_;
};

v1::CreateJobRequest Request(const std::string& name) {
  v1::CreateJobRequest request;
  request.set_request_id("request-" + name);
  v1::Job& job = *request.mutable_job();
  job.set_name("jobs/" + name);
  v1::JobSpec& spec = *job.mutable_spec();
  spec.set_name(name);
  spec.mutable_model()->set_family(v1::ModelSpec::FAMILY_LLAMA);
  spec.mutable_model()->set_layers(6);
  spec.mutable_model()->set_hidden(384);
  spec.mutable_model()->set_heads(6);
  spec.mutable_model()->set_ffn(1024);
  spec.mutable_data()->add_train()->set_path("/data/text.txt");
  return request;
}

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

std::unique_ptr<v1::JobService::Stub> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::JobService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

double Quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * values.size()))];
}

struct Afterwards {
  int missing = 0;           // of the jobs that were acknowledged last
  double start_seconds = 0;  // until it serves
  double term_seconds = -1;  // from SIGTERM to its end with all agents connected; -1: it failed
};

// The controller anew, on what the killed one has left.
Afterwards StartAgain(const Flags& flags, const std::string& directory,
                      const std::vector<Client>& clients) {
  Afterwards found;
  Clock::time_point begin = Clock::now();
  Daemon daemon(flags, directory);
  found.start_seconds = Since(begin);
  found.missing = static_cast<int>(clients.size());
  if (!daemon.runs()) return found;
  found.missing = 0;
  const auto stub = Connect(daemon.address());
  for (const Client& client : clients) {
    if (client.last.empty()) continue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::GetJobRequest request;
    request.set_name(client.last);
    v1::Job job;
    if (!stub->GetJob(&context, request, &job).ok()) ++found.missing;
  }
  SimulatedAgents agents(daemon.address(), flags.agents);
  if (!agents.AwaitWelcome()) return found;
  begin = Clock::now();
  if (daemon.End(SIGTERM)) found.term_seconds = Since(begin);
  return found;
}

// Waits without looking at anything in between.
void PassTime(double seconds) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::duration<double>(seconds), [] { return false; });
}

struct Load {
  double fill_seconds = 0;
  double seconds = 0;
  int64_t heartbeats = 0;
  std::vector<int64_t> memory;  // at the start, full, halfway, at the end
};

Load PutLoad(const Flags& flags, const Daemon& daemon, const SimulatedAgents& agents,
             std::vector<Client>& clients) {
  constexpr double kLookEvery = 0.05;
  Load load;
  load.memory.push_back(daemon.memory());
  Phase phase;
  Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < flags.clients; ++i) {
    threads.emplace_back([&, i] { clients[i].Run(i, flags, phase); });
  }
  while (phase.acknowledged < flags.fill && agents.ended() == 0) PassTime(kLookEvery);
  load.fill_seconds = Since(begin);
  load.memory.push_back(daemon.memory());
  const int64_t heartbeats = agents.heartbeats();
  begin = Clock::now();
  phase.measured = true;
  for (int half = 0; half < 2; ++half) {
    PassTime(flags.seconds / 2);
    load.memory.push_back(daemon.memory());
  }
  phase.over = true;
  load.seconds = Since(begin);
  load.heartbeats = agents.heartbeats() - heartbeats;
  for (std::thread& thread : threads) thread.join();
  return load;
}

void PrintTable(const nlohmann::json& result) {
  const auto number = [&](const char* key) { return result[key].get<double>(); };
  const auto mib = [&](int i) { return result["memory_bytes"][i].get<double>() / (1 << 20); };
  std::printf("sessions of agents        %8.0f, %.0f heartbeats/s, %.0f lost\n", number("agents"),
              number("heartbeats_per_second"), number("sessions_lost"));
  std::printf("clients                   %8.0f, %.1f s after %.0f jobs in %.1f s\n",
              number("clients"), number("seconds"), number("fill_jobs"), number("fill_seconds"));
  std::printf("durable submits           %8.0f /s\n", number("submits_per_second"));
  std::printf("  p50, p99, longest       %8.1f, %.1f, %.1f ms\n", number("submit_p50_ms"),
              number("submit_p99_ms"), number("submit_max_ms"));
  std::printf("and as many cancellations %8.0f /s, p99 %.1f ms\n", number("cancels_per_second"),
              number("cancel_p99_ms"));
  std::printf("resident: empty, full     %8.1f, %.1f MiB\n", mib(0), mib(1));
  std::printf("  halfway, at the end     %8.1f, %.1f MiB\n", mib(2), mib(3));
  std::printf("missing after kill -9     %8.0f of the last of each client\n",
              number("acknowledged_missing_after_kill"));
  std::printf("then start; SIGTERM to end  %6.2f, %.2f s\n", number("start_seconds"),
              number("term_seconds"));
  for (const auto& [message, count] : result["failures"].items()) {
    std::printf("failed %d times: %s\n", count.get<int>(), message.c_str());
  }
}

int Run(const Flags& flags) {
  const std::string directory = flags.directory + "/control_bench-" + std::to_string(getpid());
  auto daemon = std::make_unique<Daemon>(flags, directory);
  if (!daemon->runs()) {
    std::fprintf(stderr, "control_bench: %s does not start\n", flags.controller.c_str());
    return 1;
  }
  auto agents = std::make_unique<SimulatedAgents>(daemon->address(), flags.agents);
  const bool welcome = agents->AwaitWelcome();
  std::vector<Client> clients(flags.clients);
  for (Client& client : clients) client.stub = Connect(daemon->address());
  const Load load = PutLoad(flags, *daemon, *agents, clients);

  std::vector<double> submits;
  std::vector<double> cancels;
  std::map<std::string, int> failures;
  for (Client& client : clients) {
    submits.insert(submits.end(), client.submit_seconds.begin(), client.submit_seconds.end());
    cancels.insert(cancels.end(), client.cancel_seconds.begin(), client.cancel_seconds.end());
    for (const auto& [message, count] : client.failures) failures[message] += count;
  }
  const int sessions_lost = agents->ended();
  daemon->Kill();
  agents.reset();
  const Afterwards afterwards = StartAgain(flags, directory, clients);
  const nlohmann::json result = {
      {"agents", flags.agents},
      {"agents_welcomed", welcome},
      {"clients", flags.clients},
      {"fill_jobs", flags.fill},
      {"fill_seconds", load.fill_seconds},
      {"seconds", load.seconds},
      {"submits", submits.size()},
      {"submits_per_second", static_cast<double>(submits.size()) / load.seconds},
      {"submit_p50_ms", 1e3 * Quantile(submits, 0.5)},
      {"submit_p99_ms", 1e3 * Quantile(submits, 0.99)},
      {"submit_max_ms", 1e3 * Quantile(submits, 1)},
      {"cancels_per_second", static_cast<double>(cancels.size()) / load.seconds},
      {"cancel_p99_ms", 1e3 * Quantile(cancels, 0.99)},
      {"heartbeats_per_second", static_cast<double>(load.heartbeats) / load.seconds},
      {"sessions_lost", sessions_lost},
      {"memory_bytes", load.memory},
      {"failures", failures},
      {"acknowledged_missing_after_kill", afterwards.missing},
      {"start_seconds", afterwards.start_seconds},
      {"term_seconds", afterwards.term_seconds}};
  if (flags.json) {
    std::printf("%s\n", result.dump(2).c_str());
  } else {
    PrintTable(result);
  }
  std::error_code error;
  fs::remove_all(directory, error);
  const bool sound = welcome && failures.empty() && sessions_lost == 0 && afterwards.missing == 0 &&
                     afterwards.term_seconds >= 0;
  return sound ? 0 : 1;
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
  app.add_option("--clients", flags.clients)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seconds", flags.seconds)->capture_default_str();
  app.add_option("--fill", flags.fill, "jobs before the measurement: as many as are kept")
      ->capture_default_str();
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
