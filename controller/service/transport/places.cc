#include "controller/service/transport/places.h"

#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/access/network.h"

namespace strata::controller {

std::string SourceOf(int file) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  if (peer.ss_family != AF_UNIX) return NetworkOf(peer);
  ucred user{};
  size = sizeof(user);
  if (getsockopt(file, SOL_SOCKET, SO_PEERCRED, &user, &size) != 0) return "";
  return absl::StrCat("uid:", user.uid);
}

void NodeSources::Add(const std::string& source) {
  const std::lock_guard lock(mutex_);
  if (sources_.size() < kMost) sources_.insert(source);
}

bool NodeSources::Has(const std::string& source) const {
  const std::lock_guard lock(mutex_);
  return sources_.contains(source);
}

bool Places::Take(int file) {
  const std::string source = SourceOf(file);
  Forget(file);  // of the connection that had this number
  if (IsFull(source)) {
    Look();
    if (IsFull(source)) return false;
  }
  sources_[file] = source;
  ++counts_[source];
  return true;
}

bool Places::IsFull(const std::string& source) {
  if (const auto own = counts_.find(source); own != counts_.end() && own->second >= most_of_one_) {
    return true;
  }
  if (sources_.size() < most_of_guests_ || nodes_->Has(source)) return false;
  size_t guests = 0;
  for (const auto& [each, count] : counts_) guests += nodes_->Has(each) ? 0 : count;
  return guests >= most_of_guests_;
}

void Places::Forget(int file) {
  const auto found = sources_.find(file);
  if (found == sources_.end()) return;
  const auto count = counts_.find(found->second);
  if (--count->second == 0) counts_.erase(count);
  sources_.erase(found);
}

void Places::Look() {
  const double now = clock_->Now();
  if (looked_at_.has_value() && now < *looked_at_ + look_seconds_) return;
  looked_at_ = now;
  std::vector<int> closed;
  for (const auto& [file, source] : sources_) {
    if (SourceOf(file) != source) closed.push_back(file);
  }
  for (const int file : closed) Forget(file);
}

}  // namespace strata::controller
