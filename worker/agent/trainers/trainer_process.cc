#include "worker/agent/trainers/trainer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/agent/machine/process_stack.h"
#include "worker/agent/machine/process_stat.h"
#include "worker/agent/trainers/trainer_environment.h"
#include "worker/agent/trainers/trainer_poll.h"

extern char** environ;

namespace strata::worker {
namespace {

// Less than what an agent takes for a standstill of its own (HangWatch::kGapSeconds).
constexpr double kStackSeconds = 0.7;

absl::Status SystemError(const std::string& what) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(errno)));
}

// A descriptor that no number in the child collides with.
absl::StatusOr<Descriptor> MoveUp(Descriptor descriptor) {
  if (descriptor.get() > kTrainerProgress) return descriptor;
  Descriptor moved(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, kTrainerProgress + 1));
  if (!moved.is_open()) return SystemError("fcntl(F_DUPFD_CLOEXEC)");
  return moved;
}

absl::StatusOr<Descriptor> OpenProgress(const std::string& path) {
  Descriptor file(path.empty() ? memfd_create("strata-progress", MFD_CLOEXEC)
                               : open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open()) return SystemError(path.empty() ? "memfd_create" : path);
  return MoveUp(std::move(file));
}

// What the child becomes: nothing open but its descriptors, no signal blocked or ignored.
class SpawnSettings {
 public:
  SpawnSettings(int socket, int progress, const TrainerStart& start) {
    const std::string& log_path = start.log_path;
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!log_path.empty()) {
      posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, log_path.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0644);
    }
    posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, socket, kTrainerSocket);
    posix_spawn_file_actions_adddup2(&actions_, progress, kTrainerProgress);
    int next = kTrainerProgress + 1;
    for (const int lock : start.locks) posix_spawn_file_actions_adddup2(&actions_, lock, next++);
    posix_spawnattr_init(&attributes_);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

int OpenProcess(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

absl::StatusOr<std::unique_ptr<TrainerProcess>> TrainerProcess::Start(const TrainerStart& start,
                                                                      TrainerPoll* poll) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return SystemError("socketpair");
  }
  Descriptor ours(pair[0]);
  ASSIGN_OR_RETURN(const Descriptor theirs, MoveUp(Descriptor(pair[1])));
  RETURN_IF_ERROR(SetNonBlocking(ours.get()));
  ASSIGN_OR_RETURN(Descriptor progress, OpenProgress(start.progress_path));

  std::vector<char*> argv = {const_cast<char*>(start.name.c_str())};
  for (const std::string& argument : start.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  std::vector<std::string> environment = TrainerEnvironment(environ, start.variables);
  std::vector<char*> envp;
  for (std::string& variable : environment) envp.push_back(variable.data());
  envp.push_back(nullptr);
  const SpawnSettings settings(theirs.get(), progress.get(), start);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, start.executable.c_str(), settings.actions(),
                                settings.attributes(), argv.data(), envp.data());
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat(start.name, ": ", strerror(error)));
  }
  Descriptor process(OpenProcess(pid));
  if (!process.is_open()) {
    const absl::Status status = SystemError("pidfd_open");
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return status;
  }
  return std::unique_ptr<TrainerProcess>(new TrainerProcess(
      pid, true, std::move(process), std::move(ours), std::move(progress), poll));
}

absl::StatusOr<std::unique_ptr<TrainerProcess>> TrainerProcess::Adopt(
    pid_t pid, uint64_t start_time, const std::string& progress_path, TrainerPoll* poll) {
  // The descriptor first: what is found afterwards under that number is what it stands for.
  Descriptor process(OpenProcess(pid));
  const std::optional<ProcessStat> stat = ReadProcessStat(pid);
  if (!process.is_open() || !stat.has_value() || stat->start_time != start_time) {
    return absl::NotFoundError(absl::StrCat("process ", pid, " is gone"));
  }
  Descriptor progress(open(progress_path.c_str(), O_RDONLY | O_CLOEXEC));
  return std::unique_ptr<TrainerProcess>(
      new TrainerProcess(pid, false, std::move(process), Descriptor(), std::move(progress), poll));
}

std::unique_ptr<TrainerProcess> TrainerProcess::Remains(const std::string& progress_path) {
  Descriptor progress(open(progress_path.c_str(), O_RDONLY | O_CLOEXEC));
  std::unique_ptr<TrainerProcess> remains(
      new TrainerProcess(-1, false, Descriptor(), Descriptor(), std::move(progress), nullptr));
  remains->reaped_ = true;
  remains->ReadOutcome();
  return remains;
}

TrainerProcess::TrainerProcess(pid_t pid, bool child, Descriptor process, Descriptor socket,
                               Descriptor progress, TrainerPoll* poll)
    : pid_(pid),
      child_(child),
      poll_(poll),
      process_(std::move(process)),
      socket_(std::move(socket)),
      progress_(std::move(progress)),
      sender_(socket_.get()),
      receiver_(socket_.get()) {
  if (const std::optional<ProcessStat> stat = ReadProcessStat(pid_)) start_time_ = stat->start_time;
  if (poll_ != nullptr) poll_->Add(this);
}

