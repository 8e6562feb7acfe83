#include "collectives/ucx_worker.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <ucs/debug/debug.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

constexpr char kMagic[] = "strata-ucx-2";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr size_t kDigestBytes = 32;

// libucs installs handlers for crashes when it is loaded, which would hide them from whoever
// watches the process.
void RestoreSignals() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) {
      struct sigaction action = {};
      Dl_info info = {};
      if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_DFL &&
          action.sa_handler != SIG_IGN &&
          dladdr(reinterpret_cast<void*>(action.sa_sigaction), &info) != 0 &&
          info.dli_fname != nullptr && std::strstr(info.dli_fname, "libucs") != nullptr) {
        ucs_debug_disable_signal(signal);
      }
    }
  });
}

// Processes with the same boot and the same IPC namespace can share memory.
std::string HostIdentity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  char ipc[64];
  const ssize_t length = readlink("/proc/self/ns/ipc", ipc, sizeof(ipc));
  if (!std::getline(file, boot) || length <= 0) return "";
  return common::DigestOf(absl::StrCat(boot, absl::string_view(ipc, length)));
}

}  // namespace

absl::Status UcxError(const char* what, ucs_status_t status) {
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Open(const UcxOptions& options) {
  RestoreSignals();
  std::unique_ptr<UcxWorker> worker(new UcxWorker(options));
  RETURN_IF_ERROR(worker->Start());
  return worker;
}

absl::Status UcxWorker::StartContext() {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return UcxError("reading the configuration of UCX", status);
  }
  ucs_status_t status = ucp_config_modify(config, "TLS", options_.transports.c_str());
  // When a peer dies in the middle of a zero-copy message over TCP, UCX 1.13 now and then completes
  // it twice and ends the process by an assertion. Copying costs a third of the speed over TCP and
  // nothing in shared memory, where large messages take another way.
  if (status == UCS_OK) status = ucp_config_modify(config, "ZCOPY_THRESH", "inf");
  if (status == UCS_OK && !options_.devices.empty()) {
    status = ucp_config_modify(config, "NET_DEVICES", options_.devices.c_str());
  }
  if (status == UCS_OK) {
    ucp_params_t parameters = {};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    status = ucp_init(&parameters, config, &context_);
  }
  ucp_config_release(config);
  if (status == UCS_OK) return absl::OkStatus();
  return UcxError(absl::StrCat("opening UCX with transports ", options_.transports, " on devices '",
                               options_.devices, "'")
                      .c_str(),
                  status);
}

absl::Status UcxWorker::Start() {
  RETURN_IF_ERROR(StartContext());
  ucp_worker_params_t parameters = {};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // made by one thread, driven by another
  guard_.BeginListening();
  const ucs_status_t created = ucp_worker_create(context_, &parameters, &worker_);
  guard_.EndListening();
  if (created != UCS_OK) return UcxError("creating a UCX worker", created);
  if (const auto status = ucp_worker_get_efd(worker_, &worker_fd_); status != UCS_OK) {
    return UcxError("these UCX transports cannot be slept on", status);
  }
  ucp_address_t* address = nullptr;
  size_t length = 0;
  if (const auto status = ucp_worker_get_address(worker_, &address, &length); status != UCS_OK) {
    return UcxError("asking UCX for this rank's address", status);
  }
  address_.assign(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_, address);
  // Without shared memory among the transports, every peer is remote, and its loss is noticed.
  const bool shares = absl::StrContains(options_.transports, "sm") ||
                      absl::StrContains(options_.transports, "posix") ||
                      absl::StrContains(options_.transports, "sysv") ||
                      absl::StrContains(options_.transports, "all");
  host_ = shares ? HostIdentity() : "";
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::UnavailableError(absl::StrCat("eventfd: ", std::strerror(errno)));
  return absl::OkStatus();
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

// Magic, digest of the rest, host (fixed size, zeros for none), number of sockets that it listens
// on, length and address of each, UCX's own address.
std::string UcxWorker::Address() const {
  std::string body = host_;
  body.resize(kDigestBytes, '\0');
  const std::vector<std::string> listeners = guard_.listeners();
  body.push_back(static_cast<char>(listeners.size()));
  for (const std::string& listener : listeners) {
    body.push_back(static_cast<char>(listener.size()));
    body += listener;
  }
  body += address_;
  return absl::StrCat(kMagic, common::DigestOf(body), body);
}

absl::StatusOr<UcxWorker::Peer> UcxWorker::ParseAddress(const std::string& address) const {
  constexpr size_t kHeader = kMagicBytes + kDigestBytes;
  if (address.size() <= kHeader + kDigestBytes || address.compare(0, kMagicBytes, kMagic) != 0 ||
      address.compare(kMagicBytes, kDigestBytes,
                      common::DigestOf(address.data() + kHeader, address.size() - kHeader)) != 0) {
    return absl::InvalidArgumentError("not an address of this version, or damaged");
  }
  Peer peer{.same_host = !host_.empty() && address.compare(kHeader, kDigestBytes, host_) == 0};
  size_t at = kHeader + kDigestBytes;
  for (int left = static_cast<uint8_t>(address[at++]); left > 0; --left) {
    const size_t length = at < address.size() ? static_cast<uint8_t>(address[at]) : 0;
    if (length == 0 || address.size() - at <= length) {
      return absl::InvalidArgumentError("not an address of this version, or damaged");
    }
    peer.listeners.push_back(address.substr(at + 1, length));
    at += 1 + length;
  }
  peer.worker_address = address.substr(at);
  return peer;
}

void UcxWorker::Admit(const WorldKey& key, int rank, const std::vector<Peer>& peers) {
  std::vector<std::vector<std::string>> listeners;
  for (const Peer& peer : peers) listeners.push_back(peer.listeners);
  guard_.Admit(key, rank, listeners);
}

void UcxWorker::Wait(absl::Duration timeout) {
  // Anything but OK: there is something to do already, or an error that progress will report.
  if (ucp_worker_arm(worker_) == UCS_OK) Sleep(timeout, true);
}

void UcxWorker::WaitForWake(absl::Duration timeout) { Sleep(timeout, false); }

void UcxWorker::Sleep(absl::Duration timeout, bool worker) {
  pollfd files[2] = {{.fd = wake_fd_, .events = POLLIN, .revents = 0},
                     {.fd = worker_fd_, .events = POLLIN, .revents = 0}};
  const timespec time = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  // Ending early, as a signal does, is allowed.
  if (ppoll(files, worker ? 2 : 1, &time, nullptr) > 0 && files[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t bytes = read(wake_fd_, &count, sizeof(count));
  }
}

void UcxWorker::Wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = write(wake_fd_, &one, sizeof(one));
}

}  // namespace strata::collectives
