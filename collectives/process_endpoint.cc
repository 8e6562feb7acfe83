#include "collectives/process_endpoint.h"

#include <unistd.h>

#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/message_communicator.h"
#include "collectives/process_transport.h"
#include "collectives/shared_door.h"
#include "collectives/ucx_worker.h"
#include "common/digest.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

constexpr char kMagic[] = "strata-rank-3";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr size_t kDigestBytes = 32;
constexpr size_t kHeaderBytes = kMagicBytes + kDigestBytes;

// Processes with the same boot and the same namespaces of IPC and network can share memory and
// reach each other's Unix sockets. Empty: it cannot be told.
std::string HostIdentity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  if (!std::getline(file, identity)) return "";
  for (const char* name : {"/proc/self/ns/ipc", "/proc/self/ns/net"}) {
    char space[64];
    const ssize_t length = readlink(name, space, sizeof(space));
    if (length <= 0) return "";
    identity.append(space, static_cast<size_t>(length));
  }
  return common::DigestOf(identity);
}

void AppendPart(std::string& body, const std::string& part) {
  body.push_back(static_cast<char>(part.size()));
  body += part;
}

// False: there is no such part.
bool TakePart(const std::string& address, size_t* at, std::string* part) {
  if (*at >= address.size()) return false;
  const size_t length = static_cast<uint8_t>(address[*at]);
  if (address.size() - *at <= length) return false;
  *part = address.substr(*at + 1, length);
  *at += 1 + length;
  return true;
}

// What an address says.
struct RankAddress {
  std::string host;  // kDigestBytes; zeros: shares no memory
  std::string door;  // SharedDoor's name; empty: none
  std::vector<std::string> listeners;
  std::string ucx;

  // Magic, digest of the rest, host, door, number of listeners, each of them, UCX's own.
  std::string Pack() const {
    std::string body = host;
    body.resize(kDigestBytes, '\0');
    AppendPart(body, door);
    body.push_back(static_cast<char>(listeners.size()));
    for (const std::string& listener : listeners) AppendPart(body, listener);
    body += ucx;
    return absl::StrCat(kMagic, common::DigestOf(body), body);
  }

  static std::optional<RankAddress> Parse(const std::string& text) {
    if (text.size() <= kHeaderBytes + kDigestBytes || text.compare(0, kMagicBytes, kMagic) != 0 ||
        text.compare(kMagicBytes, kDigestBytes,
                     common::DigestOf(text.data() + kHeaderBytes, text.size() - kHeaderBytes)) !=
            0) {
      return std::nullopt;
    }
    RankAddress parsed{.host = text.substr(kHeaderBytes, kDigestBytes)};
    size_t at = kHeaderBytes + kDigestBytes;
    if (!TakePart(text, &at, &parsed.door) || at >= text.size()) return std::nullopt;
    for (int left = static_cast<uint8_t>(text[at++]); left > 0; --left) {
      if (!TakePart(text, &at, &parsed.listeners.emplace_back())) return std::nullopt;
    }
    parsed.ucx = text.substr(at);
    return parsed;
  }
};

class OpenEndpoint final : public ProcessEndpoint {
 public:
  static absl::StatusOr<std::unique_ptr<OpenEndpoint>> Open(const ProcessOptions& options) {
    auto made = std::make_unique<OpenEndpoint>();
    made->options_ = options;
    ASSIGN_OR_RETURN(made->worker_, UcxWorker::Open(options));
    made->own_.ucx = made->worker_->address();
    made->own_.listeners = made->worker_->listeners();
    const bool shares = options.shared_memory || absl::StrContains(options.transports, "sm");
    if (shares) made->own_.host = HostIdentity();
    if (options.shared_memory && !made->own_.host.empty()) {
      ASSIGN_OR_RETURN(made->door_, SharedDoor::Open());
      made->own_.door = made->door_->name();
    }
    return made;
  }

  std::string Address() const override { return own_.Pack(); }

  absl::StatusOr<std::unique_ptr<Communicator>> Join(int rank,
                                                     const std::vector<std::string>& addresses,
                                                     const WorldKey& key) {
    const int size = static_cast<int>(addresses.size());
    std::vector<ProcessTransport::Peer> peers(size);
    std::vector<std::vector<std::string>> listeners(size);
    for (int peer = 0; peer < size; ++peer) {
      if (addresses[peer].empty()) continue;  // not to be connected with
      std::optional<RankAddress> parsed = RankAddress::Parse(addresses[peer]);
      if (!parsed.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", peer, ": not an address of a rank of this version, or damaged"));
      }
      const bool same_host = !own_.host.empty() && parsed->host == own_.host;
      peers[peer].known = true;
      peers[peer].ucx = std::move(parsed->ucx);
      peers[peer].ucx_notices_loss = !same_host;
      if (same_host && door_.has_value()) peers[peer].door = std::move(parsed->door);
      listeners[peer] = std::move(parsed->listeners);
    }
    worker_->Admit(key, rank, listeners);
    std::unique_ptr<SharedTransport> shared;
    if (door_.has_value()) {
      ASSIGN_OR_RETURN(
          shared, SharedTransport::Create(*std::move(door_), key, rank, size, options_.direct));
    }
    ASSIGN_OR_RETURN(auto transport, ProcessTransport::Create(
                                         rank, std::move(peers), std::move(shared),
                                         std::make_unique<UcxTransport>(std::move(worker_), size)));
    return std::make_unique<MessageCommunicator>(std::move(transport), options_.max_operations);
  }

 private:
  ProcessOptions options_;
  RankAddress own_;
  std::unique_ptr<UcxWorker> worker_;
  std::optional<SharedDoor> door_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessEndpoint>> ProcessEndpoint::Create(
    const ProcessOptions& options) {
  constexpr int kMost = static_cast<int>(kChannelIds - kCopiedIds) / MessageCommunicator::kWindow;
  if (options.max_operations <= 0 || options.max_operations > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_operations must be from 1 to ", kMost, ", not ", options.max_operations));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<OpenEndpoint> endpoint, OpenEndpoint::Open(options));
  return endpoint;
}

absl::StatusOr<std::unique_ptr<Communicator>> ProcessEndpoint::Connect(
    std::unique_ptr<ProcessEndpoint> endpoint, int rank, const std::vector<std::string>& addresses,
    const WorldKey& key) {
  if (rank < 0 || static_cast<size_t>(rank) >= addresses.size() ||
      addresses[rank] != endpoint->Address()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " has another address among the ", addresses.size(), " given"));
  }
  if (key.nonce.size() != kNonceBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the epoch's nonce has ", key.nonce.size(),
                                                   " bytes, and needs ", kNonceBytes));
  }
  return static_cast<OpenEndpoint&>(*endpoint).Join(rank, addresses, key);
}

}  // namespace strata::collectives
