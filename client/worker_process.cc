#include "client/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/exit_codes.h"
#include "client/frame_pipe.h"
#include "client/machine.h"
#include "common/clock.h"
#include "common/descriptor.h"
#include "common/status_macros.h"

extern char** environ;

namespace strata::client {
namespace {

using common::Descriptor;
using strata::v1::Finished;
using strata::v1::StandaloneEvent;

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("cannot create a pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP come through a descriptor while this
// lives, and SIGPIPE does not end the process.
class SignalScope {
 public:
  SignalScope() {
    sigemptyset(&caught_);
    sigaddset(&caught_, SIGINT);
    sigaddset(&caught_, SIGTERM);
    struct sigaction hangup = {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) sigaddset(&caught_, SIGHUP);
    sigprocmask(SIG_BLOCK, &caught_, &before_);
    fd_ = Descriptor(signalfd(-1, &caught_, SFD_CLOEXEC | SFD_NONBLOCK));
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &pipe_before_);
  }
  ~SignalScope() {
    sigaction(SIGPIPE, &pipe_before_, nullptr);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t caught_;
  sigset_t before_;
  struct sigaction pipe_before_;
  Descriptor fd_;
};

// Starts the worker with its ends of the pipes as stdin and stdout, in a process group of its own,
// with the signal mask and dispositions of an ordinary program.
absl::StatusOr<pid_t> Spawn(const std::string& binary, const Pipe& to, const Pipe& from,
                            const sigset_t& mask) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to.read_end.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from.write_end.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &mask);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) sigaddset(&defaults, number);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  std::string name = binary;
  std::string flag = "--standalone";
  char* argv[] = {name.data(), flag.data(), nullptr};
  pid_t pid = -1;
  errno = posix_spawn(&pid, binary.c_str(), &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) return SystemError(absl::StrCat("cannot start ", binary));
  return pid;
}

class Session {
 public:
  Session(pid_t pid, int events, const SignalScope& signals, const WorkerCallbacks& callbacks,
          absl::Duration patience)
      : pid_(pid), events_(events), signals_(signals), callbacks_(callbacks), patience_(patience) {}

  // Until the events end or the last one came; then waits for the process.
  Finished Follow(Descriptor& to_worker) {
    while (!finished_.has_value() && trouble_.empty() && !unwanted_ && Wait()) {
    }
    if (unwanted_ && !finished_.has_value()) kill(pid_, SIGTERM);
    to_worker.Close();
    const int status = Reap();
    if (finished_.has_value()) return *finished_;
    return Explain(status);
  }

 private:
  // Waits for one thing to happen; false at the end of the stream.
  bool Wait() {
    constexpr int kIdleMs = 500;
    pollfd watched[] = {{events_, POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
    const int ready = poll(watched, 2, kIdleMs);
    if (ready == 0) {
      callbacks_.on_idle();
      unwanted_ = !callbacks_.go_on();
    }
    if (kill_at_.has_value() && clock_.Now() >= *kill_at_) {
      killpg(pid_, SIGKILL);
      kill_at_.reset();
    }
    if (ready > 0 && watched[1].revents != 0) PassSignal();
    if (ready > 0 && watched[0].revents != 0) return ReadEvents();
    return true;
  }

  void PassSignal() {
    signalfd_siginfo info;
    while (read(signals_.fd(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      const bool hangup = info.ssi_signo == SIGHUP;  // the worker knows two signals
      const int number = hangup ? SIGTERM : static_cast<int>(info.ssi_signo);
      kill(pid_, number);
      if (++signals_seen_ == 2) kill_at_ = clock_.Now() + absl::ToDoubleSeconds(patience_);
      callbacks_.on_signal(number);
    }
  }

  bool ReadEvents() {
    const absl::StatusOr<bool> more = ReadFrames(events_, frames_);
    if (!more.ok()) trouble_ = std::string(more.status().message());
    while (trouble_.empty() && !unwanted_) {
      StandaloneEvent event;
      const absl::StatusOr<bool> whole = frames_.Next(&event);
      if (!whole.ok()) trouble_ = std::string(whole.status().message());
      if (!whole.ok() || !*whole) break;
      callbacks_.on_event(event);
      if (event.has_finished()) finished_ = event.finished();
      unwanted_ = !callbacks_.go_on();
    }
    return more.ok() && *more;
  }

  // The wait status. The worker has `patience_` to end by itself after its last event, or at once
  // when it broke the protocol.
  int Reap() {
    if (!trouble_.empty()) killpg(pid_, SIGKILL);
    const double end = clock_.Now() + absl::ToDoubleSeconds(patience_);
    bool killed = false;
    while (true) {
      int status = 0;
      const pid_t ended = waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) return status;
      if (ended < 0 && errno != EINTR) return 0;
      if (!killed && clock_.Now() >= end) {
        killpg(pid_, SIGKILL);
        killed = true;
      }
      pollfd watched[] = {{signals_.fd(), POLLIN, 0}};
      if (poll(watched, 1, 10) > 0) PassSignal();
    }
  }

  Finished Explain(int status) const {
    Finished finished;
    finished.set_outcome(signals_seen_ > 0 ? Finished::INTERRUPTED : Finished::FAILED);
    finished.set_exit_code(signals_seen_ > 0 ? kExitInterrupted : kExitFailed);
    std::string how = "strata-worker ended without saying why";
    if (WIFSIGNALED(status)) {
      how = absl::StrCat("strata-worker was ended by signal ", WTERMSIG(status), " (",
                         strsignal(WTERMSIG(status)), ")");
    } else if (WIFEXITED(status)) {
      how = absl::StrCat("strata-worker ended with exit code ", WEXITSTATUS(status),
                         " without saying why");
    }
    finished.set_message(trouble_.empty() ? how : absl::StrCat("strata-worker: ", trouble_));
    return finished;
  }

  pid_t pid_;
  int events_;
  const SignalScope& signals_;
  const WorkerCallbacks& callbacks_;
  absl::Duration patience_;
  protocol::FrameDecoder frames_;
  int signals_seen_ = 0;
  const common::MonotonicClock clock_{};
  std::optional<double> kill_at_;
  std::optional<Finished> finished_;
  std::string trouble_;    // the protocol was broken
  bool unwanted_ = false;  // nobody wants more of its events
};

}  // namespace

absl::StatusOr<std::string> FindWorker() {
  const std::string path = BinaryFolder() + "/strata-worker";
  if (access(path.c_str(), X_OK) == 0) return path;
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": not there — the binaries belong in one folder (./dev build)"));
}

absl::StatusOr<Finished> RunWorker(const std::string& binary,
                                   const strata::v1::StandaloneRequest& request,
                                   const WorkerCallbacks& callbacks, absl::Duration patience) {
  SignalScope signals;
  if (signals.fd() < 0) return SystemError("cannot watch signals");
  ASSIGN_OR_RETURN(Pipe to, MakePipe());
  ASSIGN_OR_RETURN(Pipe from, MakePipe());
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(binary, to, from, signals.before()));
  to.read_end.Close();
  from.write_end.Close();
  // A worker that dies before it has read everything is told by how it ended.
  WriteFrame(to.write_end.get(), request).IgnoreError();
  return Session(pid, from.read_end.get(), signals, callbacks, patience).Follow(to.write_end);
}

}  // namespace strata::client
