// Parameters and optimizer state where they live, and their update there: on the device, on the
// host, or on SSD through a pool of pinned slabs that is used round and round.
#ifndef STRATA_PROGRAM_BUILDER_STREAMED_STATE_H_
#define STRATA_PROGRAM_BUILDER_STREAMED_STATE_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "program/builder/streamed.h"

namespace strata::program {

class StreamedState {
 public:
  // Adds the persistent slots of all sets; `bytes` of each are home_bytes(set).
  StreamedState(Assembler& assembler, const LayerGraph& graph, const StreamedOptions& options,
                const UpdateEmitter& update);

  bool on_host() const { return options_.home != Home::kShards; }  // the update runs there
  Tier home_tier() const;
  int64_t home_alignment() const;
  Tier update_tier() const { return on_host() ? Tier::kHost : Tier::kDevice; }
  Stream update_stream() const { return on_host() ? Stream::kHost : Stream::kCompute; }
  int64_t home_bytes(int set) const { return graph_.sets[set].bytes() / options_.data; }
  Operand parameters(int set) const { return Part(set, 0, 0); }

  // Of the program begun last.
  void AddSlabs();
  Operand NextSlab(int64_t bytes);

  // Updates where the state is: device or host memory.
  void UpdateInPlace(int set, const Operand& gradient);
  // Reads the step's own version into slabs, updates it there, writes the next version.
  void UpdateThroughSlabs(int set, const Operand& gradient, std::optional<Predicate> predicate);
  // Makes the next version again from both versions, where the norm turned out to clip.
  void FixUp(int set);

 private:
  int AddHome(const std::string& name, SlotClass klass, int64_t bytes);
  Operand Part(int set, int part, int version) const;
  template <typename State>
  void CallUpdate(int set, const Operand& gradient, State state);
  std::array<Operand, 3> Read(int set);
  void Write(int set, const std::array<Operand, 3>& slabs);
  void Guard(size_t first, std::optional<Predicate> predicate);

  Assembler& assembler_;
  const LayerGraph& graph_;
  const StreamedOptions& options_;
  std::vector<std::array<int, 3>> slots_;  // per set: parameters, first and second moment
  std::vector<int> updates_;               // per set: template
  int64_t slab_bytes_ = 0;
  std::vector<int> slabs_;
  size_t next_slab_ = 0;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_BUILDER_STREAMED_STATE_H_
