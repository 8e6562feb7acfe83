#include "device/standin/access.h"

#include <string>

namespace strata::standin {

Accessor AccessorOf(OperationId id) {
  Accessor who;
  who.stamp.operation = id;
  return who;
}

std::byte* Reach(Machine& machine, OperationId id, const void* pointer, uint64_t bytes,
                 bool write) {
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  Region* const region = machine.memory.Find(address);
  if (region == nullptr && !machine.memory.IsDevice(address)) {
    return static_cast<std::byte*>(const_cast<void*>(pointer));
  }
  const Accessor who = AccessorOf(id);
  if (region == nullptr || !region->Holds(address, bytes)) {
    machine.checker.Report(
        FindingKind::kOutOfBounds, who.stamp,
        std::to_string(bytes) + " bytes at " + machine.memory.Locate(address) + ", accessed");
    return nullptr;
  }
  const uint64_t offset = address - region->begin;
  if (write) ++region->changes;
  if (machine.options.check) {
    machine.checker.Touch(region->shadow, offset, bytes,
                          write ? Checker::Access::kWrite : Checker::Access::kRead, who,
                          {region->name});
  }
  return region->data + offset;
}

}  // namespace strata::standin
