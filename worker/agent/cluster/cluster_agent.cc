#include "worker/agent/cluster/cluster_agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "common/small_file.h"
#include "protocol/profile_file.h"
#include "worker/agent/cluster/certificate_keeper.h"
#include "worker/agent/cluster/controller_link.h"
#include "worker/agent/cluster/data_devices.h"
#include "worker/agent/cluster/doorway.h"
#include "worker/agent/cluster/machine_host.h"
#include "worker/agent/logic/agent_core.h"
#include "worker/agent/machine/agent_folder.h"
#include "worker/agent/machine/gpu_watch.h"
#include "worker/agent/machine/machine_memory.h"
#include "worker/agent/machine/process_stat.h"
#include "worker/agent/trainers/trainer_build.h"

namespace strata::worker {
namespace {

constexpr double kLongestWaitSeconds = 0.2;
constexpr int kEnrolEveryMs = 1000;  // while the controller cannot be reached
constexpr double kEndSeconds = 5;    // for trainers that were killed, and for the last words

void Log(const std::string& text) { std::fprintf(stderr, "strata-worker: %s\n", text.c_str()); }

uint64_t DrawIncarnation(const common::Clock& clock) {
  const uint64_t moment = static_cast<uint64_t>(clock.Now() * 1e9);
  const uint64_t wall = static_cast<uint64_t>(common::WallSeconds() * 1e6);
  return common::MixBits(common::MixBits(moment, wall), static_cast<uint64_t>(getpid())) | 1;
}

// An interface of its own makes ranks reachable from there, and from nowhere else.
std::string DataDevices(const ClusterAgentOptions& options) {
  if (!options.data_devices.empty()) return options.data_devices;
  if (std::getenv("UCX_NET_DEVICES") != nullptr) return "";
  if (absl::StartsWith(options.controller, "unix:")) return "lo";
  const absl::StatusOr<std::string> found = InterfaceTo(options.controller);
  if (!found.ok()) {
    Log(absl::StrCat(std::string(found.status().message()),
                     ": its ranks listen on all interfaces (--data-devices)"));
    return "";
  }
  Log(absl::StrCat("its ranks' data connections are on ", *found,
                   *found == "lo" ? ", that is, with ranks of this machine alone" : "",
                   " (--data-devices)"));
  return *found;
}

// What is there now: a machine may be measured while its agent runs.
std::optional<v1::Profile> ReadProfile(const std::string& path) {
  const absl::StatusOr<std::string> text = common::ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  absl::StatusOr<v1::Profile> profile =
      text.ok() ? protocol::ParseProfile(path, *text) : text.status();
  if (profile.ok()) return *std::move(profile);
  Log(absl::StrCat("steps are not predicted: ", std::string(profile.status().message())));
  return std::nullopt;
}

// Null: its devices are the CPU's. Fails when there are GPUs to be used that cannot be.
absl::StatusOr<std::unique_ptr<GpuWatch>> FindGpus(const ClusterAgentOptions& options,
                                                   const common::Clock& clock) {
  if (options.choice == DeviceChoice::kCpu) return nullptr;
  absl::StatusOr<std::unique_ptr<GpuWatch>> gpus = GpuWatch::Open(options.nvml, &clock);
  if (!absl::IsNotFound(gpus.status())) return gpus;
  if (options.choice == DeviceChoice::kAuto) {
    Log("without an NVIDIA driver: its device is the CPU");
    return nullptr;
  }
  return absl::NotFoundError(
      absl::StrCat("--devices gpu: there is no NVIDIA driver (", gpus.status().message(),
                   "): install it, or pass it into this container (nvidia-container-toolkit)"));
}

int ShareOfProcessors(int devices) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / devices);
}

AgentCore::Options CoreOptions(const ClusterAgentOptions& options, const AgentFolder& folder,
                               const GpuWatch* gpus, const common::Clock& clock) {
  AgentCore::Options core;
  core.node = options.node;
  core.devices = options.devices;
  core.locality = options.locality;
  if (gpus != nullptr) {
    core.device = gpus->kind();
    core.devices = static_cast<int>(gpus->states().size());
    // Nodes whose GPUs are in one NVLink fabric are one domain; --locality knows better.
    if (!gpus->fabric_clique().empty()) core.locality.emplace("domain", gpus->fabric_clique());
    Log(absl::StrCat("its devices are ", core.devices, " of kind ", core.device,
                     gpus->hears_xids() ? "" : "; the driver does not tell of their Xids here"));
  }
  core.threads_per_device =
      options.threads_per_device > 0 ? options.threads_per_device : ShareOfProcessors(core.devices);
  core.incarnation = DrawIncarnation(clock);
  if (const auto trainer = PinnedTrainer(core.device); trainer.ok()) {
    core.build = trainer->build;
  } else {  // starts will tell as well
    Log(absl::StrCat("no job can start here: ", trainer.status().message()));
  }
  if (const auto memory = ReadMachineMemory(); memory.has_value()) {
    core.host_memory_bytes = memory->total_bytes;  // as an epoch's ranks are checked against
  }
  core.boot_id = BootId();
  core.trainer_socket = folder.SocketPath();
  core.data_devices = DataDevices(options);
  core.profile = [path = protocol::ProfilePathIn(folder.path())] { return ReadProfile(path); };
  core.rejoin = options.rejoin;
  return core;
}

