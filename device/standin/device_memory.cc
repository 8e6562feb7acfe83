#include "device/standin/device_memory.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/check.h"
#include "device/standin/host_access.h"

namespace strata::standin {
namespace {

constexpr uint64_t kPage = 4096, kSkew = 256;

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

DeviceMemory::DeviceMemory(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
  file_ = memfd_create("strata-standin", MFD_CLOEXEC);
  STRATA_CHECK(file_ >= 0);
  STRATA_CHECK(ftruncate(file_, kArenaBytes) == 0);
  const auto map = [&](int protection) {
    void* const at = mmap(nullptr, kArenaBytes, protection, MAP_SHARED | MAP_NORESERVE, file_, 0);
    STRATA_CHECK(at != MAP_FAILED);
    return at;
  };
  arena_ = AddressOf(map(PROT_NONE));
  access_ = static_cast<std::byte*>(map(PROT_READ | PROT_WRITE));
  WatchHostAccess(arena_, kArenaBytes);
}

DeviceMemory::~DeviceMemory() {
  WatchHostAccess(0, 0);
  for (auto& [begin, region] : regions_) {
    if (region->kind == Region::Kind::kPinned) std::free(region->data);
  }
  munmap(reinterpret_cast<void*>(arena_), kArenaBytes);
  munmap(access_, kArenaBytes);
  close(file_);
}

Region* DeviceMemory::Insert(Region::Kind kind, int device, uint64_t begin, uint64_t bytes,
                             std::byte* data) {
  // The host's writes to its own memory are not seen: there, nothing counts as never written.
  const bool of_host = kind != Region::Kind::kDevice;
  std::string name = kind == Region::Kind::kManaged ? "managed" : of_host ? "pinned" : "global";
  name += " #" + std::to_string(++count_);
  if (device > 0) name += " of device " + std::to_string(device);
  auto& region = regions_[begin];
  region = std::make_unique<Region>(
      Region{kind, device, begin, bytes, data, std::move(name), Shadow(bytes, of_host)});
  return region.get();
}

Region* DeviceMemory::Allocate(uint64_t bytes, int device) {
  const uint64_t taken = (kSkew + bytes + 2 * kPage - 1) / kPage * kPage;  // and a page between
  if (bytes > static_cast<uint64_t>(capacity_bytes_ - used_bytes(device)) ||
      taken > kArenaBytes - next_) {
    return nullptr;
  }
  const uint64_t offset = next_ + kSkew;
  next_ += taken;
  used_bytes_[device] += static_cast<int64_t>(bytes);
  std::memset(access_ + offset, 0xff, bytes);
  return Insert(Region::Kind::kDevice, device, arena_ + offset, bytes, access_ + offset);
}

// Its pages are nobody else's.
Region* DeviceMemory::AllocateManaged(uint64_t bytes) {
  const uint64_t first = (arena_ + next_ + kManagedPage - 1) / kManagedPage * kManagedPage;
  const uint64_t count = (kSkew + bytes + kManagedPage - 1) / kManagedPage;
  if ((count + 1) * kManagedPage > kArenaBytes - (first - arena_)) return nullptr;
  next_ = first - arena_ + count * kManagedPage + kPage;  // and a page between
  for (uint64_t page = 0; page < count; ++page) AllowHost(first + page * kManagedPage, true);
  const uint64_t begin = first + kSkew;
  Region* const region =
      Insert(Region::Kind::kManaged, 0, begin, bytes, access_ + (begin - arena_));
  region->pages = std::make_unique<ManagedPages>(
      ManagedPages{"residency of " + region->name + ", page", std::vector<int>(count, kOnHost),
                   std::vector<OperationId>(count, kNever), Shadow(count, true)});
  return region;
}

void DeviceMemory::MovePage(Region& region, uint64_t page, int to) {
  int& on = region.pages->on[page];
  if (on == to) return;
  if (on != kOnHost) used_bytes_[on] -= static_cast<int64_t>(kManagedPage);
  if (to != kOnHost) used_bytes_[to] += static_cast<int64_t>(kManagedPage);
  on = to;
  AllowHost((region.begin / kManagedPage + page) * kManagedPage, to == kOnHost);
}

Region* DeviceMemory::AllocatePinned(uint64_t bytes) {
  void* const data = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage + kPage);
  STRATA_CHECK(data != nullptr);
  Region* const region =
      Insert(Region::Kind::kPinned, 0, AddressOf(data), bytes, static_cast<std::byte*>(data));
  return region;
}

Region* DeviceMemory::Register(void* begin, uint64_t bytes) {
  return Insert(Region::Kind::kRegistered, 0, AddressOf(begin), bytes,
                static_cast<std::byte*>(begin));
}

bool DeviceMemory::Free(uint64_t begin, bool device) {
  const auto found = regions_.find(begin);
  if (found == regions_.end()) return false;
  Region& region = *found->second;
  const bool managed = region.kind == Region::Kind::kManaged;
  if ((managed || region.kind == Region::Kind::kDevice) != device) return false;
  if (managed) {
    for (uint64_t page = 0; page < region.pages->on.size(); ++page) {
      MovePage(region, page, kOnHost);
      ForbidHost((begin / kManagedPage + page) * kManagedPage);
    }
    freed_[begin] = {region.bytes, region.name};
  } else if (device) {
    used_bytes_[region.device] -= static_cast<int64_t>(region.bytes);
    freed_[begin] = {region.bytes, region.name};
    const uint64_t offset = (begin - arena_) / kPage * kPage;
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
              (kSkew + region.bytes + kPage - 1) / kPage * kPage);
  }
  if (region.kind == Region::Kind::kPinned) std::free(region.data);
  regions_.erase(found);
  recent_.fill(nullptr);
  return true;
}

Region* DeviceMemory::Find(uint64_t address) {
  Region*& recent = recent_[address / kPage % recent_.size()];
  // Not the one that ends there: another may begin.
  if (recent != nullptr && recent->Holds(address, 1)) return recent;
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  Region* const region = std::prev(after)->second.get();
  if (!region->Holds(address, 0)) return nullptr;
  recent = region;
  return region;
}

std::string DeviceMemory::Locate(uint64_t address) const {
  const auto freed = freed_.upper_bound(address);
  if (freed != freed_.begin()) {
    const auto& [begin, was] = *std::prev(freed);
    if (address - begin < was.first) return was.second + ", which was freed";
  }
  const auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return "no memory that a device reaches";
  const Region& region = *std::prev(after)->second;
  return "+" + std::to_string(address - region.begin) + " of " + region.name + " (" +
         std::to_string(region.bytes) + " bytes)";
}

}  // namespace strata::standin
