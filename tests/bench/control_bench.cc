// The control plane under load, with the real controller on this machine's disk: durable submits
// per second and their latency while agents' sessions beat, the controller's memory, and whether
// what was acknowledged is there after kill -9.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
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
  double seconds = 20;
  int jobs_per_client = 40;  // then each submit is followed by a cancellation of the oldest
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
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
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
  std::vector<double> submit_seconds;
  std::vector<double> cancel_seconds;
  std::map<std::string, int> failures;  // by message
  std::string last;                     // acknowledged

  template <typename Call>
  bool Timed(std::vector<double>& seconds, const Call& call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    const Clock::time_point begin = Clock::now();
    const grpc::Status status = call(context);
    seconds.push_back(Since(begin));
    if (!status.ok()) ++failures[status.error_message().substr(0, 200)];
    return status.ok();
  }

  void Run(int number, const Flags& flags, Clock::time_point begin) {
    std::deque<std::string> open;
    v1::Job job;
    for (int i = 0; Since(begin) < flags.seconds; ++i) {
      const std::string name = "c" + std::to_string(number) + "-" + std::to_string(i);
      const v1::CreateJobRequest request = Request(name);
      if (Timed(submit_seconds, [&](grpc::ClientContext& context) {
            return stub->CreateJob(&context, request, &job);
          })) {
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

// How many of the jobs that were acknowledged last are missing from a controller on `directory`.
int Missing(const Flags& flags, const std::string& directory, const std::vector<Client>& clients) {
  const Daemon daemon(flags, directory);
  if (!daemon.runs()) return static_cast<int>(clients.size());
  const auto stub = Connect(daemon.address());
  int missing = 0;
  for (const Client& client : clients) {
    if (client.last.empty()) continue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::GetJobRequest request;
    request.set_name(client.last);
    v1::Job job;
    if (!stub->GetJob(&context, request, &job).ok()) ++missing;
  }
  return missing;
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
  const int64_t memory_before = daemon->memory();
  std::vector<Client> clients(flags.clients);
  for (Client& client : clients) client.stub = Connect(daemon->address());
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < flags.clients; ++i) {
    threads.emplace_back([&, i] { clients[i].Run(i, flags, begin); });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = Since(begin);
  const int64_t memory_after = daemon->memory();

  std::vector<double> submits;
  std::vector<double> cancels;
  std::map<std::string, int> failures;
  for (Client& client : clients) {
    submits.insert(submits.end(), client.submit_seconds.begin(), client.submit_seconds.end());
    cancels.insert(cancels.end(), client.cancel_seconds.begin(), client.cancel_seconds.end());
    for (const auto& [message, count] : client.failures) failures[message] += count;
  }
  const int sessions_lost = agents->ended();
  const auto heartbeats = static_cast<double>(agents->heartbeats());
  const int64_t prepared = agents->prepared();
  daemon->Kill();
  agents.reset();
  const nlohmann::json result = {
      {"agents_welcomed", welcome},
      {"seconds", seconds},
      {"submits", submits.size()},
      {"submits_per_second", static_cast<double>(submits.size()) / seconds},
      {"submit_p50_ms", 1e3 * Quantile(submits, 0.5)},
      {"submit_p99_ms", 1e3 * Quantile(submits, 0.99)},
      {"submit_max_ms", 1e3 * Quantile(submits, 1)},
      {"cancels_per_second", static_cast<double>(cancels.size()) / seconds},
      {"cancel_p99_ms", 1e3 * Quantile(cancels, 0.99)},
      {"heartbeats_per_second", heartbeats / seconds},
      {"prepared", prepared},
      {"sessions_lost", sessions_lost},
      {"memory_before_bytes", memory_before},
      {"memory_after_bytes", memory_after},
      {"failures", failures},
      {"acknowledged_missing_after_kill", Missing(flags, directory, clients)}};
  std::printf("%s\n", result.dump(2).c_str());
  std::error_code error;
  fs::remove_all(directory, error);
  const bool sound = welcome && failures.empty() && sessions_lost == 0 &&
                     result["acknowledged_missing_after_kill"] == 0;
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
  app.add_option("--jobs-per-client", flags.jobs_per_client, "kept before the oldest is cancelled")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem);
  }
  return strata::bench::Run(flags);
}