bool OwnersRun(const MachineHost::Users& users) {
  return users.powers.root &&
         (users.mode == RunAs::kUser || (users.mode == RunAs::kAuto && users.powers.systemd));
}

MachineHost::Users UsersOf(const ClusterAgentOptions& options, const AgentFolder& folder) {
  MachineHost::Users users = {options.run_as, PowersOfThisProcess(), options.unit_properties};
  const std::string why = absl::StrCat(" (", DescribeMode(users.mode, users.powers), ")");
  if (!OwnersRun(users)) {
    Log(absl::StrCat("all jobs run as this process's user, whoever submits them", why));
    return users;
  }
  Log(absl::StrCat("jobs run as their owners",
                   users.powers.systemd ? ", each rank in a scope of systemd" : "", why));
  // Their trainers find the socket in it; what lies beside is not theirs to read.
  chmod(folder.path().c_str(), 0711);
  return users;
}

// The process around what decides (AgentCore): one poll loop.
class ClusterAgent {
 public:
  ClusterAgent(const ClusterAgentOptions& options, std::unique_ptr<AgentFolder> folder,
               Descriptor signals, std::unique_ptr<GpuWatch> gpus, const common::Clock& clock)
      : options_(options),
        folder_(std::move(folder)),
        signals_(std::move(signals)),
        gpus_(std::move(gpus)),
        clock_(clock),
        core_options_(CoreOptions(options, *folder_, gpus_.get(), clock)),
        users_(UsersOf(options, *folder_)),
        host_(folder_.get(), &trainers_, users_),
        core_(core_options_, folder_->membership(), &host_, &clock) {}

  int Run() {
    for (const v1::HeldEpochRecord& record : folder_->LoadRecords()) core_.Adopt(record);
    if (gpus_ != nullptr) {
      std::vector<std::string> uuids;
      for (const v1::DeviceState& gpu : gpus_->states()) uuids.push_back(gpu.uuid());
      host_.SetGpus(std::move(uuids));
      core_.OnDevices(gpus_->states());
    }
    const auto on_hello = [this](const v1::TrainerHello& hello, pid_t pid, Descriptor& socket,
                                 FrameReceiver& receiver) {
      return OnHello(hello, pid, socket, receiver);
    };
    const Doorway::Guests guests =
        OwnersRun(users_) ? Doorway::Guests::kAllUsers : Doorway::Guests::kOwnUser;
    absl::StatusOr<std::unique_ptr<Doorway>> doorway = Doorway::Open(
        folder_->SocketPath(), guests, on_hello,
        [this](Descriptor asker) { stop_askers_.push_back(std::move(asker)); }, &clock_);
    if (!doorway.ok()) {
      Log(std::string(doorway.status().message()));
      return 1;
    }
    doorway_ = *std::move(doorway);
    ControllerLink::Options link;
    link.address = options_.controller;
    link.tls = options_.tls;
    link.seed = core_options_.incarnation;
    link_ = std::make_unique<ControllerLink>(link);
    host_.SetLink(link_.get());
    while (!leaving_ && !core_.dismissed() && !core_.drained() && stop_askers_.empty()) Turn();
    if (core_.dismissed()) return Leave(1);
    return leaving_ ? HandOver() : End();
  }