TrainerProcess::~TrainerProcess() {
  if (poll_ != nullptr) poll_->Remove(this);
  if (reaped_) return;
  Kill();
  while (child_ && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void TrainerProcess::Attach(Descriptor socket, FrameReceiver receiver) {
  socket_ = std::move(socket);
  sender_ = FrameSender(socket_.get());
  receiver_ = std::move(receiver);
  at_end_ = false;
}

void TrainerProcess::AddTo(std::vector<pollfd>& waiting, bool hear) const {
  int16_t events = hear ? POLLIN : 0;
  if (connected() && !sender_.idle()) events |= POLLOUT;
  waiting.push_back({connected() ? socket_.get() : -1, events, 0});
  waiting.push_back({reaped_ ? -1 : process_.get(), POLLIN, 0});
}

void TrainerProcess::Handle(const pollfd* found) {
  if (connected() && (found[0].revents & POLLOUT)) static_cast<void>(sender_.Flush());
  if (connected() && (found[0].revents & (POLLIN | POLLHUP | POLLERR))) Hear();
  if (found[1].revents == 0 || reaped_ || !Reap()) return;
  while (connected()) Hear();  // its end of the socket is closed: this ends
  if (listener() != nullptr) listener()->OnGone(place());
}

void TrainerProcess::Hear() {
  const bool more = receiver_.Read();
  Listen();
  if (!more) Disconnected("");
}

void TrainerProcess::Listen() {
  while (connected() && listener() != nullptr) {
    v1::TrainerEvent event;
    const absl::StatusOr<bool> whole = receiver_.Next(&event);
    if (!whole.ok()) return Disconnected(std::string(whole.status().message()));
    if (!*whole) return;
    listener()->OnEvent(place(), event);
  }
}

void TrainerProcess::Disconnected(const std::string& problem) {
  if (!connected()) return;
  at_end_ = true;
  if (listener() != nullptr) listener()->OnDisconnect(place(), problem);
}

void TrainerProcess::Send(const v1::TrainerCommand& command) {
  if (socket_.is_open()) static_cast<void>(sender_.Send(command));
}

void TrainerProcess::Hang() {
  if (socket_.is_open()) shutdown(socket_.get(), SHUT_WR);
}

void TrainerProcess::Kill() {
  // One that is gone and not our child may have left its number to others.
  if (reaped_ || (!child_ && Ended())) return;
  killed_ = true;
  kill(-pid_, SIGKILL);
  syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr,
          0);  // also before it has a group
}

bool TrainerProcess::Ended() const {
  pollfd waiting{process_.get(), POLLIN, 0};
  return poll(&waiting, 1, 0) == 1;
}

bool TrainerProcess::Reap() {
  if (reaped_) return true;
  if (!child_) {
    reaped_ = Ended();
    if (reaped_) ReadOutcome();
    return reaped_;
  }
  int status = 0;
  const pid_t found = waitpid(pid_, &status, WNOHANG);
  if (found != pid_) return false;
  reaped_ = true;
  if (WIFSIGNALED(status)) {
    signal_ = WTERMSIG(status);
  } else {
    exit_code_ = WEXITSTATUS(status);
  }
  return true;
}

// The exit status of a process that is not our child is its parent's to know. It writes its outcome
// before it exits of its own will.
void TrainerProcess::ReadOutcome() {
  ProgressReader::Outcome outcome;
  if (ProgressReader* const reader = progress()) outcome = reader->outcome();
  exit_code_ = outcome.exit_code;
  if (outcome.state == OutcomeState::kNone) signal_ = killed_ ? SIGKILL : -1;
}

std::optional<v1::Ended> TrainerProcess::Outcome() {
  ProgressReader* const reader = child_ ? nullptr : progress();
  if (reader == nullptr || reader->outcome().state == OutcomeState::kNone) return std::nullopt;
  const ProgressReader::Outcome outcome = reader->outcome();
  v1::Ended ended;
  switch (outcome.state) {
    case OutcomeState::kSucceeded:
      ended.set_outcome(v1::Finished::SUCCEEDED);
      break;
    case OutcomeState::kInterrupted:
      ended.set_outcome(v1::Finished::INTERRUPTED);
      break;
    default:
      ended.set_outcome(v1::Finished::FAILED);
  }
  ended.set_exit_code(outcome.exit_code);
  ended.set_message(outcome.message);
  ended.set_echo(outcome.state == OutcomeState::kEcho);
  return ended;
}

bool TrainerProcess::IsStopped() const {
  if (reaped_) return false;
  const std::optional<ProcessStat> stat = ReadProcessStat(pid_);
  return stat.has_value() && (stat->state == 'T' || stat->state == 't');
}

bool TrainerProcess::IsInUninterruptibleSleep() const { return HasThreadInState(pid_, 'D'); }

std::string TrainerProcess::Stack() const {
  return poll_ == nullptr || reaped_ ? "" : ReadStack(pid_, poll_->stack_reader(), kStackSeconds);
}

std::string TrainerProcess::DescribeEnd() const {
  if (signal_ < 0) return "was killed";
  if (signal_ != 0) {
    return absl::StrCat("was killed by signal ", signal_, " (", strsignal(signal_), ")");
  }
  return absl::StrCat("exited with code ", exit_code_);
}

ProgressReader* TrainerProcess::progress() {
  if (reader_ == nullptr && progress_.is_open()) {
    absl::StatusOr<std::unique_ptr<ProgressReader>> reader = ProgressReader::Open(progress_.get());
    progress_unknown_ = absl::IsInvalidArgument(reader.status());
    if (reader.ok()) reader_ = *std::move(reader);
  }
  return reader_.get();
}

}  // namespace strata::worker
