// The stand-in's device memory and the pinned host memory that devices reach.
//
// Device memory is mapped twice: at the addresses the program sees, where the host may touch
// nothing (an access dies with SIGSEGV, after a message), and where the stand-in reads and writes
// it. Addresses are never used again, so what is used after it was freed is always seen.
// Allocations start 256 bytes behind a page's begin: no kernel can rely on more than the 256 that
// CUDA promises.
//
// Managed memory lies among it. Where its pages are on the host, the host reaches them; its access
// to others is noted, and brings them back (host_access.h).
#ifndef STRATA_DEVICE_STANDIN_DEVICE_MEMORY_H_
#define STRATA_DEVICE_STANDIN_DEVICE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/standin/managed_pages.h"
#include "device/standin/shadow.h"

namespace strata::standin {

// Where the pages of a managed region are; page 0 is the one that it begins on.
struct ManagedPages {
  std::string name;                  // in messages: "residency of managed #3, page"
  std::vector<int> on;               // a device, or kOnHost
  std::vector<OperationId> used_by;  // last
  Shadow moves;                      // a byte for each
};

struct Region {
  enum class Kind : uint8_t { kDevice, kManaged, kPinned, kRegistered };
  Kind kind;
  int device;  // of kDevice
  uint64_t begin;
  uint64_t bytes;
  std::byte* data;  // where the stand-in accesses it
  std::string name;
  Shadow shadow;
  uint64_t changes = 0;  // made by operations, of memory that the host changes too
  std::unique_ptr<ManagedPages> pages = nullptr;  // of kManaged

  bool Holds(uint64_t address, uint64_t count) const {
    return address >= begin && address - begin <= bytes && count <= bytes - (address - begin);
  }
};

class DeviceMemory {
 public:
  // `capacity_bytes` on each device.
  explicit DeviceMemory(int64_t capacity_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Filled with 0xff, which is NaN in every float type. Null: no room.
  Region* Allocate(uint64_t bytes, int device = 0);
  // On the host at first, and zero. Null: no room for its addresses.
  Region* AllocateManaged(uint64_t bytes);
  // Pinned memory of the stand-in's own; what the caller has.
  Region* AllocatePinned(uint64_t bytes);
  Region* Register(void* begin, uint64_t bytes);
  // The region beginning there is gone; false: there is none of a kind that `device` names
  // (managed memory is a device's).
  bool Free(uint64_t begin, bool device);

  // The region that an address lies in, or null.
  Region* Find(uint64_t address);
  // For messages: "4 bytes past the end of global #3 (4096 bytes)".
  std::string Locate(uint64_t address) const;
  // Whether it is an address of the device, allocated or not.
  bool IsDevice(uint64_t address) const { return address - arena_ < kArenaBytes; }

  // What moves a page, and counts it.
  void MovePage(Region& region, uint64_t page, int to);
  void CountPrefetch(int to) { ++(to == kOnHost ? moves_.to_host : moves_.to_device); }
  void CountFault() { ++moves_.faults; }
  const PageMoves& page_moves() const { return moves_; }

  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t used_bytes(int device) const {
    const auto found = used_bytes_.find(device);
    return found == used_bytes_.end() ? 0 : found->second;
  }

 private:
  static constexpr uint64_t kArenaBytes = uint64_t{1} << 39;  // two fit under a thread sanitizer

  Region* Insert(Region::Kind kind, int device, uint64_t begin, uint64_t bytes, std::byte* data);

  int64_t capacity_bytes_;
  std::map<int, int64_t> used_bytes_;  // by device
  int file_ = -1;
  uint64_t arena_ = 0;           // the program's addresses
  std::byte* access_ = nullptr;  // the stand-in's
  uint64_t next_ = 0;            // of the arena, not used yet
  int count_ = 0;
  PageMoves moves_;
  std::map<uint64_t, std::unique_ptr<Region>> regions_;
  std::map<uint64_t, std::pair<uint64_t, std::string>> freed_;
  std::array<Region*, 64> recent_{};  // by page
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_DEVICE_MEMORY_H_