 private:
  // One round of the loop.
  void Turn() {
    std::vector<pollfd> waiting = {{signals_.get(), POLLIN, 0}, {link_->descriptor(), POLLIN, 0}};
    const size_t door = waiting.size();
    doorway_->AddTo(waiting);
    const size_t trainers = waiting.size();
    trainers_.AddTo(waiting, /*hear=*/true);
    const double left = std::clamp(core_.deadline() - clock_.Now(), 0.0, kLongestWaitSeconds);
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left * 1e3) + 1) < 0) return;
    if (waiting[0].revents != 0) {
      signalfd_siginfo info;
      if (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) OnSignal();
    }
    trainers_.Handle(waiting.data() + trainers);
    doorway_->Handle(&waiting[door]);
    while (std::optional<LinkEvent> event = link_->Next()) OnLink(*event);
    if (gpus_ != nullptr && gpus_->Advance()) core_.OnDevices(gpus_->states());
    core_.Advance();
  }

  void OnSignal() {
    if (options_.on_sigterm == OnSigterm::kHandOver || core_.draining()) {
      leaving_ = true;
    } else {
      core_.OnDrain(options_.drain_seconds);
    }
  }

  void OnLink(const LinkEvent& event) {
    if (const auto* const up = std::get_if<LinkUp>(&event)) return core_.OnLinkUp(up->session);
    if (const auto* const down = std::get_if<LinkDown>(&event)) {
      return core_.OnLinkDown(down->session, down->reason);
    }
    const LinkMessage& message = std::get<LinkMessage>(event);
    core_.OnMessage(message.session, message.message);
  }

  bool OnHello(const v1::TrainerHello& hello, pid_t pid, Descriptor& socket,
               FrameReceiver& receiver) {
    TrainerProcess* const trainer = trainers_.Find(pid);
    if (trainer == nullptr || !core_.Expects(hello, pid)) return false;
    trainer->Attach(std::move(socket), std::move(receiver));
    core_.OnAttached(hello, pid);
    trainer->Listen();
    return true;
  }

  // The next agent of this node will find the trainers.
  int Leave(int status) {
    core_.LetGo();
    return status;
  }

  int HandOver() {
    Log("told to stop: its trainers go on without it for their lease");
    core_.SayHandingOver();
    link_->Finish(kEndSeconds / 5);
    return Leave(0);
  }

  // Of a node that is drained, or had its time to be, or whose agent was told to stop.
  int End() {
    Log(stop_askers_.empty() ? "drained" : "told to stop, and to end its trainers");
    v1::TrainerCommand answer;
    answer.mutable_agent_stopped()->set_epochs(core_.EndAll());
    const double by = clock_.Now() + kEndSeconds;
    while (!core_.AllEnded() && clock_.Now() < by) Turn();
    if (!core_.AllEnded()) answer.mutable_agent_stopped()->set_problem("a trainer does not end");
    core_.ForgetEnded();
    link_->Finish(kEndSeconds / 5);
    for (const Descriptor& asker : stop_askers_) {
      static_cast<void>(FrameSender(asker.get()).Send(answer));
    }
    return core_.AllEnded() ? 0 : 1;
  }

  const ClusterAgentOptions options_;
  const std::unique_ptr<AgentFolder> folder_;
  const Descriptor signals_;
  const std::unique_ptr<GpuWatch> gpus_;  // null: its devices are the CPU's
  const common::Clock& clock_;
  const AgentCore::Options core_options_;
  TrainerPoll trainers_{"/proc/self/exe"};
  const MachineHost::Users users_;
  MachineHost host_;
  AgentCore core_;
  std::unique_ptr<Doorway> doorway_;
  std::unique_ptr<ControllerLink> link_;
  std::vector<Descriptor> stop_askers_;  // of StopAgent: it ends, and then they are answered
  bool leaving_ = false;
};

absl::StatusOr<Descriptor> TakeSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGINT);
  sigaddset(&taken, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  Descriptor signals(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) return absl::InternalError(absl::StrCat("signalfd: ", strerror(errno)));
  return signals;
}

bool HasEnrolled(const EnrolmentOptions& enrolment) {
  return access(EnrolledFiles(enrolment.folder).certificate.c_str(), F_OK) == 0;
}

// Until it has a certificate: -1; or the exit status, if it never will or is told to stop.
int AwaitEnrolment(const EnrolmentOptions& enrolment, const Descriptor& signals) {
  bool told = false;
  for (;;) {
    const absl::Status enrolled = Enrol(enrolment, common::WallSeconds());
    if (enrolled.ok()) return -1;
    if (!std::exchange(told, true) || !absl::IsUnavailable(enrolled)) {
      Log(absl::StrCat("without a certificate: ", enrolled.message()));
    }
    if (!absl::IsUnavailable(enrolled)) return 1;
    pollfd waiting = {signals.get(), POLLIN, 0};
    if (poll(&waiting, 1, kEnrolEveryMs) > 0) return 0;
  }
}

}  // namespace

int RunClusterAgent(const ClusterAgentOptions& options, const common::Clock& clock) {
  absl::StatusOr<Descriptor> signals = TakeSignals();
  absl::StatusOr<std::unique_ptr<AgentFolder>> folder = AgentFolder::Open(options.directory);
  absl::StatusOr<std::unique_ptr<GpuWatch>> gpus = FindGpus(options, clock);
  for (const absl::Status& status : {signals.status(), folder.status(), gpus.status()}) {
    if (status.ok()) continue;
    Log(std::string(status.message()));
    return 1;
  }
  EnrolmentOptions enrolment = {options.controller, options.node, options.directory + "/tls",
                                options.join};
  ClusterAgentOptions used = options;
  std::unique_ptr<CertificateKeeper> keeper;
  if (!options.join.empty() || (!options.tls.enabled() && HasEnrolled(enrolment))) {
    if (const int status = AwaitEnrolment(enrolment, *signals); status >= 0) return status;
    used.tls = EnrolledFiles(enrolment.folder);
    keeper = std::make_unique<CertificateKeeper>(enrolment);
  }
  return ClusterAgent(used, *std::move(folder), *std::move(signals), *std::move(gpus), clock).Run();
}

}  // namespace strata::worker
