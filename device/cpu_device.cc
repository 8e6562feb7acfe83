#include "device/cpu_device.h"

#include "device/host_pages.h"

namespace strata::device {

absl::StatusOr<Stream*> CpuDevice::CreateStream(Service service) {
  if (service == Service::kIssuer) return CreateStream(&issuer_);
  lanes_.push_back(std::make_unique<Lane>(&group_));
  CpuStream* stream = CreateStream(lanes_.back().get());
  stream->LimitCopies(options_.link_rate);
  lanes_.back()->Start();
  return stream;
}

CpuStream* CpuDevice::CreateStream(Lane* lane) {
  streams_.push_back(std::make_unique<CpuStream>(&group_, lane, &issuer_));
  lane->Add(streams_.back().get());
  issuer_.ReserveOwed(streams_.size());
  return streams_.back().get();
}

CpuStream* CpuDevice::CreateOutsideStream() {
  streams_.push_back(std::make_unique<CpuStream>(&group_, nullptr, &issuer_));
  return streams_.back().get();
}

void CpuDevice::Stop() {
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->Stop();
}

absl::StatusOr<std::unique_ptr<Event>> CpuDevice::CreateEvent() {
  return std::make_unique<CpuEvent>(&issuer_);
}

absl::StatusOr<std::byte*> CpuDevice::Reserve(Memory, int64_t bytes) { return ReservePages(bytes); }

absl::Status CpuDevice::Commit(Memory, std::byte* data, int64_t bytes) {
  return CommitPages(data, bytes);
}

void CpuDevice::Release(Memory, std::byte* data, int64_t bytes) { ReleasePages(data, bytes); }

}  // namespace strata::device
