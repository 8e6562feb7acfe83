#include "collectives/ucx_worker.h"

#include <dlfcn.h>
#include <signal.h>
#include <ucs/debug/debug.h>

#include <cstring>
#include <initializer_list>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

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

}  // namespace

absl::Status UcxError(const char* what, ucs_status_t status) {
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Open(const ProcessOptions& options) {
  RestoreSignals();
  std::unique_ptr<UcxWorker> worker(new UcxWorker);
  RETURN_IF_ERROR(worker->Start(options));
  return worker;
}

absl::Status UcxWorker::StartContext(const ProcessOptions& options) {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return UcxError("reading the configuration of UCX", status);
  }
  ucs_status_t status = ucp_config_modify(config, "TLS", options.transports.c_str());
  // When a peer dies in the middle of a zero-copy message over TCP, UCX 1.13 now and then completes
  // it twice and ends the process by an assertion. Copying costs a third of the speed over TCP and
  // nothing in shared memory, where large messages take another way.
  if (status == UCS_OK) status = ucp_config_modify(config, "ZCOPY_THRESH", "inf");
  if (status == UCS_OK && !options.devices.empty()) {
    status = ucp_config_modify(config, "NET_DEVICES", options.devices.c_str());
  }
  if (status == UCS_OK) {
    ucp_params_t parameters = {};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    status = ucp_init(&parameters, config, &context_);
  }
  ucp_config_release(config);
  if (status == UCS_OK) return absl::OkStatus();
  return UcxError(absl::StrCat("opening UCX with transports ", options.transports, " on devices '",
                               options.devices, "'")
                      .c_str(),
                  status);
}

absl::Status UcxWorker::Start(const ProcessOptions& options) {
  RETURN_IF_ERROR(StartContext(options));
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
  return absl::OkStatus();
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

void UcxWorker::Admit(const WorldKey& key, int rank,
                      const std::vector<std::vector<std::string>>& listeners) {
  guard_.Admit(key, rank, listeners);
}

}  // namespace strata::collectives
