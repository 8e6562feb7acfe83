// The daemon as a process, for tests.
#ifndef STRATA_CONTROLLER_DAEMON_TESTING_H_
#define STRATA_CONTROLLER_DAEMON_TESTING_H_

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace strata::controller {

inline constexpr char kProgram[] = "controller/strata-controller";

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class DaemonTest : public testing::Test {
 protected:
  struct Process {
    pid_t pid = -1;
    std::string address;  // once ready
    std::string metrics;
  };
  struct Outcome {
    int status = 0;
    std::string text;  // stdout and stderr
  };

  DaemonTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~DaemonTest() override {
    for (const pid_t pid : running_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
    if (!sockets_.empty()) std::filesystem::remove_all(sockets_);
  }

  // With a short path, which all users may enter.
  const std::string& SocketFolder() {
    if (!sockets_.empty()) return sockets_;
    sockets_ = "/tmp/strata-test-XXXXXX";
    EXPECT_NE(mkdtemp(sockets_.data()), nullptr);
    EXPECT_EQ(chmod(sockets_.c_str(), 0755), 0);
    return sockets_;
  }

  // A program by its path, or its name alone. `input`: a file that it reads; empty: its own's.
  static pid_t SpawnProgram(const std::vector<std::string>& words, const std::string& output,
                            const std::string& input = "") {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (!input.empty()) posix_spawn_file_actions_addopen(&actions, 0, input.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = -1;
    EXPECT_EQ(posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  // `files`: that it may have open; 0: as many as this process.
  static pid_t Spawn(const std::vector<std::string>& arguments, const std::string& output,
                     int files = 0) {
    std::vector<std::string> words;
    if (files > 0) {
      words = {"/bin/sh", "-c", "ulimit -n " + std::to_string(files) + "; exec \"$0\" \"$@\""};
    }
    words.emplace_back(kProgram);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return SpawnProgram(words, output);
  }
  // Runs it to its end.
  Outcome RunToEnd(const std::vector<std::string>& arguments) {
    const std::string output = folder_ + "/output";
    const pid_t pid = Spawn(arguments, output);
    Outcome outcome;
    waitpid(pid, &outcome.status, 0);
    outcome.text = ReadFile(output);
    return outcome;
  }
  // Starts it and waits until it serves.
  Process Start(const std::string& name, const std::string& listen = "127.0.0.1:0", int files = 0,
                const std::vector<std::string>& more = {}) {
    const std::string ready = folder_ + "/" + name + ".ready";
    std::filesystem::remove(ready);
    Process process;
    std::vector<std::string> words = {"--dir", folder_ + "/" + name, "--listen", listen};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--ready-file", ready});
    process.pid = Spawn(words, folder_ + "/" + name + ".output", files);
    running_.push_back(process.pid);
    int status = 0;
    while (!std::filesystem::exists(ready) && waitpid(process.pid, &status, WNOHANG) == 0) {
      std::this_thread::yield();
    }
    const auto content = nlohmann::json::parse(ReadFile(ready), nullptr, false);
    EXPECT_TRUE(content.is_object()) << ReadFile(folder_ + "/" + name + ".output");
    if (!content.is_object()) return process;
    EXPECT_EQ(content["pid"], process.pid);
    process.address = content["address"];
    process.metrics = content["metrics_address"];
    return process;
  }
  int End(const Process& process, int signal) {
    kill(process.pid, signal);
    int status = 0;
    waitpid(process.pid, &status, 0);
    std::erase(running_, process.pid);
    return status;
  }

  // As the daemon writes it: TempDir may end in a slash.
  const std::string folder_ = (std::filesystem::path(testing::TempDir()) /
                               testing::UnitTest::GetInstance()->current_test_info()->name())
                                  .lexically_normal()
                                  .string();
  std::string sockets_;
  std::vector<pid_t> running_;
};

// Connections that say nothing.
inline std::vector<int> Connect(const std::string& address, int count) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  std::vector<int> files;
  for (int i = 0; i < count; ++i) {
    files.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(files.back(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  return files;
}

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_DAEMON_TESTING_H_
