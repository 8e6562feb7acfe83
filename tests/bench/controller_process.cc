#include "tests/bench/controller_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"

extern char** environ;

namespace strata::bench {

ControllerProcess::ControllerProcess(const std::string& program, const std::string& directory,
                                     BenchCertificates* certificates)
    : certificates_(certificates) {
  const std::string ready = directory + "/ready";
  std::filesystem::create_directories(directory);
  std::filesystem::remove(ready);
  std::vector<std::string> words = {program,   "--listen",     "127.0.0.1:0", "--dir",
                                    directory, "--ready-file", ready};
  if (certificates != nullptr) {
    const security::TlsFiles files = certificates->FilesOf("controller");
    words.insert(words.end(), {"--tls-certificate", files.certificate, "--tls-key", files.key,
                               "--tls-authority", files.authority, "--admin", "users/bench"});
  }
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  // Audit records of thousands of calls: beside the state, as a daemon's log would be.
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (directory + "/controller.err").c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
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

std::shared_ptr<grpc::Channel> ControllerProcess::Connect(const std::string& as) const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto credentials = certificates_ == nullptr ? grpc::InsecureChannelCredentials()
                                                    : certificates_->CredentialsOf(as);
  return grpc::CreateCustomChannel(address_, credentials, arguments);
}

void ControllerProcess::Kill() { End(SIGKILL); }

bool ControllerProcess::End(int signal) {
  if (pid_ <= 0) return false;
  kill(pid_, signal);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int64_t ControllerProcess::resident_bytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

double ControllerProcess::processor_seconds() const {
  clockid_t clock = 0;
  timespec used = {};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace strata::bench
