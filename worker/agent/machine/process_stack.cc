#include "worker/agent/machine/process_stack.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/clock.h"
#include "common/small_file.h"
#include "worker/agent/machine/descriptor.h"

extern char** environ;

namespace strata::worker {
namespace {

constexpr size_t kMostFrames = 16;
constexpr size_t kMostNameBytes = 120;

struct Thread {
  std::string name;
  std::vector<std::string> frames;
};

struct Threads {
  Dwfl* dwfl;
  pid_t pid;
  std::vector<Thread> all;
};

// "strata::worker::Engine::RunStep(int, long)" without its arguments: they say little, and a lot of
// it.
std::string PlainName(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? plain.get() : symbol;
  const size_t hidden = name.find("(anonymous namespace)");
  const size_t arguments = name.find('(', hidden == std::string::npos ? 0 : hidden + 1);
  if (arguments != 0 && arguments != std::string::npos) name.resize(arguments);
  if (name.size() > kMostNameBytes) name.replace(kMostNameBytes, std::string::npos, "…");
  return name;
}

std::string FileName(Dwfl_Module* module) {
  const char* path =
      dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (path == nullptr) return "?";
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

int AddFrame(Dwfl_Frame* frame, void* argument) {
  auto& [dwfl, pid, all] = *static_cast<Threads*>(argument);
  Dwarf_Addr address = 0;
  bool interrupted_there = false;
  if (!dwfl_frame_pc(frame, &address, &interrupted_there)) return DWARF_CB_ABORT;
  // A return address may belong to the next function already.
  if (!interrupted_there) --address;
  Dwfl_Module* module = dwfl_addrmodule(dwfl, address);
  const char* symbol = module == nullptr ? nullptr : dwfl_module_addrname(module, address);
  std::string text = symbol == nullptr ? "?" : PlainName(symbol);
  // Of the own program everybody knows the file.
  if (module != nullptr && symbol != nullptr && !absl::StrContains(text, "strata::")) {
    absl::StrAppend(&text, " (", FileName(module), ")");
  }
  std::vector<std::string>& frames = all.back().frames;
  frames.push_back(std::move(text));
  return frames.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

int AddThread(Dwfl_Thread* thread, void* argument) {
  Threads& threads = *static_cast<Threads*>(argument);
  const pid_t id = dwfl_thread_tid(thread);
  const std::string name =
      common::TextOf(absl::StrCat("/proc/", threads.pid, "/task/", id, "/comm"));
  threads.all.push_back({std::string(absl::StripSuffix(name, "\n")), {}});
  // Ends with an error at the outermost frame of what was not compiled for it: what came is told.
  dwfl_thread_getframes(thread, AddFrame, argument);
  return DWARF_CB_OK;
}

std::string Text(const std::vector<Thread>& threads) {
  std::string text;
  for (auto thread = threads.begin(); thread != threads.end(); ++thread) {
    const auto alike = [&](const Thread& other) {
      return other.name == thread->name && other.frames == thread->frames;
    };
    if (thread->frames.empty() || std::any_of(threads.begin(), thread, alike)) continue;
    const auto count = std::count_if(thread, threads.end(), alike);
    absl::StrAppend(&text, thread->name, count == 1 ? "" : absl::StrCat(", ", count, " threads"),
                    "\n  ", absl::StrJoin(thread->frames, "\n  "), "\n");
  }
  return text;
}

std::string Unknown(const std::string& why) { return absl::StrCat("(no stack: ", why, ")"); }

// The child that reads a stack, and what it prints.
class Reader {
 public:
  static std::string Run(pid_t pid, const std::string& program, double seconds) {
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) return Unknown(strerror(errno));
    const Descriptor out(pipe_ends[0]);
    Descriptor in(pipe_ends[1]);
    pid_t child = -1;
    if (const int error = Spawn(pid, program, in.get(), &child)) return Unknown(strerror(error));
    in.Close();
    std::string text;
    const bool ended = ReadAll(out.get(), seconds, text);
    if (!ended) kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!ended) return Unknown("its threads could not be stopped in time");
    return text.empty() ? Unknown("the reader said nothing") : text;
  }

 private:
  static int Spawn(pid_t pid, const std::string& program, int out, pid_t* child) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    const std::string of = absl::StrCat(pid);
    char* const arguments[] = {const_cast<char*>("strata-worker"), const_cast<char*>(kStackOf),
                               const_cast<char*>(of.c_str()), nullptr};
    const int error = posix_spawn(child, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }

  // Until its end, or as much as is wanted; false: the time is over.
  static bool ReadAll(int file, double seconds, std::string& text) {
    const common::MonotonicClock clock{};
    const double deadline = clock.Now() + seconds;
    while (text.size() < kMostStackBytes) {
      const double left = deadline - clock.Now();
      if (left <= 0) return false;
      pollfd waiting{file, POLLIN, 0};
      if (poll(&waiting, 1, static_cast<int>(left * 1e3) + 1) < 0 && errno != EINTR) return false;
      char bytes[1024];
      const ssize_t count = read(file, bytes, sizeof(bytes));
      if (count == 0) return true;
      if (count > 0) text.append(bytes, static_cast<size_t>(count));
    }
    text.resize(text.rfind('\n', kMostStackBytes - 1) + 1);
    return true;
  }
};

}  // namespace

absl::StatusOr<std::string> DescribeStack(pid_t pid) {
  static char* no_debuginfo = nullptr;
  static const Dwfl_Callbacks kCallbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                            .find_debuginfo = dwfl_standard_find_debuginfo,
                                            .section_address = nullptr,
                                            .debuginfo_path = &no_debuginfo};
  const std::unique_ptr<Dwfl, void (*)(Dwfl*)> dwfl(dwfl_begin(&kCallbacks), dwfl_end);
  if (dwfl == nullptr) return absl::InternalError(dwfl_errmsg(-1));
  if (dwfl_linux_proc_report(dwfl.get(), pid) != 0 ||
      dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0) {
    return absl::NotFoundError(absl::StrCat("process ", pid, " cannot be read"));
  }
  if (dwfl_linux_proc_attach(dwfl.get(), pid, /*assume_ptrace_stopped=*/false) != 0) {
    return absl::NotFoundError(absl::StrCat("process ", pid, " is not there"));
  }
  Threads threads{dwfl.get(), pid, {}};
  dwfl_getthreads(dwfl.get(), AddThread, &threads);
  std::string text = Text(threads.all);
  if (!text.empty()) return text;
  return absl::PermissionDeniedError("ptrace is not permitted (see /proc/sys/kernel/yama)");
}

std::string ReadStack(pid_t pid, const std::string& reader, double seconds) {
  return reader.empty() ? "" : Reader::Run(pid, reader, seconds);
}

}  // namespace strata::worker
